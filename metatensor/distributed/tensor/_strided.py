"""Views that merge a sharded dimension into outer ones, or split it off again: each process keeps its part.

A part of the merged dimension consists of several runs of elements, which a `_StridedShard` describes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from metatensor.distributed.tensor.placement_types import Placement, Shard, _StridedShard
from metatensor.distributed.tensor.sharding.axes import Axis, Place

__all__ = ["strided_shards"]

Shape = Sequence[int]


def strided_shards(shape: Shape, size: Shape) -> Iterator[tuple[Placement, Placement, Axis]]:
    """Yield placements of the argument and of the result of a view, with the axis that they cut.

    Parameters
    ----------
    shape, size : sequence of int
        The shapes of the argument and of the result.
    """
    for before, after in _groups(shape, size):
        if len(after) == 1:
            for dim, factor in _inner(before, shape):
                yield Shard(dim), _StridedShard(after[0], split_factor=factor), _axis(dim, shape, after[0], size)
        elif len(before) == 1:
            for dim, factor in _inner(after, size):
                yield _StridedShard(before[0], split_factor=factor), Shard(dim), _axis(before[0], shape, dim, size)


def _groups(shape: Shape, size: Shape) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the smallest runs of dimensions that have as many elements before as after. Dimensions of size 1 are left out."""
    if 0 in shape:
        return
    before, after = [[dim for dim, n in enumerate(one) if n > 1] for one in (shape, size)]
    while before and after:
        first, second = [before.pop(0)], [after.pop(0)]
        while (left := prod(shape[dim] for dim in first)) != (right := prod(size[dim] for dim in second)):
            if left < right:
                first.append(before.pop(0))
            else:
                second.append(after.pop(0))
        yield first, second


def _inner(dims: Sequence[int], shape: Shape) -> Iterator[tuple[int, int]]:
    """Yield all dimensions but the first, with the number of elements of those before each."""
    for position in range(1, len(dims)):
        yield dims[position], prod(shape[dim] for dim in dims[:position])


def _axis(dim: int, shape: Shape, target: int, size: Shape) -> Axis:
    return Axis((Place("input", -1, dim, shape[dim]), Place("size", -1, target, size[target], True)), (target,))
