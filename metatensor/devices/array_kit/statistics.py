"""The kernel of `hash_tensor`."""

from __future__ import annotations

from typing import Any

import numpy as np

from metatensor.devices.array_kit.reduction import axes_of
from metatensor.devices.array_kit.registry import kernel


@kernel("hash_tensor")
def hash_tensor(kit: Any, out: Any, input: Any, dim: Any, keepdim: bool, mode: int) -> Any:
    """Combine the bits of all elements with XOR, after converting floats to float64 and integers to int64."""
    xp, axes = kit.xp, axes_of(dim, input.ndim)
    wide = np.dtype("f8") if input.dtype.kind == "f" else np.dtype("i8" if input.dtype != np.dtype("u8") else "u8")
    bits = xp.ascontiguousarray(input.astype(wide)).reshape(input.shape).view(np.dtype("u8"))
    kept = tuple(axis for axis in range(input.ndim) if axis not in axes)
    rows = xp.transpose(bits, (*axes, *kept)).reshape((-1, out.size)) if bits.size else xp.zeros((0, out.size), "u8")
    while rows.shape[0] > 1:
        half = rows.shape[0] // 2
        rows = xp.concatenate([rows[:half] ^ rows[half : 2 * half], rows[2 * half :]])
    return rows.reshape(out.shape) if rows.shape[0] else xp.zeros(out.shape, np.dtype("u8"))
