"""Values of several tensors joined into one. Each piece is converted as it is written."""

from __future__ import annotations

from typing import Any

from metatensor.devices.array_kit.copy import cast
from metatensor.devices.array_kit.registry import kernel


@kernel("cat", half="tensors")
def cat(kit: Any, out: Any, tensors: Any, dim: int) -> None:
    pieces = [piece for piece in tensors if piece.shape != (0,)]  # which goes with any shape
    if all(piece.dtype is out.dtype for piece in pieces):
        if pieces:
            kit.xp.concatenate([kit.asarray(piece) for piece in pieces], axis=dim, out=kit.asarray(out))
        return
    start = 0
    for piece in pieces:
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
