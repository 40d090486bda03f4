"""check_op accepts correct operators, and detects every kind of error in meta functions and kernels."""

import itertools

import numpy as np
import pytest

import metatensor as mt
from metatensor.library import define, meta
from metatensor.testing import check_op
from metatensor.testing.samples import Sample, Spec
from metatensor.testing.values import from_values

pytest.importorskip("metatensor_cpu")
COUNT = itertools.count()


def matrix(strided=False, dtype="float32"):
    return from_values("cpu", np.arange(6).reshape(2, 3) - 2, dtype, strided=strided)


def array(tensor):
    """Return a writable NumPy view of a cpu tensor."""
    return np.asarray(tensor)


def make(schema, body, kernel=None):
    """Define a custom op under a new name. ``schema`` is the schema without the name."""
    op = define(f"check::op{next(COUNT)}{schema}")
    meta(op.name)(body)
    if kernel is not None:
        op.kernel("cpu")(kernel)
    return op


def same(x):
    return mt.Spec(x.shape, x.dtype)


def doubled(out, x):
    array(out)[...] = 2 * array(x)


def reference(x):
    return 2 * array(x)


def problems(op, *samples, reference=reference, **kwargs):
    with pytest.raises(AssertionError) as raised:
        check_op(op, samples or [(matrix(),)], reference=reference, **kwargs)
    return str(raised.value)


def test_a_right_op():
    op = make("(Tensor x) -> Tensor", same, doubled)
    samples = [(matrix(),), {"x": matrix(strided=True)}, (matrix(dtype="float64"), {}), Sample({"x": Spec((3, 4), "float32")})]
    report = check_op(op, samples, reference=reference)
    assert report.ok and report.samples == 4 and report.devices == ["cpu"]
    assert str(report) == f"op {op.name}: 4 samples on cpu, 0 problems"
    assert check_op(op, samples).ok


def test_a_mutation_that_is_not_declared():
    def kernel(out, x):
        doubled(out, x)
        array(x)[0, 0] = 9

    op = make("(Tensor x) -> Tensor", same, kernel)
    assert "on cpu, argument x changes, but the schema does not mark it as written" in problems(op)


def test_a_mutation():
    def kernel(out, x):
        array(x)[...] += 1

    def add_one(x):
        array(x)[...] += 1

    op = make("(Tensor(a!) x) -> ()", lambda x: None, kernel)
    assert check_op(op, [(matrix(),), (matrix(strided=True),)], reference=add_one).ok
    wrong = make("(Tensor(a!) x) -> ()", lambda x: None, lambda out, x: None)
    assert "on cpu, argument x after the call: 6 of 6 values differ" in problems(wrong, reference=add_one)


def test_wrong_values():
    op = make("(Tensor x) -> Tensor", same, lambda out, x: array(out).__setitem__(..., 3 * array(x)))
    assert "on cpu, result 0: 5 of 6 values differ, the first at (0, 0): -6.0 instead of -4.0" in problems(op)


def test_errors_of_the_op():
    def raises(out, x):
        raise ValueError("no such luck")

    assert "ValueError: no such luck" in problems(make("(Tensor x) -> Tensor", same, raises))
    assert "TypeError: " in problems(make("(Tensor x) -> Tensor", same, doubled), (matrix(), 5))


def test_devices_without_a_kernel():
    op = make("(Tensor x) -> Tensor", same)
    report = check_op(op, [(matrix(),)], reference=reference)
    assert report.devices == [] and "on meta alone" in str(report)
    assert "NotImplementedError" in problems(op, devices=["cpu"])


def test_lists_of_tensors():
    op = make("(Tensor[] xs) -> Tensor", lambda xs: mt.Spec((len(xs),), xs[0].dtype), lambda out, xs: array(out).__setitem__(
        ..., [array(x).sum() for x in xs]))
    samples = [([matrix(), matrix(strided=True)],)]
    assert check_op(op, samples, reference=lambda xs: np.array([array(x).sum() for x in xs])).ok


@pytest.mark.torch
@pytest.mark.parametrize("name, args", [
    ("exp", ()), ("sum", (1,)), ("softmax", (0,)), ("t", ()), ("add", (2,)), ("max", (1,)), ("cumsum", (0,)), ("sort", ()),
])
def test_pytorch_as_the_reference(name, args):
    torch = pytest.importorskip("torch")
    samples = [(matrix(), *args), (matrix(strided=True), *args)]
    assert check_op(getattr(mt, name), samples, reference=getattr(torch, name)).ok
