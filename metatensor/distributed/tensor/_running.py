"""Run a call whose arguments have to be redistributed, or whose results are written to tensors with other placements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from metatensor._core.sharded import wrap
from metatensor._core.tensor import Tensor
from metatensor.distributed.communication_log import log
from metatensor.distributed.tensor._moving import moved
from metatensor.distributed.tensor._utils import in_order
from metatensor.distributed.tensor.placement_types import DTensorSpec, Replicate, interned

__all__ = ["local_values", "run_moved"]


def run_moved(
    call: Any, targets: Mapping[Any, Any], placed: Sequence[DTensorSpec], numbers: Mapping[str, Any], gathers: str | None,
    values: Sequence[Any], out: Any, written: Sequence[tuple[int, Any]], run: Callable[[dict[str, Any]], Any] | None = None,
) -> Any:  # fmt: skip
    """Run a call on parts with other placements.

    Parameters
    ----------
    call : CallOnMesh
        The call for which the plan was made.
    targets : dict
        The placements that each tensor argument needs. Tensors that it lacks are replicated.
    placed : sequence of DTensorSpec
        How the results are placed. If empty, they are replicated.
    numbers : dict
        The numbers that differ on this process's part.
    gathers : str or None
        For the communication log: why the call runs on gathered tensors.
    values : sequence
        The arguments of this call.
    out : Tensor, tuple of Tensors or None
        The argument ``out``.
    written : sequence of (int, Tensor)
        Which results are written to existing tensors. The tensors are those of the first call.
    run : callable, optional
        Is called with the arguments on this process, and returns what the operator returns. Default: the operator.
    """
    if gathers is not None:
        _log(call, gathers)
    arguments = local_values(call, targets, values)
    arguments.update(numbers)
    if call.in_place or call.mutated:
        arguments = _apart(call, arguments, values)
    result = _call(call, arguments) if run is None else run(arguments)
    parts = call.outputs(result, arguments)
    if not placed:
        whole = (Replicate(),) * call.mesh.ndim
        placed = [_spec_of(call, part, whole) for part in parts]
    if written:
        return _write(call, parts, placed, values, out)
    made = iter([wrap(part, _with_dtype(spec, part.dtype)) for part, spec in zip(parts, placed)])
    return _rebuilt(result, made)


def _with_dtype(spec: DTensorSpec, dtype: Any) -> DTensorSpec:
    """Return a spec with the dtype that a result has on its device, which may differ from that on meta."""
    return spec if spec.dtype is dtype else interned(spec.mesh, spec.placements, spec.shape, spec.stride, dtype)


def _spec_of(call: Any, part: Any, placements: Any) -> DTensorSpec:
    return interned(call.mesh, placements, part.shape, part.stride(), part.dtype)


def local_values(call: Any, targets: Mapping[Any, Any], values: Sequence[Any]) -> dict[str, Any]:
    """Return the arguments by name, with this process's parts, redistributed to ``targets``, in place of tensors."""
    whole = (Replicate(),) * call.mesh.ndim

    def local(key: Any, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        target, spec = targets.get(key, whole), getattr(value, "_spec", None)
        if spec is None:
            return moved(value, call.mesh, value.shape, whole, target)
        own = value._local_tensor  # type: ignore[attr-defined]
        found = moved(own, call.mesh, value.shape, spec.placements, target)
        return found if found is own else in_order(found, spec.stride)

    found = {}
    for name, value in zip(call.arguments, values):
        found[name] = [local((name, item), one) for item, one in enumerate(value)] if isinstance(value, list) else local((name, -1), value)
    return found


def _apart(call: Any, arguments: dict[str, Any], values: Sequence[Any]) -> dict[str, Any]:
    """Copy the arguments that the operator changes and that are still parts of distributed tensors."""
    names = list(call.mutated)
    found = dict(arguments)
    own = {id(value._local_tensor) for value in values if hasattr(value, "_local_tensor")}
    for name in names:
        if isinstance(found[name], Tensor) and id(found[name]) in own:
            found[name] = found[name].clone()
    return found


def _call(call: Any, arguments: Mapping[str, Any]) -> Any:
    from metatensor.distributed.tensor._planning import call_by_slots

    if "inplace" in arguments:
        arguments = {**arguments, "inplace": False}
    return call_by_slots(call.functional, call.text, arguments)


def _write(call: Any, parts: Sequence[Any], placed: Sequence[DTensorSpec], values: Sequence[Any], out: Any) -> Any:
    """Write results to the tensors that the call changes. Return what the call returns."""
    names = list(call.arguments)
    if call.in_place:
        targets = [(0, values[0])]
    elif out is not None:
        targets = list(enumerate(out if isinstance(out, (tuple, list)) else (out,)))
    else:
        changed = [one for name in call.mutated for one in _flat(values[names.index(name)])]
        targets = [(len(parts) - len(changed) + position, one) for position, one in enumerate(changed)]
    for position, target in targets:
        spec = placed[position]
        if tuple(target.shape) != tuple(spec.shape):
            raise RuntimeError(
                f"{call.op.name}(): the result has shape {list(spec.shape)}, but it is written to a DTensor of shape {list(target.shape)}"
            )
        if not hasattr(target, "_spec"):
            target.copy_(moved(parts[position], call.mesh, spec.shape, spec.placements, (Replicate(),) * call.mesh.ndim))
            continue
        target._local_tensor.copy_(moved(parts[position], call.mesh, spec.shape, spec.placements, target._spec.placements))
    if out is not None:
        return out
    return values[0] if call.in_place else targets[0][1] if len(targets) == 1 else tuple(target for _, target in targets)


def _flat(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [] if value is None else [value]


def _rebuilt(result: Any, made: Any) -> Any:
    """Return a result with its tensors replaced, in order."""
    if isinstance(result, Tensor):
        return next(made)
    if isinstance(result, list):
        return [_rebuilt(one, made) for one in result]
    if isinstance(result, tuple):
        members = [_rebuilt(one, made) for one in result]
        return type(result)(members) if type(result) is not tuple else tuple(members)
    return result


def _log(call: Any, reason: str) -> None:
    """Note in the communication log that a call gathers its arguments."""
    log("gather_arguments", call.mesh.get_group(0), None, 0, reason, False)
