"""Shapes and offsets of shards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from metatensor.distributed.tensor.placement_types import Placement, Shard, _StridedShard

__all__ = ["compute_local_shape_and_global_offset"]


def compute_local_shape_and_global_offset(
    global_shape: Sequence[int], mesh: Any, placements: Sequence[Placement], skip_offset: bool = False
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shape of this process's shard and its offset in the tensor. An empty shard's offset is the size."""
    shape, offset = _compute_local_shape_and_global_offset(global_shape, mesh.shape, mesh.get_coordinate(), placements)
    return (shape, ()) if skip_offset else (shape, offset)


def _compute_local_shape_and_global_offset(
    global_shape: Sequence[int], mesh_shape: Sequence[int], my_coordinate: Sequence[int] | None, placements: Sequence[Placement]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if my_coordinate is None:  # this process does not belong to the mesh
        return (0,), ()
    places = [range(size) for size in global_shape]
    held: list[list[range]] = [[place] for place in places]
    for size, here, placement in zip(mesh_shape, my_coordinate, placements):
        if isinstance(placement, Shard):
            held[placement.dim] = _part(held[placement.dim], size, here)
        elif isinstance(placement, _StridedShard):
            whole, parts = held[placement.dim], []
            for piece in range(placement.split_factor):
                parts += _part(_part(whole, placement.split_factor, piece), size, here)
            held[placement.dim] = parts
    lengths = tuple(sum(map(len, parts)) for parts in held)
    starts = tuple(parts[0].start if parts else len(place) for parts, place in zip(held, places))
    return lengths, starts


def _part(held: list[range], count: int, index: int) -> list[range]:
    """Divide runs of elements into ``count`` parts and return part ``index``. All but the last have equal size."""
    total = sum(map(len, held))
    size = -(-total // count)
    start, stop = min(size * index, total), min(size * (index + 1), total)
    parts, before = [], 0
    for run in held:
        part = run[max(start - before, 0) : max(stop - before, 0)]
        if part:
            parts.append(part)
        before += len(run)
    return parts
