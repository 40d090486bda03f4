"""Histograms and counts of integers: metadata, values and errors compared with PyTorch."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metatensor as mt
from ops.against import agree, attempt, metadata, raises_alike, twin
from ops.layouts import shapes
from ops.pairs import same

SOME = settings(max_examples=150)
FLOATS = ("float32", "float64")
VALUES = st.integers(-9, 9).map(lambda k: 0.37 * k + 0.011)  # not on an edge, where rounding would decide


ODD = st.sampled_from([1, 3])


@st.composite
def points(draw, shape, dtype):
    import torch

    n = int(np.prod(shape))
    values = np.array(draw(st.lists(VALUES, min_size=n, max_size=n)), "float64").reshape(shape)
    return torch.from_numpy(values).to(getattr(torch, dtype))


def check(call, *tensors, **options):
    """Run `agree`. On meta, compare with PyTorch's cpu if it has no meta kernel."""
    import torch

    there = attempt(call, torch, tensors)
    agree(call, *tensors, values=True, **options)
    here = attempt(call, mt, [twin(t, "meta") for t in tensors])
    if isinstance(there, Exception):
        assert raises_alike(here, there), (here, there)
    else:
        assert metadata(here) == metadata(there)


@pytest.mark.torch
@SOME
@given(shapes(max_dims=3, max_size=5), st.sampled_from([*FLOATS, "float16", "bfloat16"]), st.integers(0, 9), st.data())
def test_histc(shape, dtype, bins, data):
    low, high = data.draw(st.integers(-3, 2)), data.draw(st.integers(-3, 2))
    limits = data.draw(st.sampled_from([(), (low, high), (low, low + 2.5)]))
    x = data.draw(points(shape, dtype))
    half = "16" in dtype  # PyTorch counts in half precision, so values near an edge may be in either bin
    agree(lambda m, t: m.histc(t, bins, *limits), x, values=not half)


@pytest.mark.torch
@SOME
@given(shapes(max_dims=3, max_size=5), st.sampled_from(FLOATS), st.sampled_from([0, 1, 3, 5]), st.data())
def test_histogram(shape, dtype, bins, data):
    x, weight = data.draw(points(shape, dtype)), data.draw(points(shape, dtype))
    density = data.draw(st.booleans())
    options = {"range": data.draw(st.sampled_from([None, (-1.0, 2.5), (1.0, 1.0), (2.0, 1.0), (0.0,)])), "density": density}
    edges = data.draw(points((bins,), dtype)).sort().values
    loose = {"tolerance": 1e-4}
    if density:
        weight = weight.abs() + 1
    check(lambda m, t: m.histogram(t, bins, **options), x, **loose)
    check(lambda m, t, w: m.histogram(t, bins, weight=w, **options), x, weight, **loose)
    check(lambda m, t, e: m.histogram(t, e, density=density), x, edges, **loose)
    check(lambda m, t, e, w: t.histogram(e, weight=w, density=density), x, edges, weight, **loose)


@pytest.mark.torch
@SOME
@given(shapes(max_dims=3, max_size=4), st.sampled_from(FLOATS), st.data())
def test_histogramdd(shape, dtype, data):
    columns = shape[-1] if shape else 1
    bins = data.draw(ODD | st.lists(ODD, min_size=columns, max_size=columns))
    ends = data.draw(st.sampled_from([None, [-2.0, 3.0] * columns, [0.0, 1.0]]))
    x, weight = data.draw(points(shape, dtype)), data.draw(points(shape[:-1], dtype)).abs() + 1
    sizes = data.draw(st.lists(st.integers(2, 4), min_size=columns, max_size=columns))
    edges = [data.draw(points((n,), dtype)).sort().values for n in sizes]
    density = data.draw(st.booleans())

    def flat(result):
        return (result.hist, *result.bin_edges)

    loose = {"tolerance": 1e-4}
    check(lambda m, t: flat(m.histogramdd(t, bins, range=ends, density=density)), x, **loose)
    check(lambda m, t, w: flat(m.histogramdd(t, bins, weight=w, density=density)), x, weight, **loose)
    if not density:
        check(lambda m, t, *e: flat(m.histogramdd(t, list(e))), x, *edges, **loose)


