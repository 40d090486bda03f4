"""Random operators on distributed tensors. Their values do not depend on the mesh."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import metatensor as mt
from metatensor._core.sharded import wrap
from metatensor._core.tensor import Tensor
from metatensor.distributed.tensor._moving import moved
from metatensor.distributed.tensor._running import _call, _rebuilt, _spec_of, local_values
from metatensor.distributed.tensor._utils import whole_stride
from metatensor.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard, interned

__all__ = ["run_random"]

# Operators whose results do not depend on the values of their first argument.
_FILLING = frozenset("""
    normal_ uniform_ random_ bernoulli_ exponential_ cauchy_ log_normal_ geometric_ rand_like randn_like randint_like
""".split())


def run_random(call: Any, values: Sequence[Any], out: Any) -> Any:
    """Run a random operator: on the parts if there are no values, else draw for the whole tensor and keep the part.

    All processes draw the same numbers, so their generators stay equal.
    """
    first = next(one for one in values if hasattr(one, "_spec"))
    whole = (Replicate(),) * call.mesh.ndim
    placements = tuple(Replicate() if isinstance(one, Partial) else one for one in first.placements)
    attention = call.op.name == "nn.functional.scaled_dot_product_attention"
    alike = all(_cut_alike(one, first, call.mesh, attention) and one.placements == placements or attention and _broadcast(one, first)
                for one in values if hasattr(one, "_spec"))  # fmt: skip
    if first.device.type == "meta" and alike:
        return _on_parts(call, values, placements)
    filling = call.op.name in _FILLING or call.overload.qualname.partition(".")[0] in _FILLING
    if filling and sum(isinstance(one, Tensor) for one in values) == 1:
        arguments = dict(zip(call.arguments, values))
        name = next(name for name, one in arguments.items() if one is first)
        arguments[name] = mt.empty(first.shape, dtype=first.dtype, device=first._local_tensor.device)
    else:
        arguments = local_values(call, {}, values)
        if call.in_place or call.mutated:
            arguments = {name: value.clone() if isinstance(value, Tensor) else value for name, value in arguments.items()}
    result = _call(call, arguments)
    parts = call.outputs(result, arguments)
    if call.in_place or call.mutated:
        first._local_tensor.copy_(moved(parts[0], call.mesh, first.shape, whole, first.placements))
        return first
    made = []
    for part in parts:
        target = placements if part.shape == first.shape else whole
        local = moved(part, call.mesh, part.shape, whole, target)
        made.append(wrap(local, interned(call.mesh, target, part.shape, whole_stride(local, part.shape), part.dtype)))
    if out is not None:
        out._local_tensor.copy_(moved(made[0]._local_tensor, call.mesh, out.shape, made[0].placements, out.placements))
        return out
    return _rebuilt(result, iter(made))


def _broadcast(one: Any, first: Any) -> bool:
    """Return whether a tensor is whole on each rank and has size 1 where another one is cut, like the mask of attention."""
    cut = [place.dim - first.dim() for place in first.placements if isinstance(place, Shard)]
    whole = all(isinstance(place, Replicate) for place in one.placements)
    return whole and all(dim < -2 and (-dim > one.dim() or one.shape[dim] == 1) for dim in cut)


def _cut_alike(one: Any, first: Any, mesh: Any, attention: bool = False) -> bool:
    """Return whether two tensors with the same placements are cut into parts that belong together.

    The sizes may differ where both are cut evenly: fused attention has fewer heads of keys than of queries. Its sequences and widths may
    differ too, where they are not cut.
    """
    if one.shape == first.shape:
        return True
    parts = {place.dim: mesh.size(i) for i, place in enumerate(first.placements) if isinstance(place, Shard)}
    pairs = enumerate(zip(one.shape, first.shape, strict=False))
    free = {one.dim() - 2, one.dim() - 1} - set(parts) if attention else set()
    return one.dim() == first.dim() and all(
        n == m or dim in free or dim in parts and n % parts[dim] == m % parts[dim] == 0 for dim, (n, m) in pairs
    )


def _on_parts(call: Any, values: Sequence[Any], placements: tuple[Placement, ...]) -> Any:
    """Run the operator on the parts.

    Results that have the leading sizes of the argument's part, up to the last dimension that is cut, are placed like it. Others
    are replicated.
    """
    first = next(one for one in values if hasattr(one, "_spec"))
    own = {name: one.placements for name, one in zip(call.arguments, values) if hasattr(one, "_spec")}
    arguments = local_values(call, {(name, -1): own.get(name, placements) for name in call.arguments}, values)
    result = _call(call, arguments)
    if call.in_place or call.mutated:
        return first
    local = first._local_tensor
    cut = {place.dim for place in placements if isinstance(place, Shard)}
    last = max(cut, default=-1) + 1
    made = []
    for part in call.outputs(result, arguments):
        if part.dim() >= last and part.shape[:last] == local.shape[:last]:
            shape = tuple(first.shape[dim] if dim in cut else n for dim, n in enumerate(part.shape))
            made.append(wrap(part, interned(call.mesh, placements, shape, whole_stride(part, shape), part.dtype)))
        else:
            made.append(wrap(part, _spec_of(call, part, (Replicate(),) * call.mesh.ndim)))
    return _rebuilt(result, iter(made))
