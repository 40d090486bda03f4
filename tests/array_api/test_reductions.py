"""Statistics, searches, sorts and sets, compared with array-api-strict."""

import numpy as np
import pytest

pytest.importorskip("array_api_strict")
pytest.importorskip("metatensor_cpu")

from hypothesis import assume, given, settings
from hypothesis import strategies as st

import metatensor as mt
from array_api.strict import ALL, COMPLEX, INTEGERS, NUMERIC, REAL, agree, arrays, ours, same, shapes, some_shapes, theirs
from metatensor import array_api as xp

SOME = settings(max_examples=40)


@pytest.fixture(autouse=True)
def double_precision():
    """Use float64 as the default dtype, as array-api-strict does for Python floats."""
    mt.set_default_dtype(mt.float64)


def axes_of(x):
    """Draw one axis, several, none or all, counted from either end."""
    if not x.ndim:
        return st.sampled_from([None, ()])
    one = st.integers(-x.ndim, x.ndim - 1)
    several = st.lists(st.integers(0, x.ndim - 1), unique=True, max_size=x.ndim)
    return st.none() | one | several.map(lambda ps: tuple(p - x.ndim if i % 2 else p for i, p in enumerate(ps)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "mean", "std", "var", "all", "any", "count_nonzero"])
@SOME
@given(st.data())
def test_reductions(name, data):
    kinds = {"max": INTEGERS + REAL, "min": INTEGERS + REAL, "mean": REAL + COMPLEX, "std": REAL, "var": REAL}
    dtype = data.draw(st.sampled_from(kinds.get(name, NUMERIC if name in ("sum", "prod") else ALL)))
    special = dtype in REAL and name not in ("std", "var", "sum", "prod", "mean")
    bounds = {} if special or dtype in INTEGERS else {"low": -4, "high": 4}
    x = data.draw(arrays(dtype, some_shapes if name in ("max", "min") else shapes, special=special, **bounds))
    axis, how = data.draw(axes_of(x)), {}
    if name in ("sum", "prod") and data.draw(st.booleans()):
        wider = {"f": ["float64", "complex128"], "c": ["complex128"]}
        how["dtype"] = data.draw(st.sampled_from(wider.get(x.dtype.kind, INTEGERS)))
    if name in ("std", "var"):
        how["correction"] = data.draw(st.sampled_from([0, 1, 0.5]))
        n = x.size if axis is None else np.prod([x.shape[a] for a in (axis if isinstance(axis, tuple) else (axis,))])
        assume(n > how["correction"])
    agree(name, x, axis=axis, keepdims=data.draw(st.booleans()), tolerance=1e-4 if dtype in ("float32", "complex64") else None, **how)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
@SOME
@given(st.data())
def test_running(name, data):
    dtype = data.draw(st.sampled_from(NUMERIC))
    x = data.draw(arrays(dtype, some_shapes, special=False, low=-3, high=3))
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1)) if x.ndim > 1 else data.draw(st.sampled_from([None, 0, -1]))
    how = {"dtype": data.draw(st.sampled_from(["float64", "int16"]))} if dtype == "int8" else {}
    agree(name, x, axis=axis, include_initial=data.draw(st.booleans()), tolerance=1e-4, **how)


def test_running_along_no_axis():
    with pytest.raises(ValueError, match="axis is needed"):
        xp.cumulative_sum(xp.ones((2, 2), device="meta"))


@pytest.mark.slow
@SOME
@given(st.data())
def test_diff(data):
    x = data.draw(arrays(data.draw(st.sampled_from(NUMERIC)), some_shapes, special=False))
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    how = {}
    for end in ("prepend", "append"):
        if data.draw(st.booleans()):
            shape = list(x.shape)
            shape[axis] = data.draw(st.integers(0, 2))
            how[end] = data.draw(arrays(x.dtype, tuple(shape), special=False))
    total = sum(a.shape[axis] for a in (x, *how.values()))
    agree("diff", x, axis=axis, n=data.draw(st.integers(1 if how else 0, total)), tolerance=1e-3, **how)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["argmax", "argmin", "sort", "argsort"])
