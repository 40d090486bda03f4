"""Factories: metadata compared with PyTorch, and values on every device."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metatensor as mt
from ops.layouts import conform, layouts, shapes
from ops.pairs import outcome

KINDS = ("empty", "zeros", "ones", "full")
LIKE = ("empty_like", "zeros_like", "ones_like", "full_like")
NEW = ("new_empty", "new_zeros", "new_ones", "new_full")
DTYPES = (
    "bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32",
    "float64", "complex32", "complex64", "complex128", "float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz",
    "float8_e4m3fnuz",
)  # fmt: skip
FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")


def value_of(name):
    """Return the arguments after the size, by the name of the factory."""
    return (1,) if "full" in name else ()


def expected(name):
    return 0 if "zeros" in name else 1


# Metadata -----------------------------------------------------------------------------------


@pytest.mark.torch
@pytest.mark.parametrize("name", KINDS)
@given(size=shapes(min_size=-1), dtype=st.sampled_from([None, *DTYPES]))
def test_size_and_dtype(name, size, dtype):
    def make(m):
        kind = None if dtype is None else getattr(m, dtype)
        return getattr(m, name)(size, *value_of(name), dtype=kind, device="meta")

    conform(make)


@pytest.mark.torch
@pytest.mark.parametrize("name", LIKE)
@given(data=st.data(), dtype=st.sampled_from([None, "int32"]), order=st.sampled_from([None, *FORMATS]))
def test_like_another(name, data, dtype, order):
    layout = data.draw(layouts(max_dims=5, max_size=3))

    def make(m, x):
        options = {} if dtype is None else {"dtype": getattr(m, dtype)}
        if order is not None:
            options["memory_format"] = getattr(m, order)
        return getattr(m, name)(x, *value_of(name), **options)

    conform(make, (layout, "float16"))


@pytest.mark.torch
@pytest.mark.parametrize("name", NEW)
@given(layout=layouts(), size=shapes(), dtype=st.sampled_from(DTYPES))
def test_new(name, layout, size, dtype):
    conform(lambda m, x: getattr(x, name)(size, *value_of(name)), (layout, dtype))


@pytest.mark.torch
@given(size=shapes(), stride=st.lists(st.integers(0, 5), max_size=4), order=st.permutations(range(4)))
def test_given_strides(size, stride, order):
    order = tuple(d for d in order if d < len(size))
    conform(lambda m: m.empty_strided(size, stride, device="meta"))
    conform(lambda m, x: x.new_empty_strided(size, stride), (((2,), (1,)), "int8"))
    conform(lambda m: m.empty_permuted(size, order, device="meta"))
    conform(lambda m: m.empty_permuted(size, stride[: len(size)], device="meta"))


@pytest.mark.torch
@pytest.mark.parametrize("value", [True, 2, 2.5, 1j])
def test_full_takes_the_dtype_of_the_number(value):
    conform(lambda m: m.full((2,), value, device="meta"))
    mt.set_default_dtype(mt.float64)
    assert mt.full((), 1j).dtype is mt.complex128 and mt.full((), 1.0).dtype is mt.float64


def test_sizes_as_arguments(device):
    assert mt.zeros(2, 3, device=device).shape == mt.zeros((2, 3), device=device).shape == (2, 3)
    assert mt.ones((), device=device).tolist() == 1
    assert mt.empty(size=(2,), device=device).shape == (2,)


def test_memory_format(device):
    assert mt.empty(2, 3, 4, 5, memory_format=mt.channels_last, device=device).stride() == (60, 1, 15, 3)
    with pytest.raises(RuntimeError, match="empty.*preserve"):
        mt.empty(2, memory_format=mt.preserve_format, device=device)


def test_gradients(device):
    assert mt.ones(2, requires_grad=True, device=device).requires_grad
    x = mt.ones(2, requires_grad=True, device=device)
    assert not mt.zeros_like(x).requires_grad and not x.new_ones(2).requires_grad
    assert mt.full_like(x, 2, requires_grad=True).requires_grad
    with pytest.raises(RuntimeError, match="floating-point and complex.*int64"):
        mt.ones(2, dtype=mt.int64, requires_grad=True, device=device)


# Values -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [n for n in (*KINDS, *LIKE, *NEW) if "empty" not in n])
def test_constant(name, dtype, device):
    dtype = getattr(mt, dtype)
    if name in KINDS:
        made = getattr(mt, name)((2, 3), *value_of(name), dtype=dtype, device=device)
    elif name in LIKE:
        made = getattr(mt, name)(mt.empty(3, 2, dtype=dtype, device=device).t(), *value_of(name))
    else:
        made = getattr(mt.empty(1, dtype=dtype, device=device), name)((2, 3), *value_of(name))
    assert made.dtype is dtype and made.device.type == device
    assert made.tolist() == [[expected(name)] * 3] * 2


@pytest.mark.parametrize("dtype", DTYPES)
def test_arbitrary_values_can_be_written(dtype, device):
    x = mt.empty_strided((2, 2), (1, 3), dtype=getattr(mt, dtype), device=device)
    assert x.zero_() is x and x.tolist() == [[0, 0], [0, 0]]
    assert mt.empty_permuted((2, 3), (1, 0), dtype=getattr(mt, dtype), device=device).fill_(1).tolist() == [[1] * 3] * 2


def test_nothing_and_no_dimensions(device):
    assert mt.zeros(0, 3, device=device).tolist() == [] and mt.full((2, 0), 1, device=device).tolist() == [[], []]
    assert mt.full((), 2.5, device=device).item() == 2.5 and mt.zeros((), device=device).item() == 0


def test_the_like_of_another_device(device):
    x = mt.zeros(2, 3, dtype=mt.int16, device="meta").t()
    made = mt.full_like(x, 7, device=device)
    assert made.tolist() == [[7, 7]] * 3 and made.stride() == (1, 3) and made.dtype is mt.int16
    assert mt.ones_like(mt.zeros(2, device=device), device="meta").is_meta
    assert x.new_full((2,), -1, device=device).tolist() == [-1, -1]


def test_out(device):
    for name in KINDS:
        target = mt.empty(2, 3, dtype=mt.int32, device=device)
        assert getattr(mt, name)((2, 3), *value_of(name), out=target) is target
        if name != "empty":
            assert target.tolist() == [[expected(name)] * 3] * 2
    strided = mt.ones(3, 2, device=device)
    assert mt.zeros((2, 2), out=strided.t()[:, 1:]).stride() == (1, 2)
    assert strided.tolist() == [[1, 1], [0, 0], [0, 0]]


# Numbers and dtypes ------------------------------------------------------------------------------


NUMBERS = (
    0, 1, -1, True, 2.7, -2.7, -0.5, 127.5, 255, 256, 300, 1e20, -1e20, 1e300, math.inf, -math.inf, math.nan, 2**31,
    2**40, 2**63 - 1, -(2**63), 1 + 2j, 1e300j, 65504.0, 3.4e38,
)  # fmt: skip


@pytest.mark.torch
@pytest.mark.parametrize(
    "dtype", ["uint8", "int8", "int16", "int32", "int64", "float32", "float64", "complex64", "complex128"]
)
@pytest.mark.parametrize("value", NUMBERS, ids=str)
def test_numbers_that_fit_and_those_that_do_not(value, dtype, device):
    import torch

    if isinstance(value, float) and dtype == "int64" and abs(value) == 2.0**63:
        pytest.skip("PyTorch's conversion is undefined")
    try:
        theirs = torch.full((2,), value, dtype=getattr(torch, dtype))
    except RuntimeError:
        with pytest.raises(RuntimeError, match="cannot be converted to"):
            mt.full((2,), value, dtype=getattr(mt, dtype), device=device)
        with pytest.raises(RuntimeError, match="cannot be converted to"):
            mt.empty(2, dtype=getattr(mt, dtype), device=device).fill_(value)
        return
    ours = mt.full((2,), value, dtype=getattr(mt, dtype), device=device)
    np.testing.assert_array_equal(ours.cpu().numpy(), theirs.numpy())
    np.testing.assert_array_equal(mt.full_like(ours, value).tolist(), theirs.tolist())


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz"])
@pytest.mark.parametrize("value", [0, -1, 2.7, -2.7, 0.1, 7, 200.5, -0.0, 1e-3, math.nan])
def test_numbers_of_half_precision_are_rounded(value, dtype, device):
    import torch

    theirs = torch.full((2,), value, dtype=getattr(torch, dtype)).float().tolist()
    np.testing.assert_array_equal(mt.full((2,), value, dtype=getattr(mt, dtype), device=device).tolist(), theirs)


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz",
                                   "float8_e8m0fnu", "bool", "uint16", "complex32", "complex64"])  # fmt: skip
def test_what_dtypes_hold(dtype):
    """PyTorch checks numbers only on devices. Here a number that devices reject is rejected on meta too."""
    import torch

    for value in (0.5, 300, 448, 464.0, 65504, 65520.0, 1e5, -1e5, -1, -65536, 2**40, 1e39, -1e39, math.inf, -math.inf, math.nan,
                  1 + 0j, 1 + 1j, 1e39j, 2**64 - 1, 2**64, -(2**63) - 1, True):  # fmt: skip
        here = [outcome(lambda d: mt.full((2,), value, dtype=getattr(mt, dtype), device=d).dtype.name, d) for d in ("meta", "cpu")]
        there = outcome(lambda: str(torch.full((2,), value, dtype=getattr(torch, dtype)).dtype)[6:])
        if dtype == "float8_e8m0fnu" and isinstance(value, (float, complex)):
            continue
        for got in here:
            assert got == there or (type(got) is type(there) and isinstance(got, Exception)), (dtype, value, got, there)


def test_filling_half_precision(device):
    """Filling with a number out of range is an error; assigning it gives infinity."""
    x, mask = mt.zeros(2, dtype=mt.float16, device=device), mt.tensor([True, False], device=device)
    for call in (lambda: x.masked_fill(mask, -1e9), lambda: mt.nn.functional.pad(x, (1, 1), value=1e9), lambda: x.fill_(1e9),
                 lambda: x.to("meta").masked_fill(mask.to("meta"), -1e9)):  # fmt: skip
        with pytest.raises(RuntimeError, match="cannot be converted to float16"):
            call()
    x[0] = -1e9
    x[mask] = 2**40
    assert x.tolist() == [math.inf, 0]
    with pytest.raises(ValueError, match="does not fit in 64 bits"):
        x[0] = 2**64


@pytest.mark.parametrize("name", KINDS)
def test_out_of_another_dtype(name, device):
    with pytest.raises(RuntimeError, match="dtype float32 does not match the int32"):
        getattr(mt, name)((2,), *value_of(name), dtype=mt.float32, out=mt.empty(2, dtype=mt.int32, device=device))


def test_errors():
    with pytest.raises(RuntimeError, match=r"zeros.*negative.*\[2, -1\]"):
        mt.zeros(2, -1, device="meta")
    with pytest.raises(RuntimeError, match="2 sizes and 1 strides"):
        mt.empty_strided((2, 3), (1,), device="meta")
    with pytest.raises(RuntimeError, match="negative strides"):
        mt.empty_strided((2, 3), (-1, 1), device="meta")
    with pytest.raises(RuntimeError, match=r"permutation of 0 to 1, got \(1, 1\)"):
        mt.empty_permuted((2, 3), (1, 1), device="meta")
    with pytest.raises((RuntimeError, NotImplementedError), match="layout"):
        mt.zeros(2, layout=mt.sparse_coo, device="meta")
