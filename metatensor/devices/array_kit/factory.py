"""Kernels that create tensors with constant values."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from metatensor.devices.array_kit.registry import kernel

__all__ = ["fit"]


def fit(dtype: Any, value: Any) -> Any:
    """Convert a Python number to the value that arrays of ``dtype`` store.

    Fractions are truncated and negative integers wrap around. Raise RuntimeError for overflow: a float beyond the range
    of an integer dtype, or a finite number beyond the range of a floating-point dtype.
    """
    if isinstance(value, complex) and dtype.kind not in "cb":
        value = value.real  # the caller has checked that the imaginary part is 0
    if dtype.kind in "iu" and isinstance(value, float):
        limits = np.iinfo(dtype)
        if not limits.min <= value <= limits.max:  # also rejects NaN
            raise _overflow(dtype, value)
        return int(value)
    if dtype.kind == "u" and value < 0:
        return int(value) & ((1 << 8 * dtype.itemsize) - 1)
    if dtype.kind == "b":
        return bool(value)
    if dtype.kind in "fc":
        largest = _largest(dtype)
        parts = (value.real, value.imag) if isinstance(value, complex) else (value,)
        if any(largest < abs(part) != math.inf for part in parts):
            raise _overflow(dtype, value)
    return value


@functools.cache
def _largest(dtype: Any) -> float:
    return float(np.finfo(dtype).max)


def _overflow(dtype: Any, value: Any) -> RuntimeError:
    return RuntimeError(f"the value {value} cannot be converted to {dtype.name} without overflow")


@kernel("zeros", "zeros_like", "new_zeros", "zero", half="tensors")
def zeros(kit: Any, out: Any, *_: Any) -> None:
    if kit.views.is_zero(out):  # the system has already set large new blocks to 0
        return
    array = kit.asarray(out)
    if kit.format(out.dtype).half:
        array = array.view(f"u{array.dtype.itemsize}")  # in every half dtype all bits of 0 are zero
    array[...] = 0


@kernel("ones", "ones_like", "new_ones")
def ones(kit: Any, out: Any, *_: Any) -> None:
    out[...] = 1


@kernel("full", "full_like")
def full(kit: Any, out: Any, first: Any, fill_value: Any, *_: Any) -> None:
    out[...] = fit(out.dtype, fill_value)


@kernel("new_full")
def new_full(kit: Any, out: Any, input: Any, size: Any, fill_value: Any, *_: Any) -> None:
    out[...] = fit(out.dtype, fill_value)


@kernel("fill")
def fill(kit: Any, out: Any, input: Any, value: Any) -> Any:
    if isinstance(value, (kit.xp.ndarray, np.generic)):
        return kit.xp.broadcast_to(value, out.shape)
    out[...] = fit(out.dtype, value)
    return None
