"""Pairs of equal tensors in metatensor and PyTorch, and comparison of results."""

import numpy as np

import metatensor as mt

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTS = ("int8", "uint8", "int16", "int32", "int64")
COMPLEX = ("complex64", "complex128")
DTYPES = ("bool", *INTS, *FLOATS, *COMPLEX)

TOLERANCE = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 2e-5, "float64": 1e-10, "complex64": 2e-5, "complex128":
1e-10}

_REAL = [-np.inf, -30.0, -2.5, -1.0, -0.5, -0.25, -0.0, 0.0, 0.3, 0.5, 1.0, 1.5, 2.5, 3.7, 20.0, np.inf, np.nan]
_PARTS = [-2.5, -1.0, -0.5, 0.0, 0.3, 1.0, 2.0]


def samples(dtype):
    """Return values of a dtype that include its limits, as a 1-d NumPy array (float32 for half dtypes)."""
    if dtype == "bool":
        return np.array([False, True])
    if dtype in INTS:
        info = np.iinfo(dtype)
        return np.array([v for v in (-7, -3, -2, -1, 0, 1, 2, 3, 5, 7, info.max, info.min) if v >= info.min], dtype)
    if dtype in COMPLEX:
        return np.array([complex(a, b) for a in _PARTS for b in _PARTS], dtype)
    return np.array(_REAL, "float64" if dtype == "float64" else "float32")


def pair(array, dtype=None, device="cpu"):
    """Return ``array`` as (metatensor tensor, PyTorch tensor), both of ``dtype``."""
    import torch

    array = np.asarray(array)
    dtype = dtype or array.dtype.name
    ours = mt.from_numpy(np.ascontiguousarray(array).reshape(array.shape)).to(device)
    theirs = torch.from_numpy(array.copy())
    if array.dtype.name != dtype:
        ours, theirs = ours.to(getattr(mt, dtype)), theirs.to(getattr(torch, dtype))
    return ours, theirs


def grid(left, right):
    """Return two 2-d arrays that pair every element of one 1-d array with every element of the other."""
    a, b = np.meshgrid(left, right, indexing="ij")
    return np.ascontiguousarray(a), np.ascontiguousarray(b)


def values(tensor):
    """Return a tensor of either library as a NumPy array (float32 for half dtypes)."""
    if isinstance(tensor, mt.Tensor):
        if tensor.dtype in (mt.float16, mt.bfloat16):
            tensor = tensor.to(mt.float32)
        return tensor.cpu().numpy()
    return tensor.float().numpy() if tensor.element_size() == 2 and tensor.is_floating_point() else tensor.numpy()


def find(module, name):
    """Return a function by its dotted name."""
    for part in name.split("."):
        module = getattr(module, part)
    return module


def same(ours, theirs, tolerance=None):
    """Check that dtype, shape and values agree. NaN equals NaN."""
    if isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs):
            same(a, b, tolerance)
        return
    name = str(theirs.dtype).removeprefix("torch.")
    assert ours.dtype.name == name
    assert tuple(ours.shape) == tuple(theirs.shape)
    if tolerance is None:
        tolerance = TOLERANCE.get(name, 0)
    np.testing.assert_allclose(values(ours), values(theirs), rtol=tolerance, atol=tolerance, equal_nan=True)


def outcome(function, *args, **kwargs):
    """Return the result of a call, or the exception."""
    try:
        return function(*args, **kwargs)
    except Exception as error:
        return error
