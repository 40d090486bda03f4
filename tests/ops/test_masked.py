"""Masked reductions and normalizations: metadata, values and errors compared with PyTorch."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metatensor as mt
from ops.arrays import agree, numbers
from ops.layouts import conform, dim_lists, dims, layouts
from ops.pairs import DTYPES

SOME = settings(max_examples=200)
REDUCTIONS = ("sum", "prod", "mean", "var", "std", "amax", "amin", "logsumexp", "norm")
ALONG = ("cumsum", "cumprod", "softmax", "log_softmax", "softmin", "argmax", "argmin", "median")
MASKS = ("bool", "bool", "bool", "int64", "float32")


def masked(module):
    """Return the namespace `masked` of a library. PyTorch does not import its own automatically."""
    if module is mt:
        return mt.masked
    from torch import masked

    return masked


@st.composite
def masks(draw, shape):
    """Draw None or the layout of a mask. Most of the masks broadcast to `shape`, but some do not."""
    if draw(st.integers(0, 3)) == 0:
        return None
    sizes = [n if draw(st.booleans()) else 1 for n in shape] if draw(st.booleans()) else list(shape)
    sizes = sizes[draw(st.integers(0, len(sizes))) :] if draw(st.integers(0, 3)) == 0 else sizes
    wrong = draw(st.integers(0, 19))
    if wrong == 0:
        sizes = [1, *sizes]
    elif wrong == 1 and sizes:
        sizes[0] += 2
    return draw(layouts(shape=tuple(sizes)))


def check(call, layout, dtype, mask, mask_dtype):
    """Run `conform` for ``call(namespace, tensor, mask)``."""
    if mask is None:
        conform(lambda m, x: call(masked(m), x, None), (layout, dtype))
    else:
        conform(lambda m, x, k: call(masked(m), x, k), (layout, dtype), (mask, mask_dtype))


@pytest.mark.torch
@SOME
@given(st.sampled_from(REDUCTIONS), layouts(max_dims=3, max_size=3), st.data())
def test_reductions(name, layout, data):
    dim, keepdim = data.draw(dim_lists(len(layout[0]))), data.draw(st.sampled_from([False, True, None]))
    n = max(len(layout[0]), 1)
    if isinstance(dim, tuple) and len({d % n for d in dim}) < len(dim):
        return
    if name == "logsumexp":
        keepdim = bool(keepdim)
    wanted = data.draw(st.sampled_from([None, None, "float32", "float64", "int32", "complex64"]))
    order = (data.draw(st.sampled_from([2, 0, 1, 0.5, float("inf"), -float("inf")])),) if name == "norm" else ()

    def call(namespace, x, mask):
        options = {} if wanted is None else {"dtype": getattr(mt if namespace is mt.masked else torch(), wanted)}
        return getattr(namespace, name)(x, *order, dim, keepdim=keepdim, mask=mask, **options)

    check(call, layout, data.draw(st.sampled_from(DTYPES)), data.draw(masks(layout[0])), data.draw(st.sampled_from(MASKS)))


def torch():
    import torch

    return torch


@pytest.mark.torch
@SOME
@given(st.sampled_from(ALONG), layouts(max_dims=3, max_size=3), st.data())
def test_along(name, layout, data):
    """Skip integer medians, because on meta PyTorch cannot tell whether a masked row of integers has a median."""
    dim, dtype = data.draw(dims(len(layout[0]))), data.draw(st.sampled_from(DTYPES))
    keepdim = data.draw(st.booleans())
    if name == "median" and (dtype not in ("float32", "float64", "float16", "bfloat16") or 0 in layout[0]):
        return
    options = {"keepdim": keepdim} if name in ("argmax", "argmin", "median") else {}

    def call(namespace, x, mask):
        return getattr(namespace, name)(x, dim, mask=mask, **options)

    check(call, layout, dtype, data.draw(masks(layout[0])), data.draw(st.sampled_from(MASKS)))


@pytest.mark.torch
@SOME
@given(layouts(max_dims=3, max_size=3), st.data())
def test_others(layout, data):
    dtype, other = data.draw(st.sampled_from(DTYPES)), data.draw(st.sampled_from(DTYPES))
    mask = data.draw(masks(layout[0]))
    dim, order = data.draw(dims(len(layout[0]))), data.draw(st.sampled_from([2, 1, 0, float("inf")]))
    correction = data.draw(st.sampled_from([None, 0, 1, 2, 0.5]))
    unbiased = data.draw(st.sampled_from([None, None, None, True, False]))
    check(lambda s, x, m: s.normalize(x, order, dim, mask=m), layout, dtype, mask, "bool")
    check(lambda s, x, m: s.var(x, dim, unbiased, correction=correction, mask=m), layout, dtype, mask, "bool")
    check(lambda s, x, m: s.std(x, dim, unbiased, correction=correction, mask=m), layout, dtype, mask, "bool")
    conform(lambda m, a, b: masked(m).logaddexp(a, b, other_mask=b > 0 if "complex" not in other else None),
            (layout, dtype), (layout, other))


def supports(name, dtype):
    """Return True if a reduction exists for a dtype: complex numbers have no order, and means are not integers."""
    if dtype.startswith("complex"):
        return name in ("sum", "prod", "mean", "var", "std", "norm", "cumsum", "cumprod", "normalize")
    return "int" not in dtype or name not in ("mean", "norm", "normalize", "softmax", "log_softmax", "softmin")


@pytest.mark.torch
@pytest.mark.parametrize("name", REDUCTIONS)
def test_values(name, device):
    mask = np.random.default_rng(1).integers(0, 2, (3, 4, 5)) > 0
    mask[0, 0], mask[:, 1, 1] = False, False
    for dtype in DTYPES[1:]:
        if not supports(name, dtype):
            continue
        half = dtype if dtype in ("float16", "bfloat16") else None
        loose = {"float32": 1e-4, "complex64": 1e-4, "float16": 2e-2, "bfloat16": 5e-2}.get(dtype)
        for dim in (None, 1, (0, 2)):
            dims = (2, dim) if name == "norm" else (dim,)
            agree(lambda m, t, k, d=dims: getattr(masked(m), name)(t, *d, mask=k.to(m.bool)), numbers(dtype, (3, 4, 5)),
                  mask.astype("float32") if half else mask, dtype=half, device=device, tolerance=loose)


@pytest.mark.torch
@pytest.mark.parametrize("name", [*ALONG, "normalize"])
def test_values_along(name, device):
    mask = np.random.default_rng(1).integers(0, 2, (4, 1)) > 0
    mask[2] = True
    for dtype in ("uint8", "int32", "float32", "float64", "complex64"):
        if supports(name, dtype):
            dims = (2, 0) if name == "normalize" else (0,)
            agree(lambda m, t, k: getattr(masked(m), name)(t, *dims, mask=k), numbers(dtype, (4, 5)), mask, device=device)


@pytest.mark.torch
def test_logaddexp(device):
    masks = np.random.default_rng(1).integers(0, 2, (2, 4, 5)) > 0
    agree(lambda m, a, b, k: masked(m).logaddexp(a, b, input_mask=k[0], other_mask=k[1]), numbers("float32", (4, 5)),
          numbers("float32", (4, 5), 1), masks, device=device)


def test_hidden_rows(device):
    """Reductions of fully masked rows return the neutral element, NaN, or an error."""
    x, none = mt.ones(3, device=device), mt.zeros(3, dtype=mt.bool, device=device)
    assert mt.masked.sum(x, mask=none).item() == 0 and mt.masked.prod(x, mask=none).item() == 1
    assert mt.masked.amax(x, mask=none).item() == -float("inf") and mt.masked.amin(x, mask=none).item() == float("inf")
    assert mt.masked.mean(x, mask=none).isnan().item()
    with pytest.raises(ValueError, match=r"masked.median.*int64"):
        mt.masked.median(mt.ones(3, dtype=mt.int64, device=device), mask=none)


def test_namespace():
    assert mt.masked.sum.name == "masked.sum"
    assert mt.masked.median(mt.empty(3, 2, dtype=mt.int32, device="meta")).shape == (3,)
    with pytest.raises(IndexError, match=r"masked.amax.*\[2, 2\].*\[2\]"):
        mt.masked.amax(mt.empty(2, device="meta"), mask=mt.empty(2, 2, dtype=mt.bool, device="meta"))
    for name in REDUCTIONS[:-1]:
        with pytest.raises(RuntimeError, match=f"masked.{name}.*more than once"):
            getattr(mt.masked, name)(mt.empty(2, 2, device="meta"), (0, -2))


def test_a_product_over_no_dimension_is_the_input():
    x = mt.tensor([[2.0, 3.0]], device="cpu")
    assert mt.masked.prod(x, dim=()).tolist() == mt.masked.prod(x, dim=(), keepdim=True).tolist() == [[2, 3]]
    assert mt.masked.prod(x).item() == 6
