"""Wrong meta functions are detected by a NumPy reference and by PyTorch's."""

import itertools

import numpy as np
import pytest

import metatensor as mt
from metatensor.library import define, meta
from metatensor.testing import check_op
from metatensor.testing.values import from_values

pytest.importorskip("metatensor_cpu")
COUNT = itertools.count()
PLAIN, TORCH = "a plain function", "PyTorch"


def x():
    return from_values("cpu", np.arange(6, dtype=np.float32).reshape(2, 3) - 2)


def make(schema, body, kernel=None, **options):
    op = define(f"wrong_metas::op{next(COUNT)}{schema}", **options)
    meta(op.name)(body)
    if kernel is not None:
        op.kernel("cpu")(kernel)
    return op


def nothing(out, *args):
    """A correct kernel, for cases in which only the meta function is wrong."""


def doubled(out, x):
    np.asarray(out)[...] = 2 * np.asarray(x)


def add_one(out, x):
    np.asarray(x)[...] += 1


def sums(out, x):
    np.asarray(out[0])[...] = np.asarray(x).sum(1)
    np.asarray(out[1])[...] = np.asarray(x).mean(1)


def same(x):
    return mt.Spec(x.shape, x.dtype)


def written_in_body(x):
    x.add_(1)
    return same(x)


def transposed_in_body(x):
    x.t_()
    return mt.Spec((2, 3), x.dtype)


UNARY = "(Tensor x) -> Tensor"
PAIR = "(Tensor x) -> (Tensor, Tensor)"
VIEW = "(Tensor(a) x) -> Tensor(a)"
WRITE = "(Tensor(a!) x) -> ()"


# For each error: the op, a correct reference, the name of PyTorch's function, and the text of the report.
def double(x):
    return 2 * np.asarray(x)


def increment(x):
    np.asarray(x)[...] += 1


def two(x):
    values = np.asarray(x)
    return values.sum(1), values.mean(1)


def torch_two(torch):
    return lambda x: (x.sum(1), x.mean(1))


def first_row(x):
    return np.asarray(x)[0].copy()


REFERENCES = {
    "double": (double, lambda torch: lambda x: x * 2),
    "increment": (increment, lambda torch: lambda x: _discard(x.add_(1))),
    "two": (two, torch_two),
    "first row": (first_row, lambda torch: lambda x: x[0]),
    "copy of the first row": (first_row, lambda torch: lambda x: x[0].clone()),
}


def _discard(_):
    return None


WRONG = {
    "shape": (UNARY, lambda x: mt.Spec((3, 2), x.dtype), nothing, "double",
              "on meta, result 0 has shape (3, 2), but the reference returned shape (2, 3)"),
    "rank": (UNARY, lambda x: mt.Spec((2, 3, 1), x.dtype), nothing, "double",
             "on meta, result 0 has shape (2, 3, 1), but the reference returned shape (2, 3)"),
    "strides": (UNARY, lambda x: mt.Spec(x.shape, x.dtype, strides=(1, 2)), doubled, "double",
                "on meta, result 0 has strides (1, 2), but the reference returned strides (3, 1)"),
    "gaps": (UNARY, lambda x: mt.Spec(x.shape, x.dtype, strides=(6, 2)), doubled, "double",
             "on meta, result 0 has strides (6, 2), but the reference returned strides (3, 1)"),
    "dtype": (UNARY, lambda x: mt.Spec(x.shape, mt.float64), doubled, "double",
              "on meta, result 0 has dtype float64, but the reference returned dtype float32"),
    "returns its argument": (UNARY, lambda x: x, nothing, "double",
                             "on meta, result 0 shares memory with argument x, unlike the schema"),
    "returns a view": (UNARY, lambda x: x.t().t(), nothing, "double",
                       "on meta, result 0 shares memory with argument x, unlike the schema"),
    "returns no view": (VIEW, lambda x: x.new_empty((3,)), None, "first row",
                        "on meta, result 0 shares no memory with an argument, unlike the schema"),
    "returns one tensor twice": (PAIR, lambda x: (x.new_empty((2,)),) * 2, sums, "two", "on meta, results 0 and 1 share memory"),
    "does not mark a write": ("(Tensor x) -> ()", lambda x: None, add_one, "increment",
                              "the reference changes argument x, but the schema does not mark it as written"),
    "marks a write": ("(Tensor(a!) x) -> Tensor", same, doubled, "double",
                      "the schema marks argument x as written, but the reference leaves it as it is in every sample"),
    "writes by itself": (UNARY, written_in_body, doubled, "double",
                         "on meta, argument x is written to (its version rises), but the schema does not mark it as written"),
    "makes its argument over": (UNARY, transposed_in_body, doubled, "double",
                                "on meta, argument x changes from shape (2, 3), strides (3, 1) and dtype float32 to shape (3, 2)"),
    "too many results": (PAIR, lambda x: (same(x), same(x)), nothing, "double",
                         "on meta, the call returned 2 results, but the reference returned 1"),
    "too few results": (UNARY, lambda x: mt.Spec((2,), x.dtype), nothing, "two",
                        "on meta, the call returned 1 result, but the reference returned 2"),
    "results not those of the schema": (PAIR, same, sums, "two",
                                        "on meta, TypeError: {op}: the meta function returned a Spec, which is not what the schema says"),
    "device": (UNARY, lambda x: mt.Spec(x.shape, x.dtype, device="cpu"), doubled, "double",
               "on meta, result 0 is on the device cpu, but the arguments are on meta"),
    "device of values": (UNARY, lambda x: mt.Spec(x.shape, x.dtype, device="meta"), doubled, "double",
                         "on cpu, RuntimeError: {op}: the meta function puts a result on the device meta, but the arguments are on cpu"),
}  # fmt: skip


