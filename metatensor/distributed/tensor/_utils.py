"""Shapes and offsets of shards."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from metatensor.distributed.tensor.placement_types import Placement, Shard, _StridedShard

__all__ = ["compute_local_shape_and_global_offset", "held_blocks", "held_ranges", "in_order", "whole_stride"]


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
    held = held_ranges(global_shape, mesh_shape, my_coordinate, placements)
    lengths = tuple(sum(map(len, parts)) for parts in held)
    starts = tuple(parts[0].start if parts else size for parts, size in zip(held, global_shape))
    return lengths, starts


def held_ranges(
    global_shape: Sequence[int], mesh_shape: Sequence[int], coordinate: Sequence[int], placements: Sequence[Placement]
) -> list[list[range]]:
    """Return the indices of each dimension that are held at a place of the mesh, as ranges. Their order is that of the part."""
    held: list[list[range]] = [[range(size)] for size in global_shape]
    for size, here, placement in zip(mesh_shape, coordinate, placements):
        if isinstance(placement, Shard):
            held[placement.dim] = _part(held[placement.dim], size, here)
        elif isinstance(placement, _StridedShard):
            whole, parts = held[placement.dim], []
            for piece in range(placement.split_factor):
                parts += _part(_part(whole, placement.split_factor, piece), size, here)
            held[placement.dim] = parts
    return held


def held_blocks(
    global_shape: Sequence[int], mesh_shape: Sequence[int], coordinate: Sequence[int] | None, placements: Sequence[Placement]
) -> list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
    """Return the blocks of a tensor that are held at a place of the mesh, without empty ones.

    Each is (offsets in the tensor, sizes, offsets in the part). There are several where a `_StridedShard` divides a
    dimension. There are none outside of the mesh.
    """
    if coordinate is None:
        return []
    dims = []
    for parts in held_ranges(global_shape, mesh_shape, coordinate, placements):
        ranges: list[tuple[int, int, int]] = []  # begin, size, place
        at = 0
        for run in parts:
            if ranges and ranges[-1][0] + ranges[-1][1] == run.start:
                ranges[-1] = ranges[-1][0], ranges[-1][1] + len(run), ranges[-1][2]
            elif len(run):
                ranges.append((run.start, len(run), at))
            at += len(run)
        dims.append(ranges)
    return [(tuple(run[0] for run in one), tuple(run[1] for run in one), tuple(run[2] for run in one)) for one in product(*dims)]


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


def whole_stride(part: Any, shape: Sequence[int]) -> tuple[int, ...]:
    """Return strides of a tensor of the given shape that is laid out like its part.

    The dimensions are in memory in the same order. Those that are expanded in the part are expanded, and where the elements of the part
    are not next to each other, neither are those of the tensor. So a view of the tensor that its strides allow is a view of the part.
    """
    stride, step, reached = [0] * len(shape), 1, 1  # in the tensor and in the part, the elements up to a dimension take
    contiguous = part.is_contiguous()
    held = part.stride()
    for dim in reversed(range(len(shape))) if contiguous else sorted(range(len(shape)), key=lambda dim: (held[dim], -dim)):
        if contiguous:
            stride[dim], step = step, step * max(shape[dim], 1)
        elif held[dim]:
            stride[dim] = step + abs(held[dim] - reached)
            step, reached = stride[dim] * max(shape[dim], 1), held[dim] * part.shape[dim]
    return tuple(stride)


def in_order(t: Any, stride: Sequence[int]) -> Any:
    """Return a tensor whose dimensions are in memory in the order of ``stride``, that of the whole tensor.

    Results have the layout that the operator gives them for the whole tensor, so the parts must be laid out alike.
    """
    if 0 in stride:
        return t
    dims = sorted(range(t.dim()), key=lambda dim: -stride[dim])
    ordered = t.permute(dims)
    if ordered.is_contiguous():
        return t
    return ordered.contiguous().permute(sorted(range(t.dim()), key=dims.__getitem__))