@SOME
@given(st.data())
def test_order(name, data):
    x = data.draw(arrays(data.draw(st.sampled_from(INTEGERS + REAL)), some_shapes))
    if name == "argsort":  # the position of NaNs is undefined
        x = np.nan_to_num(x, posinf=9, neginf=-9)
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    if name.startswith("arg") and name != "argsort":
        agree(name, x, axis=data.draw(st.just(axis) | st.none()), keepdims=data.draw(st.booleans()))
        return
    descending = data.draw(st.booleans())
    if name == "sort" and descending:
        x = np.nan_to_num(x, posinf=9, neginf=-9)
    agree(name, x, axis=axis, descending=descending, stable=True)


@pytest.mark.slow
@SOME
@given(st.data())
def test_searching(data):
    dtype = data.draw(st.sampled_from(INTEGERS + REAL))
    a = data.draw(arrays(dtype, st.tuples(st.integers(0, 6)), special=False))
    v = data.draw(arrays(dtype, special=False))
    side = data.draw(st.sampled_from(["left", "right"]))
    agree("searchsorted", np.sort(a), v, side=side)
    agree("searchsorted", a, v, side=side, sorter=np.argsort(a).astype(data.draw(st.sampled_from(["int64", "int64", "int32"]))))


@pytest.mark.slow
@SOME
@given(st.data())
def test_nonzero_and_where(data):
    x = data.draw(arrays(data.draw(st.sampled_from(ALL)), some_shapes))
    agree("nonzero", x, meta=False)
    a, b = (data.draw(arrays(data.draw(st.sampled_from(["float32", "float64"])), x.shape)) for _ in range(2))
    agree("where", x.astype(bool), a, b)
    agree("where", x.astype(bool), a, data.draw(st.sampled_from([0, 1.5])))
    agree("where", x.astype(bool), data.draw(st.sampled_from([0, 1.5])), b)


@pytest.mark.slow
@SOME
@given(st.data())
def test_sets(data):
    dtype = data.draw(st.sampled_from(ALL))
    x = data.draw(arrays(dtype))
    x = np.where(np.isnan(x), np.asarray(0, dtype), x) if np.dtype(dtype).kind in "fc" else x
    for name in ("unique_all", "unique_counts", "unique_inverse", "unique_values"):
        want, got = theirs(name, x), ours(name, x)
        same(got, want, exact=True)
    everything = ours("unique_all", x)
    flat = x.ravel()
    np.testing.assert_array_equal(flat[everything.indices.numpy()], everything.values.numpy())
    assert everything._fields == ("values", "indices", "inverse_indices", "counts")


def test_every_nan_is_another():
    x = np.array([np.nan, 1.0, np.nan, 0.0, -0.0])
    got = ours("unique_all", x)
    assert got.counts.tolist() == [2, 1, 1, 1] and sorted(got.indices.tolist()) == [0, 1, 2, 3]
    same(got.values, theirs("unique_values", x))


def test_shapes_that_follow_from_values():
    x = xp.ones((2, 2), device="meta")
    for name in ("nonzero", "unique_all", "unique_counts", "unique_inverse", "unique_values"):
        with pytest.raises(mt.DataDependentError):
            getattr(xp, name)(x)
    with pytest.raises(mt.DataDependentError):
        xp.repeat(x, xp.ones(2, dtype=xp.int64, device="meta"), axis=0)


def test_what_is_refused():
    x = xp.ones((2, 2), device="meta")
    for call in (lambda: xp.nonzero(x[0, 0]), lambda: xp.searchsorted(x, x), lambda: xp.searchsorted(x[0], x, side="both"),
                 lambda: xp.sum(x, axis=(0, 0))):
        with pytest.raises(ValueError):
            call()
    for call in (lambda: xp.sum(x, axis=2), lambda: xp.sort(x, axis=-3), lambda: xp.argmax(x, axis=2),
                 lambda: xp.cumulative_sum(x, axis=2)):
        with pytest.raises(IndexError):
            call()
    for function in (xp.max, xp.min, xp.argmax):
        with pytest.raises((ValueError, RuntimeError, IndexError)):
            function(xp.ones((0,), device="meta"))
    with pytest.raises(TypeError):
        xp.sum([1, 2])


def test_beyond_the_standard():
    assert xp.mean(xp.asarray([1, 2])).item() == 1.5 and xp.std(xp.asarray([1, 3])).item() == 1.0
    assert xp.argmax(xp.asarray([False, True])).item() == 1 and xp.sum(xp.asarray([True, True])).item() == 2
    assert xp.sum(xp.ones(2, dtype=mt.bfloat16)).dtype is mt.bfloat16
