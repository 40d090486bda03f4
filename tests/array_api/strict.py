"""Compare functions of metatensor.array_api with array-api-strict: dtypes, shapes and values for the same arguments."""

import warnings

import array_api_strict
import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import metatensor as mt
from metatensor import array_api

array_api_strict.set_array_api_strict_flags(api_version="2024.12")

BOOL = ["bool"]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
REAL = ["float32", "float64"]
COMPLEX = ["complex64", "complex128"]
NUMERIC = INTEGERS + REAL + COMPLEX
ALL = BOOL + NUMERIC
TOLERANCE = {"float32": 1e-5, "complex64": 1e-5, "float64": 1e-11, "complex128": 1e-11}

shapes = npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
some_shapes = npst.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4)


def elements(dtype, special=True, low=None, high=None):
    """Draw values of a dtype, including its limits and, if `special`, infinities and NaN."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return st.booleans()
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        low, high = info.min if low is None else max(low, info.min), info.max if high is None else min(high, info.max)
        small = st.integers(max(low, -5), min(high, 5))
        return small | st.integers(low, high)
    if dtype.kind == "c":
        part = elements(f"f{dtype.itemsize // 2}", special, low, high)
        return st.builds(complex, part, part)
    some = st.floats(-100 if low is None else low, 100 if high is None else high, width=32, allow_subnormal=False)
    finite = some if low is not None else st.integers(-5, 5).map(float) | some
    return finite | st.sampled_from([0.0, -0.0, float("inf"), float("-inf"), float("nan"), 0.5, 2.5]) if special else finite


def arrays(dtype, shape=shapes, **how):
    """Draw NumPy arrays of a dtype."""
    return npst.arrays(np.dtype(dtype), shape, elements=elements(dtype, **how))


def _map(value, convert):
    if isinstance(value, np.ndarray):
        return convert(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_map(v, convert) for v in value)
    return value


def function(namespace, name):
    """Return the function of a namespace by a name such as ``linalg.det``."""
    for part in name.split("."):
        namespace = getattr(namespace, part)
    return namespace


def _dtypes(namespace, kwargs):
    return {k: getattr(namespace, v) if k == "dtype" and isinstance(v, str) else v for k, v in kwargs.items()}


def ours(name, *args, device="cpu", **kwargs):
    """Run the call with tensors on a device."""
    convert = lambda a: mt.from_numpy(np.ascontiguousarray(a).reshape(a.shape).copy()).to(device)
    args = [getattr(array_api, a[1]) if isinstance(a, tuple) and a and isinstance(a[0], str) else a for a in args]
    kwargs = {k: _map(v, convert) for k, v in _dtypes(array_api, kwargs).items()}
    return function(array_api, name)(*(_map(a, convert) for a in args), **kwargs)


def theirs(name, *args, **kwargs):
    """Run the call with arrays of array-api-strict."""
    convert = array_api_strict.asarray
    args = [getattr(array_api_strict, a[1]) if isinstance(a, tuple) and a and isinstance(a[0], str) else a for a in args]
    kwargs = {k: _map(v, convert) for k, v in _dtypes(array_api_strict, kwargs).items()}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return function(array_api_strict, name)(*(_map(a, convert) for a in args), **kwargs)


def same(got, want, *, exact=False, tolerance=None, values=True, where=""):
    """Compare results: tensors with arrays, tuples and lists of them, and other values."""
    if isinstance(want, (tuple, list)):
        assert isinstance(got, (tuple, list)) and len(got) == len(want), where
        assert getattr(type(got), "_fields", None) == getattr(type(want), "_fields", None)
        for a, b in zip(got, want):
            same(a, b, exact=exact, tolerance=tolerance, values=values, where=where)
        return
    if not isinstance(got, mt.Tensor):
        assert got == want, where
        return
    name = str(want.dtype).rpartition(".")[2]
    assert (got.dtype.name, tuple(got.shape)) == (name, want.shape), where
    if not values:
        return
    mine, other = got.numpy(), np.asarray(want._array)
    if exact or mine.dtype.kind in "biu":
        np.testing.assert_array_equal(mine, other, err_msg=where)
    else:
        limit = tolerance or TOLERANCE[name]
        np.testing.assert_allclose(mine, other, rtol=limit, atol=limit, err_msg=where)


def agree(name, *args, meta=True, **how):
    """Run the call in both libraries and compare, on cpu and, if `meta`, shapes and dtypes on meta."""
    kwargs = {k: how.pop(k) for k in list(how) if k not in ("exact", "tolerance", "values")}
    want = theirs(name, *args, **kwargs)
    where = f"{name}{args} {kwargs}"
    same(ours(name, *args, **kwargs), want, where=where, **how)
    if meta:
        same(ours(name, *args, device="meta", **kwargs), want, values=False, where=f"{where} on meta")
