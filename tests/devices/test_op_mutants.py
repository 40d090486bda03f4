"""Forty wrong operators, each with another error: `check_op` rejects all of them."""

import itertools
import random

import numpy as np
import pytest

import metatensor as mt
from metatensor.library import define, meta
from metatensor.testing import check_op
from metatensor.testing.values import from_values

pytest.importorskip("metatensor_cpu")
COUNT = itertools.count()
SCHEMA = "(Tensor x, float by=2.0, *, bool negate=False, Tensor? bias=None) -> Tensor"
PAIR = "(Tensor x) -> (Tensor, Tensor)"
LIST = "(Tensor[] xs) -> Tensor"
WRITE = "(Tensor(a!) x, Tensor y) -> ()"


def a(value):
    return np.asarray(value)


def scaled(x, by=2.0, *, negate=False, bias=None):
    values = a(x) * np.float32(by) * (-1 if negate else 1)
    return (values if bias is None else values + a(bias)).astype(a(x).dtype)


def same(x, by=2.0, *, negate=False, bias=None):
    return mt.Spec(x.shape, x.dtype)


def kernel(out, x, by, negate, bias):
    a(out)[...] = scaled(x, by, negate=negate, bias=bias)


def wrong_kernel(change):
    """Return a kernel that modifies the result of the right one."""

    def changed(out, x, by, negate, bias):
        kernel(out, x, by, negate, bias)
        change(a(out), a(x))

    return changed


def matrix(dtype="float32", seed=0):
    return from_values("cpu", np.random.default_rng(seed).permutation(12).reshape(3, 4) - 5, dtype)


SAMPLES = [(matrix(),), (matrix(),), (matrix("int32"),), (matrix(), 3.0, {"bias": matrix(seed=1)}),
           (from_values("cpu", np.array([np.nan, np.inf, -0.0, 1])),), (from_values("cpu", np.empty((0, 3), np.float32)),),
           (from_values("cpu", np.array([2**30 - 1, 5], np.int32)), 1.0),
           (from_values("cpu", np.array(2.5, np.float32)),)]  # fmt: skip
COUNTER = itertools.count()
KEPT = []


def flat_memory(out, x, by, negate, bias):
    """A kernel that ignores the strides of its input."""
    memory = np.lib.stride_tricks.as_strided(a(x), (a(x).size,), (a(x).itemsize,)) if a(x).size else a(x).reshape(-1)
    a(out)[...] = scaled(memory.reshape(a(x).shape), by, negate=negate, bias=bias)


def flat_out(out, x, by, negate, bias):
    values = scaled(x, by, negate=negate, bias=bias)
    np.lib.stride_tricks.as_strided(a(out), (values.size,), (values.itemsize,))[...] = values.reshape(-1) if values.size else 0


def stale(out, x, by, negate, bias):
    a(out)[...] = np.where(a(x) > 0, scaled(x, by, negate=negate, bias=bias), a(out))


def cached(out, x, by, negate, bias):
    KEPT.append(scaled(x, by, negate=negate, bias=bias))
    first = next(value for value in KEPT if value.shape == tuple(out.shape) and value.dtype == a(out).dtype)
    a(out)[...] = first


def adds_up(out, x, by, negate, bias):
    a(out)[...] += scaled(x, by, negate=negate, bias=bias)


KERNELS = {
    "ignores a number": lambda out, x, by, negate, bias: kernel(out, x, 2.0, negate, bias),
    "ignores a switch": lambda out, x, by, negate, bias: kernel(out, x, by, False, bias),
    "ignores a tensor": lambda out, x, by, negate, bias: kernel(out, x, by, negate, None),
    "ignores strides": flat_memory, "keeps what was in out": stale, "adds to out": adds_up, "returns an earlier result": cached,
    "leaves the last element": lambda out, x, by, negate, bias: a(out).reshape(-1)[:-1].__setitem__(
        ..., scaled(x, by, negate=negate, bias=bias).reshape(-1)[:-1]),
    "writes nothing": lambda out, *args: None, "is random": wrong_kernel(lambda out, x: out.__iadd__(random.random() * 0.5)
                                                                        if out.dtype.kind == "f" else None),
    "is off every other time": wrong_kernel(lambda out, x: out.__imul__(1 + next(COUNTER) % 2)),
    "writes its input": wrong_kernel(lambda out, x: x.reshape(-1)[:1].__setitem__(..., 9) if x.flags.c_contiguous else None),
    "loses NaN": wrong_kernel(lambda out, x: out.__setitem__(np.isnan(out), 0) if out.ndim else None),
    "cuts infinity": wrong_kernel(lambda out, x: out.__setitem__(np.isinf(out), 1e30) if out.ndim else None),
    "integers in single precision": lambda out, x, by, negate, bias: a(out).__setitem__(
        ..., scaled(a(x).astype("f4"), by, negate=negate, bias=bias)),
    "rounds to half": wrong_kernel(lambda out, x: out.__setitem__(..., (out * 1.3).astype("f2") / 1.3) if out.dtype.kind == "f" else None),
    "branches on data": wrong_kernel(lambda out, x: out.__iadd__(1) if x.size and (x > 5).any() else None),
    "fails on nothing": wrong_kernel(lambda out, x: x.reshape(-1)[0]),
    "fails on numbers": wrong_kernel(lambda out, x: x[0]),
    "returns another dtype": lambda out, x, *args: from_values("cpu", scaled(x).astype("f8")),
    "returns another shape": lambda out, x, *args: from_values("cpu", scaled(x).reshape(-1)[:1]),
    "returns too many": lambda out, x, *args: (from_values("cpu", scaled(x)),) * 2,
    "returns an array": lambda out, x, *args: scaled(x),
    "swaps rows": wrong_kernel(lambda out, x: out.__setitem__(..., out[::-1].copy()) if out.ndim else None),
}  # fmt: skip


