"""The kernel of overlap-add for short-time Fourier transforms, which otherwise consist of other operators."""

from __future__ import annotations

from typing import Any

from metatensor.devices.array_kit.registry import kernel


@kernel("_overlap_add")
def overlap_add(kit: Any, out: Any, input: Any, step: int) -> Any:
    """Add the frames in pieces of ``step`` elements. The pieces with number k of all frames do not overlap."""
    n, frames, size = input.shape
    pieces = -(-size // step)
    total = kit.xp.zeros((n, frames - 1 + pieces, step), out.dtype)
    for k in range(pieces):
        piece = input[:, :, k * step : (k + 1) * step]
        total[:, k : k + frames, : piece.shape[2]] += piece
    return total.reshape(n, -1)[:, : out.shape[1]]
