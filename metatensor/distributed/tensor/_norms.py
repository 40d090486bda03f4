"""Norms of distributed tensors, and of several tensors of which some are distributed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import metatensor as mt
from metatensor.distributed import _collectives
from metatensor.distributed._reduce_op import ReduceOp
from metatensor.distributed.tensor._dtensor import DTensor, _spec
from metatensor.distributed.tensor._moving import is_cut
from metatensor.distributed.tensor.placement_types import Partial, Replicate

__all__ = ["maximum_of_parts", "total_norm_of_parts"]


def total_norm_of_parts(tensors: Sequence[Any], order: float) -> Any:
    """Return the norm of all elements of several tensors, as a replicated distributed tensor of shape ().

    Each rank computes the norm of its parts. Tensors that are sharded over the same mesh dimensions are reduced together, by one
    collective for each of these dimensions.

    Parameters
    ----------
    tensors : sequence of Tensor
        The tensors. At least one is distributed; ordinary ones are the same on all ranks.
    order : float
        Order of the norm.
    """
    groups: dict[tuple[Any, ...], list[Any]] = {}
    mesh: Any = None
    for one in tensors:
        key: tuple[Any, ...] = ()
        if isinstance(one, DTensor):
            if any(isinstance(place, Partial) for place in one.placements):
                one = one.redistribute(placements=[Replicate() if isinstance(place, Partial) else place for place in one.placements])
            mesh = one.device_mesh if mesh is None else mesh
            key = tuple(one.device_mesh.get_group(dim) for dim, place in enumerate(one.placements) if is_cut(place))
            one = one._local_tensor
        groups.setdefault(key, []).append(one)
    device = next(iter(groups.values()))[0].device
    parts = [_reduced([_norm(one, order).to(device) for one in members], key, order) for key, members in groups.items()]
    whole = parts[0] if len(parts) == 1 else mt.linalg.vector_norm(mt.stack(parts), order)
    spec = _spec(mesh, (Replicate(),) * mesh.ndim, whole.shape, whole.stride(), whole.dtype)
    return DTensor(whole, spec)


def maximum_of_parts(value: Any, tensors: Sequence[Any]) -> Any:
    """Return the maximum of ``value`` over the ranks that share one of the distributed ``tensors`` as shards or partial values.

    Parameters
    ----------
    value : Tensor
        A tensor of shape (), different on each rank. It is changed.
    tensors : sequence of DTensor
        Distributed tensors.
    """
    groups = {one.device_mesh.get_group(dim) for one in tensors for dim, place in enumerate(one.placements) if not place.is_replicate()}
    for group in sorted(groups, key=lambda one: (len(one.ranks), one.ranks)):
        _collectives.all_reduce(value, ReduceOp.MAX, group)
    return value


def _norm(part: Any, order: float) -> Any:
    """Return the norm of a part, which may be empty."""
    if part.numel() or order >= 0:
        return mt.linalg.vector_norm(part, order) if part.numel() else part.new_zeros(())
    return part.new_full((), math.inf)


def _reduced(norms: list[Any], groups: tuple[Any, ...], order: float) -> Any:
    """Return the norm of vectors whose parts on this rank have these norms."""
    found = mt.linalg.vector_norm(mt.stack(norms), order) if order else mt.stack(norms)
    if math.isinf(order):
        for group in groups:
            _collectives.all_reduce(found, ReduceOp.MAX if order > 0 else ReduceOp.MIN, group)
        return found
    if groups and order:
        found = found.pow(order)
    for group in groups:
        _collectives.all_reduce(found, ReduceOp.SUM, group)
    if not order:  # as without distribution, the number of tensors that are not zero
        return mt.linalg.vector_norm(found, order)
    return found.pow(1 / order) if groups else found
