"""Reductions: shapes, dtypes and strides compared with PyTorch, errors, and values on every device."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metatensor as mt
from ops.arrays import agree, numbers
from ops.layouts import conform, dim_lists, dims, layouts

BY_DIMS = ("sum", "nansum", "mean", "nanmean", "amax", "amin", "all", "any", "var", "std", "var_mean", "std_mean")
BY_DIM = ("max", "min", "argmax", "argmin", "prod", "aminmax")
OF_ALL = (*BY_DIMS, "max", "min", "argmax", "argmin", "prod", "aminmax", "count_nonzero")
DTYPES = ("bool", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64")


def meta(*shape, dtype=mt.float32):
    return mt.empty(shape, dtype=dtype, device="meta")


# Metadata ------------------------------------------------------------------------------


@pytest.mark.torch
@pytest.mark.parametrize("name", BY_DIMS)
@given(data=st.data())
def test_dims(name, data):
    layout = data.draw(layouts())
    dim, keepdim = data.draw(dim_lists(len(layout[0]))), data.draw(st.booleans())
    conform(lambda m, x: getattr(m, name)(x, dim=dim, keepdim=keepdim), (layout, data.draw(st.sampled_from(DTYPES))))


@pytest.mark.torch
@pytest.mark.parametrize("name", BY_DIM)
@given(data=st.data())
def test_dim(name, data):
    layout = data.draw(layouts())
    dim, keepdim = data.draw(dims(len(layout[0]))), data.draw(st.booleans())
    conform(lambda m, x: getattr(m, name)(x, dim=dim, keepdim=keepdim), (layout, data.draw(st.sampled_from(DTYPES))))


@pytest.mark.torch
@pytest.mark.parametrize("name", OF_ALL)
@given(layout=layouts(), dtype=st.sampled_from(DTYPES))
def test_all(name, layout, dtype):
    conform(lambda m, x: getattr(m, name)(x), (layout, dtype))


@pytest.mark.torch
@given(data=st.data())
def test_logsumexp(data):
    layout = data.draw(layouts())
    dim = data.draw(dim_lists(len(layout[0])).filter(lambda d: d is not None))
    keepdim, dtype = data.draw(st.booleans()), data.draw(st.sampled_from(DTYPES))
    conform(lambda m, x: m.logsumexp(x, dim, keepdim), (layout, dtype))


@pytest.mark.torch
@given(data=st.data())
def test_sum_to_size(data):
    layout = data.draw(layouts())
    size = [data.draw(st.sampled_from([1, n])) for n in layout[0]][data.draw(st.integers(0, 2)) :]
    conform(lambda m, x: x.sum_to_size(size), (layout, "float32"))


@pytest.mark.parametrize("name", ["sum", "mean", "prod"])
def test_dtype_argument(name):
    x = meta(2, 3, dtype=mt.int32)
    assert getattr(mt, name)(x, dtype=mt.float64).dtype is mt.float64
    assert getattr(mt, name)(x, 1, dtype=mt.float16).dtype is mt.float16


def test_dtypes():
    assert meta(2, dtype=mt.bool).sum().dtype is mt.int64
    assert meta(2, dtype=mt.uint8).any().dtype is mt.uint8
    assert meta(2, dtype=mt.int32).all().dtype is mt.bool
    assert meta(2, dtype=mt.complex64).var().dtype is mt.float32
    assert [t.dtype for t in mt.std_mean(meta(2, dtype=mt.complex64))] == [mt.float32, mt.complex64]
    assert meta(2).argmax().dtype is mt.int64


def test_correction_overloads():
    x = meta(4, 5)
    assert x.std(False).shape == ()
    assert x.std(0).shape == (5,)
    assert x.std(1, True, True).shape == (4, 1)
    assert x.var(dim=0, correction=0).shape == (5,)
    assert mt.var_mean(x, (0, 1), keepdim=True)[1].shape == (1, 1)


def test_named_results():
    result = meta(2, 3).max(1)
    assert result.values.shape == (2,) and result.indices.dtype is mt.int64
    values, indices = result
    assert values is result.values
    low, high = mt.aminmax(meta(2, 3), dim=0)
    assert low.shape == high.shape == (3,)


def test_numpy_names():
    assert mt.sum(meta(2, 3), axis=1, keepdims=True).shape == (2, 1)
    assert mt.amax(input=meta(2, 3), axis=(0, 1)).shape == ()


def test_out():
    out = meta(0)
    assert mt.sum(meta(2, 3), 1, out=out) is out and out.shape == (2,)
    values, indices = meta(0), meta(0, dtype=mt.int64)
    mt.max(meta(2, 3), 0, out=(values, indices))
    assert values.shape == indices.shape == (3,)
    assert mt.sum(meta(2, dtype=mt.int32), out=meta(0, dtype=mt.float64)).dtype is mt.float64
    with pytest.raises(RuntimeError, match="amax.*float32.*int32"):
        mt.amax(meta(2, 3), 0, out=meta(3, dtype=mt.int32))


# Errors ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: mt.mean(meta(2, dtype=mt.int64)), RuntimeError, "mean.*int64"),
        (lambda: mt.sum(meta(2, 3), 2), IndexError, "sum.*2.*out of range"),
        (lambda: mt.sum(meta(2, 3), (0, -2)), RuntimeError, "sum.*0.*more than once"),
        (lambda: mt.max(meta(0, 3)), RuntimeError, r"max.*empty.*\[0, 3\]"),
        (lambda: mt.max(meta(0, 3), 0), IndexError, r"max.*dimension 0.*\[0, 3\]"),
        (lambda: mt.argmax(meta(0)), IndexError, r"argmax.*\[0\]"),
        (lambda: mt.amax(meta(2, 0), (1,)), IndexError, "amax"),
        (lambda: mt.amax(meta(2, dtype=mt.complex64)), NotImplementedError, "amax.*complex64"),
        (lambda: mt.var(meta(2, dtype=mt.int32)), RuntimeError, "var.*int32"),
        (lambda: mt.trace(meta(2, 3, 4)), RuntimeError, r"trace.*\[2, 3, 4\]"),
        (lambda: meta(2, 3).sum_to_size(2, 2), RuntimeError, r"sum_to_size.*\[2, 2\].*\[2, 3\]"),
        (lambda: mt.sum(meta(2), True), TypeError, "sum.*dim.*bool"),
        (lambda: mt.sum(meta(2), 1.0), TypeError, "sum.*dim.*float"),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


# Values ------------------------------------------------------------------------------------

VALUES = {
    **{f"{name} {dim}": (name, {"dim": dim}) for name in BY_DIMS for dim in (0, -1, (0, 2))},
    **{f"{name} keepdim": (name, {"dim": 1, "keepdim": True}) for name in (*BY_DIMS, *BY_DIM)},
    **{f"{name} {dim}": (name, {"dim": dim}) for name in BY_DIM for dim in (0, -1)},
    **{name: (name, {}) for name in OF_ALL},
    "var 0": ("var", {"dim": 1, "correction": 0}),
    "std 2": ("std", {"dim": (0, 1), "correction": 2}),
    "std biased": ("std", {"unbiased": False}),
    "logsumexp": ("logsumexp", {"dim": (0, 1)}),
    "sum as float64": ("sum", {"dim": 1, "dtype": "float64"}),
    "sum as bool": ("sum", {"dim": 1, "dtype": "bool"}),
}


@pytest.mark.torch
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", VALUES)
def test_values(case, dtype, device):
    name, options = VALUES[case]

    def call(m, x):
        given = {k: getattr(m, v) if k == "dtype" else v for k, v in options.items()}
        return getattr(m, name)(x, **given)

    agree(call, numbers(dtype, (3, 4, 5)), dtype=dtype, device=device)


@pytest.mark.torch
@pytest.mark.parametrize("name", ["sum", "amax", "argmin", "max", "nansum", "nanmean", "mean", "logsumexp"])
def test_special_values(name, device):
    x = numbers("float32", (3, 4, 5))
    x[0, 1, 2] = x[1, :, 2] = np.nan
    x[2, 0, 0], x[2, 1] = np.inf, -np.inf
    agree(lambda m, t: getattr(m, name)(t, 1), x, device=device)


@pytest.mark.torch
def test_permuted_values(device):
    agree(lambda m, t: (t.permute(2, 0, 1).sum(0), t.mT.var(-1), t[::2, 1:].amax(1)), numbers("float32", (3, 4, 5)), device=device)


def test_sums_stay_accurate(device):
    rows = np.full((100_000, 2), 0.1, np.float32)
    assert np.allclose(mt.from_numpy(rows).to(device).sum(0).cpu().numpy(), 10_000, rtol=1e-6)
    far = (np.random.default_rng(0).normal(size=100_000) + 1000).astype(np.float32)
    assert np.isclose(mt.from_numpy(far).to(device).var().item(), far.astype(np.float64).var(ddof=1), rtol=1e-4)
    halves = mt.full((10_000,), 0.1, dtype=mt.float16, device=device)
    assert abs(halves.sum().item() - 1000) < 1


def test_empty_values(device):
    x = mt.empty((0, 3), device=device)
    assert x.sum(0).tolist() == [0, 0, 0] and x.prod().item() == 1
    assert np.isnan(x.mean().item()) and x.all().item() is True
    assert x.amax(1).shape == (0,)


@pytest.mark.parametrize("name", ["var", "std", "var_mean", "std_mean"])
def test_no_degrees_of_freedom_are_a_warning(device, name):
    function = getattr(mt, name)
    for shape, options in (((1,), {}), ((0,), {"correction": 0}), ((3, 1), {"dim": 1}), ((2,), {"correction": 2})):
        with pytest.warns(UserWarning, match="degrees of freedom"):
            function(mt.ones(shape, device=device), **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        function(mt.ones(1, device=device), correction=0)
        function(mt.ones(1, device="meta"))


def test_sums_without_nan_in_the_dtype_of_out():
    for dtype in (mt.int64, mt.complex64, mt.bool):
        for name in ("nansum", "nanmean"):
            with pytest.raises(NotImplementedError):
                getattr(mt, name)(mt.ones(2, 3), 1, out=mt.empty(2, dtype=dtype))
    assert mt.nansum(mt.ones(2), out=mt.empty((), dtype=mt.float64)).item() == 2.0