@pytest.mark.torch
def test_dtypes():
    import torch

    for dtype in (torch.bool, torch.int64, torch.complex64, torch.float16, torch.float64):
        x = torch.ones(3, 2).to(dtype)
        check(lambda m, t: m.histogram(t, 3), x)
        check(lambda m, t, e: m.histogram(t, e), x, torch.arange(4).to(dtype))
        check(lambda m, t: m.histogramdd(t, 3).hist, x)
        check(lambda m, t: m.histogram(t, t[:, 0], weight=t.to(m.int32)), x)
        if dtype is not torch.int64:
            check(lambda m, t: m.histc(t, 3), x)
    assert mt.histc(mt.empty(5, dtype=mt.int32, device="meta")).dtype is mt.int32


@pytest.mark.torch
@SOME
@given(st.lists(st.integers(0, 9), max_size=8), st.sampled_from([None, *FLOATS, "float16", "int64", "bool"]), st.integers(-1, 12))
def test_bincount(values, weights, minlength):
    import torch

    tensors = [torch.tensor(values, dtype=torch.int32)]
    if weights is not None:
        tensors.append(torch.arange(len(values)).to(getattr(torch, weights)))

    def call(m, t, w=None):
        return m.bincount(t, w, minlength)

    there = attempt(call, torch, tensors)
    here, on_meta = (attempt(call, mt, [twin(t, d) for t in tensors]) for d in ("cpu", "meta"))
    if isinstance(there, Exception):
        assert raises_alike(here, there) and raises_alike(on_meta, there)
    else:
        same(here, there)
        assert isinstance(on_meta, mt.DataDependentError)


@pytest.mark.torch
@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.bincount(m.ones(2, 2, dtype=m.int64)),
        lambda m: m.bincount(m.ones(2)),
        lambda m: m.bincount(m.ones(2, dtype=m.bool)),
        lambda m: m.bincount(-m.ones(2, dtype=m.int64)),
        lambda m: m.bincount(m.ones(2, dtype=m.int64), m.ones(3)),
        lambda m: m.histogram(m.ones(3), m.ones(3, dtype=m.float64)),
        lambda m: m.histogram(m.ones(3), m.ones(3, 1)),
        lambda m: m.histogram(m.ones(3), 2, weight=m.ones(2)),
        lambda m: m.histogram(m.tensor([1, float("nan")]), 2),
        lambda m: m.histc(m.tensor([1, float("inf")]), 2),
        lambda m: m.histogramdd(m.ones(3, 2), [2]),
        lambda m: m.histogramdd(m.ones(3, 2), [m.ones(2)]),
        lambda m: m.histogramdd(m.ones(3, 2), 2, weight=m.ones(3, 1)),
        lambda m: m.histogramdd(m.ones(3), 2),
        lambda m: m.histogramdd(m.ones(()), 2),
        lambda m: m.histogramdd(m.ones(3, 2), 2.5),
    ],
)
def test_errors(call):
    import torch

    there, here = attempt(call, torch, []), attempt(call, mt, [])
    assert isinstance(there, Exception) and raises_alike(here, there), (here, there)


def test_a_range_that_changes_while_it_is_read():
    class Clearing(int):
        def __float__(self):
            ends.clear()
            return 0.0

    ends = [Clearing(0), *[1.0] * 5]
    hist, _ = mt.histogramdd(mt.empty(4, 3, device="meta"), [2, 2, 2], range=ends)
    assert hist.shape == (2, 2, 2)


def test_a_count_of_more_elements_than_there_can_be(device):
    with pytest.raises(RuntimeError, match="elements"):
        mt.bincount(mt.tensor([2**63 - 1], device=device))
