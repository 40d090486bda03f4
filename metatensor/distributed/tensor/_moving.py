"""Redistribution: change the placements of a tensor by collectives on this process's part."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import metatensor as mt
from metatensor.distributed import _functional_collectives as collectives
from metatensor.distributed._world import observed
from metatensor.distributed.tensor._utils import _compute_local_shape_and_global_offset, _part
from metatensor.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard, _StridedShard

__all__ = ["local_shape", "moved", "part_shape", "partial_of_whole", "is_cut", "is_exchanged", "lengths"]

Placements = Sequence[Placement]


def is_cut(placement: Placement) -> bool:
    """Return True for `Shard` and `_StridedShard`."""
    return isinstance(placement, (Shard, _StridedShard))


def local_shape(shape: Sequence[int], mesh: Any, placements: Placements) -> tuple[int, ...]:
    """Return the shape of this process's part."""
    return observed(lambda rank: part_shape(shape, mesh, placements, mesh._place_of(rank)))


def part_shape(shape: Sequence[int], mesh: Any, placements: Placements, coordinate: Sequence[int] | None) -> tuple[int, ...]:
    """Return the shape of the part at a place of the mesh."""
    return _part_shape(tuple(shape), tuple(mesh.shape), None if coordinate is None else tuple(coordinate), tuple(placements))


@lru_cache(maxsize=4096)
def _part_shape(
    shape: tuple[int, ...], mesh_shape: tuple[int, ...], coordinate: tuple[int, ...] | None, placements: tuple[Placement, ...]
) -> tuple[int, ...]:
    return _compute_local_shape_and_global_offset(shape, mesh_shape, coordinate, placements)[0]


def moved(local: Any, mesh: Any, shape: Sequence[int], source: Placements, target: Placements) -> Any:
    """Return this process's part of a tensor with other placements.

    Parameters
    ----------
    local : Tensor
        The part with the placements ``source``.
    mesh : DeviceMesh
        The mesh.
    shape : sequence of int
        Shape of the whole tensor.
    source, target : sequence of Placement
        The placements now and afterwards.
    """
    if source == target:
        return local
    current = list(source)
    for dim in range(mesh.ndim - 1, -1, -1):  # the inner mesh dimensions divide what the outer ones leave
        if _has_to_change(dim, source, target):
            local, current[dim] = _undo(local, mesh, shape, current, source, target, dim)
    for dim in range(mesh.ndim):
        if current[dim] != target[dim]:
            local = _apply(local, mesh, dim, target[dim])
            current[dim] = target[dim]
    return local


def _has_to_change(dim: int, source: Placements, target: Placements) -> bool:
    here = source[dim]
    if here != target[dim]:
        return True
    return is_cut(here) and any(
        source[outer] != target[outer] and here.dim in (_cut_dim(source[outer]), _cut_dim(target[outer])) for outer in range(dim)  # type: ignore[attr-defined]
    )


def is_exchanged(source: Placement, target: Placement) -> bool:
    """Return True if each process can get its part by exchanging shards, without gathering the whole."""
    return is_cut(source) and (isinstance(target, Shard) or (is_cut(target) and _cut_dim(source) == _cut_dim(target)))


def _cut_dim(placement: Placement) -> int | None:
    return placement.dim if is_cut(placement) else None  # type: ignore[attr-defined]


def _undo(
    local: Any, mesh: Any, shape: Sequence[int], current: list[Placement], source: Placements, target: Placements, dim: int
) -> tuple[Any, Placement]:
    """Replicate on a mesh dimension, or go to the target at once if one collective does it."""
    here, there = current[dim], target[dim]
    if mesh.size(dim) == 1:
        return local, there if not isinstance(there, _StridedShard) else Replicate()
    others = [one for place, pair in enumerate(zip(source, target)) if place != dim for one in pair]
    if isinstance(here, Replicate):
        return local, here
    if isinstance(here, Partial):
        alone = not local.dtype.is_complex and isinstance(there, Shard) and all(_cut_dim(one) != there.dim for one in others)
        if alone and isinstance(there, Shard):
            return _reduce_scatter(local, mesh, dim, here.reduce_op, there.dim), there
        return _reduce(local, mesh, dim, here.reduce_op), Replicate()
    outer = [current[place] if place < dim else Replicate() for place in range(mesh.ndim)]
    whole = local_shape(shape, mesh, outer)[here.dim]  # type: ignore[attr-defined]
    if is_exchanged(here, there) and all(_cut_dim(one) not in (_cut_dim(here), _cut_dim(there)) for one in others):
        change = _regroup if _cut_dim(here) == _cut_dim(there) else _exchange
        return change(local, mesh, dim, here, there, whole), there
    return _gather(local, mesh, dim, here, whole), Replicate()


