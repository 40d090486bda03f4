"""Boxes of tensors, and the byte ranges of a file that hold them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, product
from math import prod
from operator import itemgetter
from typing import NamedTuple

__all__ = ["GAP", "MAX_CUT", "Block", "Box", "Reading", "badly_covered", "overlap", "reading_of", "whole_box"]

GAP = 128
"""Ranges of a file that are at most this many bytes apart are read together."""
MAX_CUT = 12
"""Largest number of dimensions that `badly_covered` can compare."""


class Box(NamedTuple):
    """A part of a tensor: a range of each dimension."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def numel(self) -> int:
        """The number of elements."""
        return prod(self.sizes)


class Block(NamedTuple):
    """A box of a stored tensor, and its offsets in the tensor that it is read into."""

    box: Box
    place: tuple[int, ...]


def whole_box(shape: Sequence[int]) -> Box:
    """Return the box of all elements."""
    return Box((0,) * len(shape), tuple(shape))


def overlap(one: Box, other: Box) -> Box | None:
    """Return the common part of two boxes of one tensor, or None if there is none."""
    offsets = tuple(map(max, one.offsets, other.offsets))
    ends = [min(a + b, c + d) for a, b, c, d in zip(one.offsets, one.sizes, other.offsets, other.sizes)]
    sizes = tuple(end - begin for begin, end in zip(offsets, ends))
    return None if any(size <= 0 for size in sizes) else Box(offsets, sizes)


class Reading(NamedTuple):
    """How a box is read: equally long ranges of the file, one after the other, and the strides of the box in what was read.

    All numbers are numbers of elements. Positions count from the first element of the stored tensor.
    """

    first: int
    length: int
    """Length of each range."""
    loops: tuple[tuple[int, int], ...]
    """(count, step) of nested loops over ranges, the outermost first."""
    stride: tuple[int, ...]

    @property
    def numel(self) -> int:
        """The number of elements that are read."""
        return self.length * prod(count for count, _ in self.loops)

    def ranges(self, itemsize: int = 1) -> Iterator[int]:
        """Yield the position of each range, in units of which an element has ``itemsize``."""
        first = self.first * itemsize
        if not self.loops:
            yield first
            return
        *outer, (count, step) = self.loops
        last = range(0, count * step * itemsize, step * itemsize)
        for index in product(*(range(0, count * step * itemsize, step * itemsize) for count, step in outer)):
            begin = first + sum(index)
            for offset in last:
                yield begin + offset


def reading_of(box: Box, stride: Sequence[int], itemsize: int) -> Reading:
    """Return how to read a box of a tensor with these strides. Ranges that are close to each other are joined."""
    first = sum(begin * step for begin, step in zip(box.offsets, stride))
    if not box.numel:
        return Reading(first, 0, (), tuple(stride))
    dims = sorted((dim for dim, size in enumerate(box.sizes) if size > 1), key=lambda dim: stride[dim])
    made, length, joined = list(stride), 1, 0
    for dim in dims:
        if (stride[dim] - length) * itemsize > GAP:
            break
        length += (box.sizes[dim] - 1) * stride[dim]
        joined += 1
    loops, step = [], length
    for dim in dims[joined:]:
        loops.append((box.sizes[dim], stride[dim]))
        made[dim] = step
        step *= box.sizes[dim]
    return Reading(first, length, tuple(reversed(loops)), tuple(made))


def badly_covered(shape: Sequence[int], boxes: Iterable[Box]) -> tuple[int, ...] | None:
    """Return a place at which boxes overlap or leave a gap, or None if they contain each element exactly once.

    Sum signed corners over all boxes: a corner counts +1 if an even number of its coordinates are upper ends, else -1.
    The boxes tile the tensor exactly if these sums equal the signed corners of the whole tensor. Dimensions that no
    box divides are ignored. Raise ValueError if more than `MAX_CUT` dimensions are divided.
    """
    full = [box for box in boxes if box.numel]
    cut = [dim for dim, size in enumerate(shape) if any(box.sizes[dim] != size for box in full)]
    if not full:
        return (0,) * len(shape) if prod(shape) else None
    if len(cut) > MAX_CUT:
        raise ValueError(f"chunks divide {len(cut)} dimensions; at most {MAX_CUT} are supported")
    corners: list[tuple[tuple[int, ...], int]] = []
    whole = [(0, shape[dim]) for dim in cut]
    for sign, ends in ((-1, whole), *((1, [(box.offsets[dim], box.offsets[dim] + box.sizes[dim]) for dim in cut]) for box in full)):
        for corner in product((0, 1), repeat=len(cut)):
            corners.append((tuple([end[upper] for end, upper in zip(ends, corner)]), -sign if sum(corner) % 2 else sign))
    corners.sort()
    for place, same in groupby(corners, key=itemgetter(0)):
        if sum(sign for _, sign in same):
            at = [0] * len(shape)
            for dim, value in zip(cut, place):
                at[dim] = value
            return tuple(at)
    return None
