"""softmax and related ops: metadata compared with PyTorch, and values on every device."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metatensor as mt
from ops.arrays import agree, numbers
from ops.layouts import conform, dims, layouts

F = mt.nn.functional
DTYPES = ("float16", "bfloat16", "float32", "float64", "int64", "complex64")


def meta(*shape, dtype=mt.float32):
    return mt.empty(shape, dtype=dtype, device="meta")


@pytest.mark.torch
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@given(data=st.data())
def test_metadata(name, data):
    layout = data.draw(layouts(min_size=1))
    dim, dtype = data.draw(dims(len(layout[0]))), data.draw(st.sampled_from(DTYPES))
    to = data.draw(st.sampled_from([None, "float64", "float16"]))
    conform(lambda m, x: getattr(m, name)(x, dim, dtype=to and getattr(m, to)), (layout, dtype))
    conform(lambda m, x: getattr(m.nn.functional, name)(x, dim), (layout, dtype))


@pytest.mark.torch
@given(layout=layouts(min_size=1))
def test_implied_dim(layout):
    conform(lambda m, x: m.nn.functional.softmax(x), (layout, "float32"))


def test_forms():
    assert meta(2, 3).softmax(1).shape == (2, 3)
    assert F.softmin(meta(2, 3), 1, dtype=mt.float64).dtype is mt.float64
    assert mt.special.softmax(meta(2), 0).shape == (2,)
    with pytest.raises(IndexError, match="softmax.*2"):
        mt.softmax(meta(2, 3), 2)
    with pytest.raises(NotImplementedError, match="softmax.*int64"):
        mt.softmax(meta(2, dtype=mt.int64), 0)


@pytest.mark.torch
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
def test_values(name, dtype, device):
    x = numbers(dtype, (3, 4, 5))
    for dim in (0, 1, -1, None):
        agree(lambda m, t, d=dim: getattr(m.nn.functional, name)(t, d), x, dtype=dtype, device=device)
        agree(lambda m, t, d=dim: getattr(m.nn.functional, name)(t.mT, d, dtype=m.float64), x, dtype=dtype, device=device)


@pytest.mark.torch
def test_extreme_values(device):
    x = np.array([[1e30, 1e30, -1e30], [0, np.inf, 1], [-np.inf, -np.inf, -np.inf], [np.nan, 1, 2]], np.float32)
    agree(lambda m, t: (m.softmax(t, 1), m.log_softmax(t, 1), m.softmax(t[0], 0)), x, device=device)


def test_zero_dims(device):
    x = mt.tensor(3.0, device=device)
    assert x.softmax(0).item() == 1 and x.log_softmax(0).item() == 0
    assert mt.empty(0, 3, device=device).softmax(1).shape == (0, 3)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_what_is_empty_may_be_of_integers(name):
    for shape in ((0,), (2, 0)):
        found = getattr(mt, name)(mt.zeros(shape, dtype=mt.int64), 0)
        assert found.dtype is mt.int64 and found.shape == shape
    with pytest.raises(NotImplementedError):
        getattr(mt, name)(mt.zeros(2, dtype=mt.int64), 0)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_single_element_that_is_no_number(device, value):
    for shape in ((), (1,)):
        t = mt.full(shape, value, device=device)
        assert mt.softmax(t, 0).isnan().all() and mt.log_softmax(t, 0).isnan().all()