def _apply(local: Any, mesh: Any, dim: int, target: Placement) -> Any:
    """Go from `Replicate` to another placement on a mesh dimension."""
    size = mesh.size(dim)
    if isinstance(target, Partial):
        return partial_of_whole(local, target.reduce_op, size, mesh.get_local_rank(dim))
    if size == 1 or not is_cut(target):
        return local
    cut = target.dim  # type: ignore[attr-defined]
    length = local.shape[cut]
    observed(lambda rank: tuple(map(len, _runs(target, length, size, _index(mesh, dim, rank)))))
    runs = _runs(target, length, size, mesh._coordinate[dim])
    parts = [local.narrow(cut, run.start, len(run)) for run in runs]
    if not parts:
        return local.narrow(cut, 0, 0).clone(memory_format=mt.contiguous_format)
    return parts[0].clone(memory_format=mt.contiguous_format) if len(parts) == 1 else mt.cat(parts, cut)


def _index(mesh: Any, dim: int, rank: int) -> int:
    """Return the index of a rank in the world along a mesh dimension. Ranks outside of the mesh count as the first."""
    place = mesh._place_of(rank)
    return 0 if place is None else int(place[dim])


def partial_of_whole(whole: Any, reduction: str, size: int, rank: int) -> Any:
    """Return a part of which all parts together reduce to ``whole``."""
    if size == 1 or reduction in ("avg", "max", "min"):
        return whole
    if reduction == "sum" and (whole.dtype.is_floating_point or whole.dtype.is_complex):
        return whole / size
    if rank == 0:
        return whole
    return mt.zeros_like(whole) if reduction == "sum" else mt.ones_like(whole)


def _runs(placement: Placement, length: int, size: int, rank: int) -> list[range]:
    """Return the indices that a rank holds of a dimension of ``length``."""
    whole = [range(length)]
    if isinstance(placement, _StridedShard):
        found: list[range] = []
        for piece in range(placement.split_factor):
            found += _part(_part(whole, placement.split_factor, piece), size, rank)
        return found
    return _part(whole, size, rank)


