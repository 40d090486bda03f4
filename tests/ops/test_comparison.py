"""Comparisons, logical and bitwise operators: values compared with NumPy and PyTorch, dtypes and errors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metatensor as mt
from ops.against import agree
from ops.layouts import conform, layouts
from ops.pairs import DTYPES, INTS, grid, outcome, pair, same, samples, values

COMPARE = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor,
}  # fmt: skip
BITS = ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift")
ALIASES = {"not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge"}


def meta(dtype, shape=(2,)):
    return mt.empty(shape, dtype=getattr(mt, dtype), device="meta")


@pytest.mark.parametrize("op", COMPARE)
def test_values_of_numpy(op, device):
    left, right = grid(*[np.array([-1.0, 0.0, 2.5, np.inf, np.nan], "float32")] * 2)
    a, b = mt.from_numpy(left).to(device), mt.from_numpy(right).to(device)
    result = getattr(mt, op)(a, b)
    assert result.dtype is mt.bool
    np.testing.assert_array_equal(result.cpu().numpy(), COMPARE[op](left, right))


@pytest.mark.torch
@pytest.mark.parametrize("op", (*COMPARE, *BITS))
def test_values_of_torch(op):
    import torch

    for dtype in DTYPES:
        left, right = grid(samples(dtype), samples(dtype))
        (a, x), (b, y) = pair(left, dtype), pair(right, dtype)
        reference = outcome(getattr(torch, op), x, y)
        if not isinstance(reference, Exception):
            same(getattr(mt, op)(a, b), reference)


@pytest.mark.torch
@pytest.mark.parametrize("number", [1, 0.5, 0.3, True, 1j, 0.1])
@pytest.mark.parametrize("op", ["eq", "ne", "lt", "ge"])
def test_numbers(op, number):
    import torch

    for dtype in DTYPES:
        ours, theirs = pair(np.append(samples(dtype), np.array([0.1]).astype(samples(dtype).dtype)), dtype)
        reference = outcome(getattr(torch, op), theirs, number)
        if not isinstance(reference, Exception):
            same(getattr(mt, op)(ours, number), reference)


@pytest.mark.torch
@pytest.mark.parametrize("shapes", [((3,), ()), ((), ())])
def test_a_0d_tensor_is_compared_in_the_other_dtype(shapes):
    import torch

    (a, x), (b, y) = pair(np.full(shapes[0], 0.1, "float32")), pair(np.full(shapes[1], 0.1, "float64"))
    same(mt.eq(a, b), torch.eq(x, y))


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_a_0d_tensor_is_rounded_to_half_precision(half):
    for value in (0.1, 1 / 3, 1e-8, 70000.0):
        for wide in (mt.float32, mt.float64, mt.float16, mt.bfloat16):
            number = mt.tensor(value, dtype=mt.float64, device="cpu").to(wide)
            x = number.to(getattr(mt, half)).reshape(1)
            assert (x == number).item() and (number == x).item() and not (x != number).item()
            assert not (x < number).item() and (number >= x).item()
            assert mt.equal(x.reshape(()) == number, x.reshape(()).to(mt.float64) == number.to(mt.float64))


@pytest.mark.torch
def test_isclose():
    import torch

    for dtype in ("float32", "float64", "int32", "uint8", "bool", "complex64"):
        left, right = grid(samples(dtype), samples(dtype))
        (a, x), (b, y) = pair(left, dtype), pair(right, dtype)
        for options in ({}, {"rtol": 0.2, "equal_nan": True}, {"atol": 0.2}, {"rtol": 0.0, "atol": 0.0}):
            same(mt.isclose(a, b, **options), torch.isclose(x, y, **options))


@pytest.mark.parametrize("dtype", INTS)
def test_shifts_beyond_the_bits(dtype, device):
    bits = np.iinfo(dtype).bits
    t = mt.from_numpy(np.array([5, 1], dtype)).to(device)
    assert values(t << bits).tolist() == [0, 0]
    assert values(t >> bits).tolist() == [0, 0]
    if dtype != "uint8":
        assert values(-t >> bits).tolist() == [-1, -1]


def test_in_place_keeps_the_dtype(device):
    t = mt.from_numpy(np.array([1.0, 2.0], "float32")).to(device)
    assert t.gt_(1.5) is t
    assert t.dtype is mt.float32
    assert values(t).tolist() == [0.0, 1.0]


def test_bool_bits(device):
    a = mt.from_numpy(np.array([True, False])).to(device)
    assert values(~a).tolist() == [False, True]
    assert values(a & True).tolist() == [True, False]
    assert values(a | 2).tolist() == [3, 2]


@pytest.mark.parametrize("name", ALIASES)
def test_aliases(name):
    assert getattr(mt, name) is getattr(mt, ALIASES[name])


@pytest.mark.parametrize(
    "op, first, second, error",
    [
        ("lt", "complex64", "float32", NotImplementedError), ("ge", "float32", "complex64", NotImplementedError),
        ("bitwise_and", "float32", "int32", NotImplementedError), ("bitwise_or", "int8", "complex64", NotImplementedError),
        ("bitwise_left_shift", "bool", "bool", NotImplementedError), ("isclose", "float32", "float64", RuntimeError),
    ],
)  # fmt: skip
def test_dtypes_without_comparison(op, first, second, error):
    with pytest.raises(error, match=op) as caught:
        getattr(mt, op)(meta(first), meta(second))
    assert caught.type is error


def test_bitwise_operators_refuse_floats():
    with pytest.raises(NotImplementedError):
        meta("int32") & 1.5
    with pytest.raises(NotImplementedError):
        meta("float32") >> 1


def test_negative_tolerances():
    with pytest.raises(RuntimeError, match="rtol"):
        mt.isclose(meta("float32"), meta("float32"), rtol=-1)
    with pytest.raises(RuntimeError, match="atol"):
        mt.isclose(meta("float32"), meta("float32"), atol=-1)


def test_comparison_with_what_is_no_number():
    t = meta("float32")
    assert (t == None) is False  # noqa: E711
    assert (t != "text") is True
    with pytest.raises(TypeError):
        t < "text"  # noqa: B015


@pytest.mark.torch
@given(layouts(), layouts(), st.sampled_from([*DTYPES, "uint16"]), st.sampled_from(DTYPES))
def test_isin_metadata(elements, others, dtype, other):
    conform(lambda m, a, b: m.isin(a, b), (elements, dtype), (others, other))
    conform(lambda m, a: (m.isin(a, 2), m.isin(a, 1.5, invert=True), m.isin(2, a)), (elements, dtype))


@pytest.mark.torch
@given(st.lists(st.sampled_from([0, 1, 2, 7, 200, 0.1, 1.5, np.nan]), max_size=9), st.data())
def test_isin_values(numbers, data):
    """Values are compared in the common dtype. NaN is in nothing.

    With ten or more elements PyTorch uses another algorithm, in which 0.1 is a double.
    """
    import torch

    a, b = (data.draw(st.sampled_from(["uint8", "int64", "float16", "float32", "float64"])) for _ in range(2))
    x, y = torch.tensor(numbers).nan_to_num(3).to(getattr(torch, a)), torch.tensor([0.1, 1, 200]).to(getattr(torch, b))
    invert, number = data.draw(st.booleans()), data.draw(st.sampled_from([0, 1, 1.5, 0.1, 200]))
    agree(lambda m, x, y: m.isin(x, y, invert=invert), x, y)
    if "float16" not in (a, b):
        agree(lambda m, x, y: m.isin(x, y[0]), x, y)
    agree(lambda m, x: (m.isin(x, number), m.isin(number, x, invert=invert)), x)


def test_isin_takes_one_number():
    with pytest.raises(TypeError):
        mt.isin(1, 2)
    with pytest.raises(RuntimeError, match="isin.*bool"):
        mt.isin(meta("bool"), 1)
    nan = mt.tensor([np.nan, 1.0])
    assert mt.isin(nan, nan).tolist() == [False, True]
