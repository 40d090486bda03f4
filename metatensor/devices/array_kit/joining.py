"""Kernels that join tensors. They convert each input while writing it to the result."""

from __future__ import annotations

from typing import Any

from metatensor.devices.array_kit.copy import cast
from metatensor.devices.array_kit.registry import kernel


@kernel("cat", half="tensors")
def cat(kit: Any, out: Any, tensors: Any, dim: int) -> None:
    array, dtype, arrays = kit.views.raw, out.dtype, []
    for piece in tensors:
        if piece.dtype is not dtype:
            break
        values = array(piece)
        if values.size or values.ndim != 1:  # shape (0,) may be joined with any other shape
            arrays.append(values)
    else:
        if arrays:
            kit.xp.concatenate(arrays, dim, array(out))
        return
    start = 0
    for piece in tensors:
        if piece.shape != (0,):
            kit.copy(out.narrow(dim, start, piece.shape[dim]), piece)
            start += piece.shape[dim]


@kernel("stack")
def stack(kit: Any, out: Any, tensors: Any, dim: int) -> None:
    place: list[Any] = [slice(None)] * out.ndim
    for i, piece in enumerate(tensors):
        place[dim] = i
        out[tuple(place)] = cast(piece, out.dtype)


@kernel("_block_diag")
def block_diag(kit: Any, out: Any, tensors: Any) -> None:
    out[...] = 0
    row = column = 0
    for piece in tensors:
        block = kit.xp.atleast_2d(piece)
        out[row : row + block.shape[0], column : column + block.shape[1]] = cast(block, out.dtype)
        row, column = row + block.shape[0], column + block.shape[1]