def item(x, *args, **kwargs):
    return mt.Spec((int(x.sum().item()) % 3, *x.shape[1:]), x.dtype)


METAS = {
    "dtype of another dtype": lambda x, by=2.0, *, negate=False, bias=None: mt.Spec(x.shape, mt.float32),
    "dtype of the default": lambda x, by=2.0, *, negate=False, bias=None: mt.Spec(x.shape, mt.get_default_dtype()),
    "strides of the input": lambda x, by=2.0, *, negate=False, bias=None: mt.Spec(x.shape, x.dtype,
                                                                                   strides=(1, 3) if x.dim() == 2 else None),
    "needs values": item,
    "shape by an option": lambda x, by=2.0, *, negate=False, bias=None: mt.Spec((*x.shape, 1) if negate else x.shape, x.dtype),
    "shape of a missing tensor": lambda x, by=2.0, *, negate=False, bias=None: mt.Spec(x.shape if bias is None else (1,), x.dtype),
    "fails on nothing": lambda x, by=2.0, *, negate=False, bias=None: mt.Spec(x.shape, x.dtype) if x.numel() else 1 / 0,
    "rank of numbers": lambda x, by=2.0, *, negate=False, bias=None: mt.Spec(tuple(x.shape) or (1,), x.dtype),
    "another device": lambda x, by=2.0, *, negate=False, bias=None: mt.Spec(x.shape, x.dtype, device="cpu"),
    "returns its input": lambda x, by=2.0, *, negate=False, bias=None: x,
    "returns a view": lambda x, by=2.0, *, negate=False, bias=None: x.reshape(x.shape).view(x.shape),
    "writes": lambda x, by=2.0, *, negate=False, bias=None: x.add_(1) and None or mt.Spec(x.shape, x.dtype),
}  # fmt: skip


def make(schema, body, kernel):
    op = define(f"mutants::op{next(COUNT)}{schema}")
    meta(op.name)(body)
    op.kernel("cpu")(kernel)
    return op


def survives(op, samples, reference):
    KEPT.clear()
    try:
        check_op(op, samples, reference=reference)
    except AssertionError:
        return False
    return True


def two(x):
    return a(x).sum(0), a(x).max(0)


def total(xs):
    return np.sum([a(x) for x in xs], axis=0)


def add_to(x, y):
    a(x)[...] += a(y)


def halves(x):
    return (mt.Spec(x.shape[1:], x.dtype),) * 2


def write_both(out, x, y):
    add_to(x, y)
    a(y)[...] = 0


OTHERS = {
    "results in the other order": (PAIR, halves,
                                   lambda out, x: [a(o).__setitem__(..., v) for o, v in zip(out, two(x)[::-1])] and None, two, "x"),
    "second result left out": (PAIR, halves, lambda out, x: a(out[0]).__setitem__(..., two(x)[0]), two, "x"),
    "one of a list": (LIST, lambda xs: mt.Spec(xs[0].shape, xs[0].dtype), lambda out, xs: a(out).__setitem__(..., a(xs[0])), total, "xs"),
    "writes the other argument": (WRITE, lambda x, y: None, lambda out, x, y: add_to(y, x), add_to, "xy"),
    "writes more than it says": (WRITE, lambda x, y: None, write_both, add_to, "xy"),
}  # fmt: skip
INPUTS = {"x": [(matrix(),)], "xs": [([matrix(), matrix(seed=1)],)], "xy": [(matrix(), matrix(seed=1))]}


def test_the_right_ones_pass():
    assert survives(make(SCHEMA, same, kernel), SAMPLES, scaled)
    right = lambda out, x: [a(o).__setitem__(..., v) for o, v in zip(out, two(x), strict=True)] and None
    assert survives(make(PAIR, halves, right), INPUTS["x"], two)
    assert survives(make(LIST, OTHERS["one of a list"][1], lambda out, xs: a(out).__setitem__(..., total(xs))), INPUTS["xs"], total)
    assert survives(make(WRITE, lambda x, y: None, lambda out, x, y: add_to(x, y)), INPUTS["xy"], add_to)


@pytest.mark.parametrize("way", KERNELS)
def test_wrong_kernels(way):
    assert not survives(make(SCHEMA, same, KERNELS[way]), SAMPLES, scaled)


@pytest.mark.parametrize("way", METAS)
def test_wrong_metas(way):
    assert not survives(make(SCHEMA, METAS[way], kernel), SAMPLES, scaled)


@pytest.mark.parametrize("way", OTHERS)
def test_other_schemas(way):
    schema, body, wrong, reference, inputs = OTHERS[way]
    assert not survives(make(schema, body, wrong), INPUTS[inputs], reference)


def test_there_are_forty():
    assert len(KERNELS) + len(METAS) + len(OTHERS) >= 40
