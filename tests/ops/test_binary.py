"""Element-wise arithmetic on two operands: values compared with NumPy and PyTorch, dtypes and errors."""

import numpy as np
import pytest

import metatensor as mt
from ops.pairs import COMPLEX, DTYPES, FLOATS, INTS, grid, outcome, pair, same, samples, values

OPS = (
    "add", "sub", "mul", "div", "floor_divide", "remainder", "fmod", "pow", "float_power", "atan2", "maximum",
    "minimum", "fmax", "fmin", "hypot", "nextafter", "xlogy", "gcd", "lcm", "heaviside", "rsub", "copysign", "ldexp",
    "logaddexp", "logaddexp2", "igamma", "igammac",
)  # fmt: skip

ALIASES = {"subtract": "sub", "multiply": "mul", "divide": "div", "true_divide": "div", "arctan2": "atan2"}


def meta(dtype, shape=(2,)):
    return mt.empty(shape, dtype=getattr(mt, dtype), device="meta")


def operands(op, dtype):
    """Return values for which both libraries agree."""
    array = samples(dtype)
    if dtype in INTS:
        # Overflowing divisions trap in C, and the smallest integer has no absolute value.
        array = array[np.abs(array.astype("float64")) < 100]
    elif dtype in FLOATS:
        array = array[~np.isnan(array)] if op in ("igamma", "igammac", "copysign") else array
        if dtype not in ("float32", "float64") and op == "ldexp":
            array = array[(np.abs(array) < 15) & (array != np.float32(0.3)) & (array != np.float32(3.7))]
    left, right = grid(array, array)
    if op in ("floor_divide", "remainder", "fmod") and dtype in INTS:
        right = np.where(right == 0, 3, right).astype(dtype)
    if dtype in COMPLEX:
        right = np.where(right == 0, 1, right).astype(dtype)  # 0 ** 0, and division by 0
    return left, right