@pytest.mark.parametrize("kind", [PLAIN, pytest.param(TORCH, marks=pytest.mark.torch)])
@pytest.mark.parametrize("way", WRONG)
def test_a_wrong_meta_is_caught(way, kind):
    schema, body, kernel, right, message = WRONG[way]
    op = make(schema, body, kernel)
    with pytest.raises(AssertionError) as raised:
        check_op(op, [(x(),)], reference=reference(right, kind), pytorch=kind is TORCH)
    assert message.format(op=op.name) in str(raised.value)
    assert str(raised.value).startswith(f"op {op.name}: 1 samples")


def reference(name, kind):
    plain, by_torch = REFERENCES[name]
    if kind is PLAIN:
        return plain
    torch = pytest.importorskip("torch")
    return by_torch(torch)


RIGHT = {
    "unary": (UNARY, same, doubled, "double"),
    "pair": (PAIR, lambda x: (mt.Spec((2,), x.dtype),) * 2, sums, "two"),
    "view": (VIEW, lambda x: x[0], None, "first row"),
    "write": (WRITE, lambda x: None, add_one, "increment"),
}


@pytest.mark.parametrize("kind", [PLAIN, pytest.param(TORCH, marks=pytest.mark.torch)])
@pytest.mark.parametrize("way", RIGHT)
def test_right_ones_pass(way, kind):
    schema, body, kernel, right = RIGHT[way]
    assert check_op(make(schema, body, kernel), [(x(),)], reference=reference(right, kind), pytorch=kind is TORCH, devices=["cpu"]).ok


@pytest.mark.torch
def test_a_view_where_pytorch_makes_a_copy():
    """The schema and the meta function agree, so only PyTorch can detect it."""
    op = make(VIEW, lambda x: x[0])
    with pytest.raises(AssertionError, match="result 0 shares memory with x, but the result of the reference shares memory with none"):
        check_op(op, [(x(),)], reference=reference("copy of the first row", TORCH), pytorch=True)
    op = make(UNARY, lambda x: mt.Spec((3,), x.dtype), lambda out, x: np.asarray(out).__setitem__(..., np.asarray(x)[0]))
    with pytest.raises(AssertionError, match="shares memory with no argument, but the result of the reference shares memory with x"):
        check_op(op, [(x(),)], reference=reference("first row", TORCH), pytorch=True)


def test_the_wrong_argument_is_written():
    op = make("(Tensor(a!) x, Tensor y) -> ()", lambda x, y: None, lambda out, x, y: add_one(out, y))

    def right(x, y):
        increment(x)

    with pytest.raises(AssertionError) as raised:
        check_op(op, [(x(), x())], reference=right)
    text = str(raised.value)
    assert "on cpu, argument y changes, but the schema does not mark it as written" in text
    assert "on cpu, argument x after the call: 6 of 6 values differ, the first at (0, 0): -2.0 instead of -1.0" in text


def test_a_result_that_depends_on_the_data():
    def positive(out, x):
        values = np.asarray(x)
        return from_values("cpu", values[values > 0])

    op = make(UNARY, lambda x: None, positive, data_dependent=True)
    assert check_op(op, [(x(),)], reference=lambda x: np.asarray(x)[np.asarray(x) > 0]).ok
    with pytest.raises(AssertionError, match=r"on cpu, result 0 has shape \(3,\), but the reference returned shape \(2,\)"):
        check_op(op, [(x(),)], reference=lambda x: np.asarray(x)[np.asarray(x) > 1])


def test_strides_may_be_left_out():
    op = make(UNARY, lambda x: mt.Spec(x.shape, x.dtype, strides=(1, 2)), doubled)
    assert check_op(op, [(x(),)], reference=double, strides=False).ok
    # A NumPy result in another order is a reference for such strides.
    assert check_op(op, [(x(),)], reference=lambda x: np.asfortranarray(double(x))).ok


def test_references_that_fail():
    op = make(UNARY, same, doubled)
    with pytest.raises(AssertionError, match="the reference raises ValueError: no"):
        check_op(op, [(x(),)], reference=lambda x: (_ for _ in ()).throw(ValueError("no")))
    with pytest.raises(AssertionError, match=r"on meta, result 0 has shape \(2, 3\), but the reference returned a number"):
        check_op(op, [(x(),)], reference=lambda x: 1.0)
    with pytest.raises(AssertionError, match="result 0 is a Tensor, but the reference returned a str"):
        check_op(op, [(x(),)], reference=lambda x: "no")


def test_an_op_that_makes_tensors():
    """An op without tensor arguments gets the device as an argument."""
    op = make("(int n, *, device? device=None) -> Tensor", lambda n, *, device=None: mt.Spec((n,), mt.float32),
              lambda out, n, device: np.asarray(out).fill(n))
    assert check_op(op, [(3,), (2, {"device": "cpu"})], reference=lambda n, device=None: np.full(n, n, np.float32)).ok
