"""Cumulative ops: metadata compared with PyTorch, and values on every device."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metatensor as mt
from ops.arrays import agree, numbers
from ops.layouts import conform, dims, layouts

OPS = ("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp")
DTYPES = ("bool", "uint8", "int64", "float16", "bfloat16", "float32", "float64", "complex64")


@pytest.mark.torch
@pytest.mark.parametrize("name", OPS)
@given(data=st.data())
def test_metadata(name, data):
    layout = data.draw(layouts(min_dims=1))
    dim = data.draw(dims(len(layout[0])))
    conform(lambda m, x: getattr(m, name)(x, dim), (layout, data.draw(st.sampled_from(DTYPES))))


def test_dtype():
    x = mt.empty(3, dtype=mt.int32, device="meta")
    assert x.cumsum(0).dtype is mt.int64
    assert x.cumsum(0, dtype=mt.float32).dtype is mt.float32
    assert x.cumsum_(0) is x and x.dtype is mt.int32


@pytest.mark.parametrize("name", OPS)
def test_errors(name):
    with pytest.raises(IndexError, match=f"{name}.*2"):
        getattr(mt, name)(mt.empty(3, device="meta"), 2)


@pytest.mark.torch
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("name", OPS)
def test_values(name, dim, dtype, device):
    agree(lambda m, x: getattr(m, name)(x, dim), numbers(dtype, (3, 4, 5)), dtype=dtype, device=device)


@pytest.mark.torch
@pytest.mark.parametrize("name", OPS)
def test_special_values(name, device):
    x = numbers("float32", (3, 6))
    x[0, 2] = x[1, 3:5] = np.nan
    x[2, 1], x[2, 4] = -np.inf, np.inf
    agree(lambda m, t: getattr(m, name)(t, 1), x, device=device)
    agree(lambda m, t: getattr(m, name)(t.mT, 0), x, device=device)


@pytest.mark.torch
def test_in_place(device):
    agree(lambda m, x: x.cumsum_(1), numbers("float32", (3, 4)), device=device)
    agree(lambda m, x: x.t().cumprod_(1), numbers("int64", (3, 4)), device=device)


@pytest.mark.torch
def test_large_values(device):
    x = np.array([1000.0, 1000.0, -1000.0, 2000.0], np.float32)
    agree(lambda m, t: m.logcumsumexp(t, 0), x, device=device)


@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_any_dimension_of_what_is_empty(name):
    for shape, dim in (((0,), 5), ((0, 2), -7), ((2, 0), 2)):
        assert [t.shape for t in getattr(mt, name)(mt.ones(shape), dim)] == [shape, shape]
    with pytest.raises(IndexError):
        getattr(mt, name)(mt.ones(2), 5)


def test_logcumsumexp_of_complex_numbers_keeps_nan():
    inf, nan = float("inf"), float("nan")
    for first in (complex(-inf, nan), complex(nan, 1)):
        found = mt.tensor([first, complex(-inf, 1), 1 + 2j], device="cpu").logcumsumexp(0)
        assert all(math.isnan(v.real) and math.isnan(v.imag) for v in found.tolist())
    zeros = mt.tensor([complex(-inf, inf), complex(-inf, 1), 1 + 2j], device="cpu").logcumsumexp(0)
    assert zeros.tolist() == [-inf, -inf, 1 + 2j]