@pytest.mark.parametrize(
    "op, function",
    [("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("div", np.divide), ("atan2", np.arctan2),
     ("maximum", np.maximum), ("fmin", np.fmin), ("hypot", np.hypot), ("remainder", np.remainder), ("fmod", np.fmod),
     ("floor_divide", np.floor_divide), ("logaddexp", np.logaddexp), ("nextafter", np.nextafter)],
)  # fmt: skip
def test_values_of_numpy(op, function, device):
    left, right = grid(*[np.array([-3.5, -1.0, 0.5, 2.0, np.inf], "float32")] * 2)
    with np.errstate(all="ignore"):
        expected = function(left, right)
    a, b = mt.from_numpy(left).to(device), mt.from_numpy(right).to(device)
    np.testing.assert_allclose(getattr(mt, op)(a, b).cpu().numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(getattr(a, op)(b).cpu().numpy(), expected, rtol=1e-6)


@pytest.mark.torch
@pytest.mark.parametrize("op", OPS)
def test_values_of_torch(op):
    import torch

    for dtype in DTYPES:
        left, right = operands(op, dtype)
        (a, x), (b, y) = pair(left, dtype), pair(right, dtype)
        reference = outcome(getattr(torch, op), x, y)
        if not isinstance(reference, Exception):
            same(getattr(mt, op)(a, b), reference)


@pytest.mark.torch
@pytest.mark.parametrize("first, second", [("int32", "float32"), ("uint8", "int16"), ("bool", "float16"), ("bfloat16", "float16")])
def test_mixed_dtypes(first, second):
    import torch

    left, right = grid(samples(first), samples(second))
    right = np.where(right == 0, np.ones_like(right), right)
    (a, x), (b, y) = pair(left, first), pair(right, second)
    for op in ("add", "mul", "div", "floor_divide", "remainder", "maximum"):
        same(getattr(mt, op)(a, b), getattr(torch, op)(x, y))


@pytest.mark.torch
@pytest.mark.parametrize("number", [2, 2.5, True, -3, 0.1, 1j])
@pytest.mark.parametrize("op", ["add", "sub", "mul", "div", "floor_divide", "remainder", "fmod", "pow", "float_power", "copysign", "xlogy"])
def test_numbers(op, number):
    import torch

    for dtype in DTYPES:
        if dtype == "float16" and isinstance(number, complex):
            continue  # complex32
        array = samples(dtype)
        if isinstance(number, complex):
            array = array[np.isfinite(array)]  # PyTorch may compute without converting these elements to complex
            if op == "pow":
                array = array[array != 0]
        ours, theirs = pair(array, dtype)
        reference = outcome(getattr(torch, op), theirs, number)
        if not isinstance(reference, Exception):
            same(getattr(mt, op)(ours, number), reference)


@pytest.mark.torch
@pytest.mark.parametrize("mode", ["floor", "trunc"])
def test_rounding_modes(mode):
    import torch

    for dtype in (*INTS, "float32", "float64"):
        left, right = operands("fmod", dtype)
        (a, x), (b, y) = pair(left, dtype), pair(right, dtype)
        same(mt.div(a, b, rounding_mode=mode), torch.div(x, y, rounding_mode=mode))


@pytest.mark.torch
@pytest.mark.parametrize("op", ["add", "sub", "rsub"])
def test_alpha(op):
    import torch

    for dtype in (*INTS, *FLOATS, *COMPLEX):
        left, right = operands(op, dtype)
        (a, x), (b, y) = pair(left, dtype), pair(right, dtype)
        same(getattr(mt, op)(a, b, alpha=3), getattr(torch, op)(x, y, alpha=3))


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_complex_from_parts(dtype):
    import torch

    (a, x), (b, y) = pair(np.array([1.0, -2.0], dtype)), pair(np.array([0.5, 3.0], dtype))
    same(mt.complex(a, b), torch.complex(x, y))
    same(mt.polar(a, b), torch.polar(x, y))


def test_division_by_zero(device):
    ints = mt.from_numpy(np.array([1, 2])).to(device)
    for op in (mt.floor_divide, mt.remainder, mt.fmod):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            op(ints, 0)
    floats = mt.from_numpy(np.array([1.0, -1.0])).to(device)
    assert values(floats // 0).tolist() == [np.inf, -np.inf]
    assert np.isnan(values(floats % 0)).all()


def test_integer_powers(device):
    ints = mt.from_numpy(np.array([2, -1, 1, 0])).to(device)
    assert values(ints**3).tolist() == [8, -1, 1, 0]
    assert values(ints ** mt.from_numpy(np.array([-1, -3, -2, -1])).to(device)).tolist() == [0, -1, 1, 0]
    with pytest.raises(RuntimeError, match="negative"):
        ints**-1
    with pytest.raises(RuntimeError, match="negative"):
        meta("int32") ** -1


def test_numbers_wrap_around(device):
    t = mt.from_numpy(np.array([1], "uint8")).to(device)
    assert values(t + 300).tolist() == [45]
    assert values(t - 2).tolist() == [255]


def test_broadcast_and_in_place(device):
    a = mt.from_numpy(np.arange(6, dtype="float32").reshape(2, 3)).to(device)
    b = mt.from_numpy(np.array([10.0, 20.0, 30.0], "float32")).to(device)
    assert values(a + b).tolist() == [[10, 21, 32], [13, 24, 35]]
    view = a.t()
    view *= 2
    assert values(a).tolist() == [[0, 2, 4], [6, 8, 10]]
    a.sub_(a)
    assert values(a).tolist() == [[0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("name", ALIASES)
def test_aliases(name):
    assert getattr(mt, name) is getattr(mt, ALIASES[name])


# Errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "op, first, second, error",
    [
        ("sub", "bool", "float32", RuntimeError), ("sub", "float32", "bool", RuntimeError),
        ("rsub", "bool", "int32", RuntimeError), ("maximum", "complex64", "float32", RuntimeError),
        ("remainder", "bool", "bool", NotImplementedError), ("floor_divide", "complex64", "int8", NotImplementedError),
        ("atan2", "complex64", "float32", NotImplementedError), ("hypot", "int32", "int32", NotImplementedError),
        ("gcd", "float32", "int32", NotImplementedError), ("lcm", "bool", "bool", NotImplementedError),
        ("heaviside", "float32", "float64", RuntimeError), ("heaviside", "complex64", "complex64", RuntimeError),
        ("complex", "float32", "float64", RuntimeError), ("complex", "int32", "int32", RuntimeError),
        ("polar", "bfloat16", "bfloat16", RuntimeError), ("logaddexp", "int32", "int32", NotImplementedError),
        ("pow", "bool", "bool", NotImplementedError), ("add", "qint8", "qint8", NotImplementedError),
    ],
)  # fmt: skip
def test_dtypes_without_arithmetic(op, first, second, error):
    with pytest.raises(error, match=op) as caught:
        getattr(mt, op)(meta(first), meta(second))
    assert caught.type is error


@pytest.mark.parametrize(
    "call",
    [
        lambda: meta("int32").add(1, alpha=1.5), lambda: meta("float32").add(1, alpha=True),
        lambda: meta("float32").sub(1, alpha=1j), lambda: meta("float32").sub(True),
        lambda: meta("float32").div(2, rounding_mode="up"), lambda: meta("float32").float_power_(2),
    ],
)  # fmt: skip
def test_bad_options(call):
    with pytest.raises(RuntimeError):
        call()


def test_numbers_are_tensors_only_where_pytorch_says_so():
    t = meta("float32")
    assert mt.remainder(2, t).dtype is mt.pow(2, t).dtype is mt.xlogy(2, t).dtype is mt.float32
    for op in (mt.fmod, mt.atan2, mt.maximum, mt.hypot):
        with pytest.raises(TypeError):
            op(2, t)
    with pytest.raises(TypeError, match="other"):
        mt.maximum(t, 2)


@pytest.mark.torch
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "true_divide", "floor_divide"])
@pytest.mark.parametrize("numbers", [(7, 2), (7, 2.5), (1.5, 2.5), (1 + 2j, 2.0)])
def test_two_numbers_make_a_tensor(name, numbers):
    """Basic operations accept two numbers. Their result is on cpu, whatever the default device is."""
    import torch

    ours, theirs = (outcome(getattr(lib, name), *numbers) for lib in (mt, torch))
    if isinstance(theirs, Exception):
        assert isinstance(ours, type(theirs))
        return
    assert ours.device.type == "cpu"
    same(ours, theirs)
    with mt.device("meta"):
        assert mt.add(*numbers).device.type == "cpu"
