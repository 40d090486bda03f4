"""Values of tensors from scratch."""

from __future__ import annotations

from typing import Any

import numpy as np

from metatensor.devices.array_kit.registry import kernel

__all__ = ["fit"]


def fit(dtype: Any, value: Any) -> Any:
    """A Python number as it is stored in arrays of ``dtype``: fractions cut off, unsigned integers wrapped around."""
    if dtype.kind in "iu" and isinstance(value, float):
        value = int(value)
    if dtype.kind == "u" and isinstance(value, int) and value < 0:
        return int(value) & ((1 << 8 * dtype.itemsize) - 1)
    if dtype.kind == "b":
        return bool(value)
    return value


@kernel("empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted", half="native")
def empty(kit: Any, out: Any, *_: Any) -> None:
    """Whatever the memory holds."""


@kernel("zeros", "zeros_like", "new_zeros", "zero")
def zeros(kit: Any, out: Any, *_: Any) -> None:
    out[...] = 0


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
