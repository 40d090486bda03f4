"""Sorting and order statistics: metadata compared with PyTorch, and values on every device."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metatensor as mt
from ops.arrays import agree, numbers
from ops.layouts import conform, dims, layouts

DTYPES = ("bool", "uint8", "int64", "float16", "bfloat16", "float32", "float64")
INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def meta(*shape, dtype=mt.float32):
    return mt.empty(shape, dtype=dtype, device="meta")


@pytest.mark.torch
@given(data=st.data())
def test_sort(data):
    layout = data.draw(layouts())
    dim, descending = data.draw(dims(len(layout[0]))), data.draw(st.booleans())
    given_ = (layout, data.draw(st.sampled_from([*DTYPES, "complex64"])))
    conform(lambda m, x: m.sort(x, dim, descending), given_)
    conform(lambda m, x: m.sort(x, stable=True, dim=dim, descending=descending), given_)
    conform(lambda m, x: m.argsort(x, dim, descending), given_)


@pytest.mark.torch
@given(layout=layouts(min_dims=1))
def test_msort(layout):
    conform(lambda m, x: m.msort(x), (layout, "float32"))


@pytest.mark.torch
@given(data=st.data())
def test_topk(data):
    layout = data.draw(layouts())
    k, dim = data.draw(st.integers(-1, 4)), data.draw(dims(len(layout[0])))
    conform(lambda m, x: m.topk(x, k, dim), (layout, data.draw(st.sampled_from(DTYPES))))
    conform(lambda m, x: m.kthvalue(x, k, dim), (layout, "float32"))


@pytest.mark.torch
@pytest.mark.parametrize("name", ["median", "nanmedian", "mode"])
@given(data=st.data())
def test_median(name, data):
    layout = data.draw(layouts())
    dim, keepdim = data.draw(dims(len(layout[0]))), data.draw(st.booleans())
    conform(lambda m, x: getattr(m, name)(x, dim, keepdim), (layout, data.draw(st.sampled_from(DTYPES))))
    if name != "mode":
        conform(lambda m, x: getattr(m, name)(x), (layout, "float32"))


@pytest.mark.torch
@given(data=st.data())
def test_quantile(data):
    layout = data.draw(layouts())
    n = data.draw(st.sampled_from([None, 0, 1, 2]))
    dim = data.draw(st.one_of(st.none(), dims(len(layout[0]))))
    keepdim, name = data.draw(st.booleans()), data.draw(st.sampled_from(["quantile", "nanquantile"]))
    q = ((), ()) if n is None else ((n,), (1,))
    conform(lambda m, x, q: getattr(m, name)(x, q, dim, keepdim), (layout, "float32"), (q, "float32"))
    conform(lambda m, x: getattr(m, name)(x, 0.3, dim, keepdim), (layout, data.draw(st.sampled_from(DTYPES))))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: mt.unique(x),
        lambda x: x.unique_consecutive(),
        lambda x: mt.equal(x, x),
        lambda x: mt.allclose(x, x),
        lambda x: mt.is_nonzero(x),
    ],
)
def test_data_dependent(call):
    with pytest.raises(mt.DataDependentError, match=r"\[3\]"):
        call(meta(3))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: mt.sort(meta(2, dtype=mt.complex64)), RuntimeError, "sort.*complex64"),
        (lambda: mt.sort(meta(2, 3), 2), IndexError, "sort.*2"),
        (lambda: mt.topk(meta(2, 3), 4), RuntimeError, r"topk.*k.*3.*\[2, 3\].*4"),
        (lambda: mt.kthvalue(meta(2, 3), 0), RuntimeError, r"kthvalue.*k.*\[2, 3\].*0"),
        (lambda: mt.quantile(meta(3), 1.5), RuntimeError, "quantile.*1.5"),
        (lambda: mt.quantile(meta(3), 0.5, interpolation="cubic"), RuntimeError, "quantile.*cubic"),
        (lambda: mt.quantile(meta(3, dtype=mt.int64), 0.5), RuntimeError, "quantile.*int64"),
        (lambda: mt.median(meta(2, 0), 1), IndexError, r"median.*\[2, 0\]"),
        (lambda: mt.unique(meta(2), dim=1), IndexError, "unique.*1"),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


# Values ---------------------------------------------------------------------------------


def with_nan(shape, infinite=True):
    x = numbers("float32", shape)
    x.reshape(-1)[::7] = np.nan
    if infinite:
        x.reshape(-1)[3::11] = np.inf
    return x


@pytest.mark.torch
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("descending", [False, True])
def test_sort_values(dtype, descending, device):
    x = numbers(dtype, (3, 4, 5))
    for dim in (0, -1):
        agree(lambda m, t, d=dim: m.sort(t, stable=True, dim=d, descending=descending), x, dtype=dtype, device=device)
        agree(lambda m, t, d=dim: m.argsort(t.mT, stable=True, dim=d), x, dtype=dtype, device=device)


@pytest.mark.torch
def test_order_of_nan(device):
    x = with_nan((4, 9))
    agree(lambda m, t: (*m.sort(t, stable=True), *m.sort(t, stable=True, descending=True), m.msort(t)), x, device=device)
    agree(lambda m, t: (m.topk(t, 3)[0], m.topk(t, 3, largest=False)[0], m.kthvalue(t, 8)[0]), x, device=device)
    agree(lambda m, t: (*m.median(t, 1), m.median(t), m.nanmedian(t, 1)[0], m.nanmedian(t)), x, device=device)


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["uint8", "int64", "float16", "bfloat16", "float32", "float64"])
def test_selected_values(dtype, device):
    x = numbers(dtype, (3, 7, 4))
    for dim in (1, 2):
        agree(lambda m, t, d=dim: (m.median(t, d)[0], m.mode(t, d), m.kthvalue(t, 2, d)[0]), x, dtype=dtype, device=device)
        agree(lambda m, t, d=dim: m.topk(t, 2, d)[0], x, dtype=dtype, device=device)
    agree(lambda m, t: m.median(t), x, dtype=dtype, device=device)


@pytest.mark.torch
@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_quantile_values(interpolation, device):
    x, holes = numbers("float32", (3, 7)), with_nan((3, 7), infinite=False)
    q = np.array([0.0, 0.31, 0.5, 1.0], np.float32)
    agree(lambda m, t, q: m.quantile(t, q, 1, interpolation=interpolation), x, q, device=device)
    agree(lambda m, t, q: m.nanquantile(t, q, 1, True, interpolation=interpolation), holes, q, device=device)
    agree(lambda m, t: m.quantile(t, 0.3, interpolation=interpolation), holes, device=device)


def test_infinite_quantiles(device):
    """If a quantile falls on an infinite element, it is that element. PyTorch returns NaN."""
    x = mt.tensor([1.0, float("inf"), float("inf")], device=device)
    assert mt.quantile(x, 1.0).item() == mt.quantile(x, 0.5).item() == mt.quantile(x, 0.2).item() == float("inf")


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["bool", "int64", "float32", "float16"])
def test_unique_values(dtype, device):
    x = np.array([[3, 1, 1, 2], [3, 1, 1, 2], [0, 1, 2, 2]]).astype("float32" if dtype == "float16" else dtype)

    def all_of(function):
        return lambda m, t: (
            *function(m, t, return_inverse=True, return_counts=True),
            function(m, t),
            *function(m, t, return_inverse=True, return_counts=True, dim=0),
            *function(m, t, return_counts=True, dim=1),
        )

    agree(all_of(lambda m, t, **given: m.unique(t, **given)), x, dtype=dtype, device=device)
    agree(all_of(lambda m, t, **given: m.unique_consecutive(t, **given)), x, dtype=dtype, device=device)


def test_comparisons(device):
    x = mt.tensor([1.0, float("nan"), 3.0], device=device)
    y = mt.tensor([1.0, 2.0, 3.0], device=device)
    assert mt.equal(y, y.clone()) is True and mt.equal(x, x) is False and mt.equal(y, y[:2]) is False
    assert mt.allclose(y, y + 1e-9) is True and mt.allclose(x, x) is False
    assert mt.allclose(x, x, equal_nan=True) is True
    assert mt.is_nonzero(y[:1]) is True
    with pytest.raises(RuntimeError):
        mt.is_nonzero(y)


def test_slices_with_nan_are_not_merged(device):
    nan = float("nan")
    t = mt.tensor([[nan, 1.0], [0.0, 1.0], [nan, 1.0], [0.0, 1.0], [-1.0, nan]], device=device)
    found, inverse, counts = mt.unique(t, dim=0, return_inverse=True, return_counts=True)
    assert counts.tolist() == [1, 2, 1, 1] and inverse.tolist()[1] == inverse.tolist()[3] == 1
    assert found[:2].nan_to_num(9.0).tolist() == [[-1.0, 9.0], [0.0, 1.0]] and found[2:, 0].isnan().all()
    assert mt.unique(t.t(), dim=1).shape == (2, 4)


def test_out_that_overlaps_the_input_in_part():
    x = mt.ones(3, 3)
    for call in (lambda: mt.msort(x, out=x.T), lambda: mt.sort(x, out=(x.T, mt.empty(3, 3, dtype=mt.int64)))):
        with pytest.raises(RuntimeError, match="overlaps"):
            call()
    assert mt.msort(x, out=x) is x