def lengths(length: int, size: int) -> list[int]:
    """Return the sizes of the shards of a dimension."""
    step = -(-length // size)
    return [max(0, min(step, length - step * rank)) for rank in range(size)]


# Collectives ------------------------------------------------------------------------------------------------


def _padded(local: Any, dim: int, length: int) -> Any:
    lacking = length - local.shape[dim]
    if not lacking:
        return local.contiguous()
    shape = list(local.shape)
    shape[dim] = lacking
    return mt.cat([local, local.new_zeros(shape)], dim)


def _reduce(local: Any, mesh: Any, dim: int, reduction: str) -> Any:
    if local.dtype.is_complex and reduction == "product":  # which all_reduce does not offer
        parts = collectives.wait_tensor(collectives.all_gather_tensor(local.contiguous().unsqueeze(0), 0, mesh.get_group(dim)))
        return parts.prod(0)
    return _with_numbers(local, reduction, lambda one, how: collectives.wait_tensor(collectives.all_reduce(one, how, mesh.get_group(dim))))


def _with_numbers(local: Any, reduction: str, reduce: Any) -> Any:
    """Call ``reduce`` with a tensor that can be reduced, and the reduction. A sum of booleans is True where any of them is."""
    if local.dtype is mt.bool:
        return reduce(local.to(mt.uint8), {"sum": "max", "product": "min"}.get(reduction, reduction)).to(mt.bool)
    return reduce(local.contiguous(), reduction)


def _reduce_scatter(local: Any, mesh: Any, dim: int, reduction: str, cut: int) -> Any:
    size, length = mesh.size(dim), local.shape[cut]
    own = lengths(length, size)

    def reduce(one: Any, how: str) -> Any:
        given = _padded(one, cut, own[0] * size)
        return collectives.wait_tensor(collectives.reduce_scatter_tensor(given, how, cut, mesh.get_group(dim)))

    if not length:
        return local
    found = _with_numbers(local, reduction, reduce)
    here = observed(lambda rank: own[_index(mesh, dim, rank)])
    return found if here == own[0] else found.narrow(cut, 0, here).clone(memory_format=mt.contiguous_format)


def _gather(local: Any, mesh: Any, dim: int, placement: Any, length: int) -> Any:
    cut, size = placement.dim, mesh.size(dim)
    if not length:
        return local
    runs = [_runs(placement, length, size, rank) for rank in range(size)]
    longest = max(sum(map(len, one)) for one in runs)
    found = collectives.wait_tensor(collectives.all_gather_tensor(_padded(local, cut, longest), cut, mesh.get_group(dim)))
    if isinstance(placement, Shard):
        return found if longest * size == length else found.narrow(cut, 0, length).clone(memory_format=mt.contiguous_format)
    pieces = []
    for rank, held in enumerate(runs):
        start = rank * longest
        for run in held:
            pieces.append((run.start, found.narrow(cut, start, len(run))))
            start += len(run)
    return mt.cat([piece for _, piece in sorted(pieces, key=lambda pair: pair[0])], cut)


def _exchange(local: Any, mesh: Any, dim: int, here: Any, there: Any, length: int) -> Any:
    """Go from shards of one dimension to shards of another one. ``length`` is the whole size of the first."""
    size, source, target = mesh.size(dim), here.dim, there.dim
    held, columns = [_runs(here, length, size, rank) for rank in range(size)], lengths(local.shape[target], size)
    starts = [sum(columns[:one]) for one in range(size)]
    width = observed(lambda rank: columns[_index(mesh, dim, rank)])
    parts = [local.narrow(target, start, count) for start, count in zip(starts, columns)]
    shapes = [_with(_with(local.shape, source, sum(map(len, runs))), target, width) for runs in held]
    return _joined(_swapped(parts, shapes, mesh, dim), held, source)


def _regroup(local: Any, mesh: Any, dim: int, here: Any, there: Any, length: int) -> Any:
    """Go from shards to strided shards of the same dimension, or back. ``length`` is the whole size of the dimension."""
    size, cut = mesh.size(dim), here.dim
    held, wanted = ([_runs(one, length, size, rank) for rank in range(size)] for one in (here, there))
    me = observed(lambda rank: _index(mesh, dim, rank))
    parts = []
    for runs in wanted:
        pieces = [local.narrow(cut, start, len(run)) for start, run in _common(held[me], runs)]
        parts.append(mt.cat(pieces, cut) if pieces else local.narrow(cut, 0, 0))
    arriving = [[run for _, run in _common(runs, wanted[me])] for runs in held]
    shapes = [_with(local.shape, cut, sum(map(len, runs))) for runs in arriving]
    return _joined(_swapped(parts, shapes, mesh, dim), arriving, cut)


def _with(shape: Sequence[int], dim: int, length: int) -> tuple[int, ...]:
    return (*shape[:dim], length, *shape[dim + 1 :])


def _common(held: Sequence[range], wanted: Sequence[range]) -> list[tuple[int, range]]:
    """Return the indices that are in both lists: runs in ascending order, each with its place among those held."""
    found, start = [], 0
    for own in held:
        for other in wanted:
            both = range(max(own.start, other.start), min(own.stop, other.stop))
            if both:
                found.append((start + both.start - own.start, both))
        start += len(own)
    return sorted(found, key=lambda pair: pair[1].start)


def _swapped(parts: Sequence[Any], shapes: Sequence[Sequence[int]], mesh: Any, dim: int) -> list[Any]:
    """Send a tensor to each process along a mesh dimension. Return those that arrive, which have the given shapes."""
    sent, received = [part.numel() for part in parts], [prod(shape) for shape in shapes]
    even = len(set(received)) == 1 and len(set(sent)) == 1
    flat = mt.cat([part.reshape(-1) for part in parts])
    found = collectives.wait_tensor(
        collectives.all_to_all_single(flat, None if even else received, None if even else sent, mesh.get_group(dim))
    )
    return [part.reshape(shape) for part, shape in zip(found.split(received), shapes)]


def _joined(parts: Sequence[Any], runs: Sequence[Sequence[range]], cut: int) -> Any:
    """Join tensors that hold runs of indices of a dimension, in ascending order of the indices."""
    pieces: list[tuple[int, Any]] = []
    for part, held in zip(parts, runs):
        pieces += zip((run.start for run in held), part.split([len(run) for run in held], cut) if held else ())
    return mt.cat([piece for _, piece in sorted(pieces, key=lambda pair: pair[0])], cut) if pieces else parts[0]
