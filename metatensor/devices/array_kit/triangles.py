"""Kernels of triangular and diagonal matrices, and of binary search."""

from __future__ import annotations

from typing import Any

from metatensor.devices.array_kit.gathering import check
from metatensor.devices.array_kit.registry import kernel


@kernel("tril", half="native")
def tril(kit: Any, out: Any, input: Any, diagonal: int) -> None:
    out[...] = kit.xp.tril(input, diagonal)


@kernel("triu", half="native")
def triu(kit: Any, out: Any, input: Any, diagonal: int) -> None:
    out[...] = kit.xp.triu(input, diagonal)


@kernel("diag_embed")
def diag_embed(kit: Any, out: Any, input: Any, offset: int, dim1: int, dim2: int) -> None:
    out[...] = 0
    matrices = kit.xp.moveaxis(out, (dim1, dim2), (-2, -1))
    i = kit.xp.arange(input.shape[-1])
    matrices[..., i + max(-offset, 0), i + max(offset, 0)] = input


@kernel("vander")
def vander(kit: Any, out: Any, x: Any, N: int | None, increasing: bool) -> Any:
    powers = kit.xp.arange(out.shape[1])
    return x.astype(out.dtype)[:, None] ** (powers if increasing else powers[::-1])


@kernel("searchsorted")
def searchsorted(kit: Any, out: Any, sequence: Any, values: Any, out_int32: bool, right: bool, side: str | None, sorter: Any) -> Any:
    xp = kit.xp
    side = "right" if right or side == "right" else "left"
    if sorter is not None:
        check(sorter, sequence.shape[-1], "searchsorted", RuntimeError)
        sequence = xp.take_along_axis(sequence, sorter, axis=-1)
    if sequence.ndim == 1:
        return xp.searchsorted(sequence, values, side=side)
    if not out.size:
        return None
    rows, wanted = sequence.reshape(-1, sequence.shape[-1]), values.reshape(-1, values.shape[-1])
    return xp.stack([xp.searchsorted(row, want, side=side) for row, want in zip(rows, wanted, strict=True)]).reshape(out.shape)


@kernel("bucketize")
def bucketize(kit: Any, out: Any, values: Any, boundaries: Any, out_int32: bool, right: bool) -> Any:
    return kit.xp.searchsorted(boundaries, values, side="right" if right else "left")
