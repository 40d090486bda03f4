"""Writes to views of distributed tensors.

If the part of a view is a view of the other tensor's part, the two share memory, as plain tensors do. In two cases they cannot: if an
operator had to redistribute the tensor for the view, or if the history of the tensor must lead to what was written. Then an
operator writes the changed elements to the tensor, and the view is made again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import metatensor as mt
from metatensor._core import errors
from metatensor._core.layout import contiguous_strides
from metatensor._core.sharded import DistributedTensor, become, same_as, view_of, wrap
from metatensor.distributed.tensor._moving import is_cut, local_shape, moved
from metatensor.distributed.tensor._planning import call_by_slots
from metatensor.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard, interned
from metatensor.distributed.tensor.sharding import features

__all__ = ["replace_memory", "view_again", "write_through", "write_to_view", "zeros_around"]

_SCATTERS = {"slice": "slice_scatter", "select": "select_scatter", "diagonal": "diagonal_scatter"}
_RESHAPES = frozenset("view reshape _unsafe_view _reshape_alias squeeze unsqueeze flatten unflatten".split())
_OWN_INVERSES = frozenset("transpose swapaxes swapdims t T mT alias".split())


def view_again(base: Any, op: Any, overload: Any, arguments: Sequence[Any], position: int) -> Any:
    """Return a view of a tensor, made by the operator and arguments that `view_of` returns."""
    names = [one.name for one in features.schema(overload.text).arguments]
    result = call_by_slots(op, overload.text, dict(zip(names, [base, *arguments])))
    return result if position < 0 else result[position]


def write_to_view(op: Any, overload: Any, names: Sequence[str], values: Sequence[Any]) -> Any:
    """Run an operator that changes its first argument, a view of a distributed tensor, and return the view."""
    target = values[0]
    arguments = dict(zip(names, values))
    if overload.is_view:  # such as `squeeze_`: values stay as they are
        arguments[names[0]] = same_as(target)
        become(target, call_by_slots(op.functional, overload.text, arguments))
        return target
    if view_of(target)[1][-1] >= 0 and target.requires_grad and mt.is_grad_enabled():
        raise errors.multi_view_inplace(op.name)
    changed = target.clone()
    arguments[names[0]] = changed
    call_by_slots(op, overload.text, arguments)
    _replace(target, changed)
    return target


def write_through(target: Any) -> None:
    """Write the elements of a view, which were changed, to the tensor that it is a view of."""
    _replace(target, same_as(target).clone())


def replace_memory(name: str, values: Sequence[Any]) -> Any:
    """Run `resize_` or `resize_as_`. The elements keep their order, as in a tensor that is not distributed.

    Dimensions that are sharded stay so, if the result has them.
    """
    target = values[0]
    if name == "set_" or not isinstance(target, DistributedTensor):
        raise NotImplementedError(f"{name}(): the memory of a distributed tensor of shape {list(target.shape)} cannot be replaced")
    if target.requires_grad:
        raise RuntimeError(f"{name}(): a tensor that requires gradients cannot be resized")
    shape = tuple(values[1].shape if name == "resize_as_" else values[1])
    mesh, whole = target.device_mesh, target.full_tensor().clone(memory_format=mt.contiguous_format).resize_(shape)
    placements = tuple(one if not is_cut(one) or one.dim < len(shape) else Replicate() for one in target.placements)
    part = moved(whole, mesh, shape, (Replicate(),) * mesh.ndim, placements)
    become(target, wrap(part, interned(mesh, placements, shape, whole.stride(), whole.dtype)))
    return target


def _replace(target: Any, changed: Any) -> None:
    base, (op, overload, arguments, position) = view_of(target)
    base.copy_(_replaced(base, changed, op, overload, arguments, position))
    become(target, view_again(base, op, overload, arguments, position))


def _replaced(base: Any, part: Any, op: Any, overload: Any, arguments: Sequence[Any], position: int) -> Any:
    """Return ``base`` with other elements where the operator selects them."""
    name = op.name.rpartition(".")[2]
    if name in _SCATTERS:
        return getattr(mt, _SCATTERS[name])(base, part, *arguments)
    if part.numel() == base.numel():
        if name in _RESHAPES:
            return part.reshape(base.shape)
        if name in _OWN_INVERSES:
            return view_again(part, op, overload, arguments, position)
    if part.numel() > base.numel():
        raise RuntimeError(f"{name}(): several elements of the view of shape {list(part.shape)} share one place in a tensor of shape "
                           f"{list(base.shape)}; clone() it before writing to it")  # fmt: skip
    positions = _positions(base, op, overload, arguments, position)
    return base.reshape(-1).scatter(0, positions, part.reshape(-1)).reshape(base.shape)


def _positions(base: Any, op: Any, overload: Any, arguments: Sequence[Any], position: int) -> Any:
    """Return the positions in the flat base of the elements that the operator selects."""
    mesh, numbers = base.device_mesh, mt.arange(base.numel(), device=base._local_tensor.device).reshape(base.shape)
    spec = interned(mesh, (Replicate(),) * mesh.ndim, numbers.shape, numbers.stride(), numbers.dtype)
    return view_again(wrap(numbers, spec), op, overload, arguments, position).reshape(-1)


def zeros_around(part: Any, shape: Sequence[int], view: str, arguments: Sequence[Any]) -> Any:
    """Return zeros of a shape, placed so that the part that a view selects has the placements of ``part`` as far as possible.

    Parameters
    ----------
    part : DTensor
        A tensor like the view.
    shape : sequence of int
        The shape of the result.
    view : str
        The operator that makes the view: ``"slice"``, ``"narrow"``, ``"select"`` or another one, for which the result is replicated.
    arguments : sequence
        The arguments of the operator behind the tensor.
    """
    spec = part._spec
    mesh, ndim = spec.mesh, len(shape)
    chosen = arguments[0] % ndim if view in ("slice", "narrow", "select") else None

    def around(placement: Placement) -> Placement:
        if isinstance(placement, Partial) and placement.reduce_op in ("sum", "avg"):
            return placement
        if chosen is None or not isinstance(placement, Shard):
            return Replicate()
        dim = placement.dim + (view == "select" and placement.dim >= chosen)
        return Replicate() if dim == chosen else Shard(dim)

    placements = tuple(map(around, spec.placements))
    local = part._local_tensor.new_zeros(local_shape(shape, mesh, placements))
    return wrap(local, interned(mesh, placements, tuple(shape), contiguous_strides(shape), local.dtype))
