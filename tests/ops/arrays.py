"""Random arrays, and comparison of the values of a call with PyTorch's."""

import numpy as np

import metatensor as mt
from ops.pairs import pair, same


def numbers(dtype, shape, seed=0):
    """Return random numbers as a NumPy array. Half dtypes give float32, and integers are small enough to multiply."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if "int" in dtype:
        return rng.integers(0 if dtype == "uint8" else -5, 6, shape).astype(dtype)
    if dtype.startswith("complex"):
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
    return rng.normal(size=shape).astype("float64" if dtype == "float64" else "float32")


def agree(function, *arrays, dtype=None, device="cpu", tolerance=None):
    """Check that ``function(module, *tensors)`` has PyTorch's values. Calls that PyTorch rejects are skipped."""
    import torch

    pairs = [pair(a, dtype, device) for a in arrays]
    try:
        theirs = function(torch, *[b for _, b in pairs])
    except RuntimeError:
        return
    same(function(mt, *[a for a, _ in pairs]), theirs, tolerance)


def keeps_statistics(dtype, device):
    """Return True if saved statistics have the input's dtype. For half dtypes they are float32, except on cpu."""
    return device == "cpu" or dtype in ("float32", "float64")
