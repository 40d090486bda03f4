"""Parts of deferred tensors without the whole: where each element comes from its own number in the draw and from nothing else."""

from __future__ import annotations

from typing import Any

from metatensor._core.device import backend_for
from metatensor._core.placing import tensor_from_storage
from metatensor._core.recording import Constant, Ghost, Ref, Step
from metatensor._core.replaying import replay

__all__ = ["part_alone"]

# Kernels that give each element by itself, and with the same bits wherever it stands; random ones with their ticket's slot.
_DRAWS = {"rand": 1, "randn": 1, "uniform_": 3, "normal_": 3}
_FIRST = frozenset((*_DRAWS, "zeros", "ones", "full", "zero", "fill", "empty"))
_COPIES = frozenset(("copy", "clone"))
_CAST = "_to_copy"
_NEXT = frozenset((*_COPIES, _CAST, "add", "sub", "mul", "div", "neg", "clamp", "clamp_min", "clamp_max", "erfinv"))


def part_alone(ghost: Ghost, steps: list[Step], view: Any, device: Any, place: Any) -> Any:
    """A tensor with the part of a ghost that ``view``, a meta tensor over the whole, shows; or None where it takes the whole.

    It is over what lies between the part's first and last element. ``steps`` are the ghost's.
    """
    if not view.numel() or not steps or not _by_elements(steps, ghost):
        return None
    if view.dtype is not [step.result.dtype for step in steps if step.name not in _COPIES][-1]:
        return None
    if any(step.name in _DRAWS for step in steps) and not backend_for(device).draws_parts:
        return None
    first = view.storage_offset()
    count = 1 + sum((size - 1) * stride for size, stride in zip(view.shape, view.stride(), strict=True))
    shown = _vector(device, count, steps[0].result.dtype)
    storages: dict[Ghost, Any] = {}
    for step in steps:
        if step.name in _COPIES:
            continue
        args = [shown if isinstance(arg, Ref) else arg for arg in step.args]
        if step.name == _CAST:
            before, shown = shown, _vector(device, count, step.result.dtype)
            replay(Step(step.number, step.overload, args, shown, step.device), storages, place)
            del storages[before.ghost]
            continue
        slot = _DRAWS.get(step.name)
        if slot is not None:
            args[slot] = (*args[slot], first)
        replay(Step(step.number, step.overload, args, shown, step.device), storages, place)
    return tensor_from_storage(storages[shown.ghost], view.dtype, view.shape, view.stride(), 0)


def _vector(device: Any, count: int, dtype: Any) -> Ref:
    """A place for ``count`` elements that nothing has written to."""
    return Ref(Ghost(device, count * dtype.itemsize), dtype, (count,), (1,), 0, 0)


def _by_elements(steps: list[Step], ghost: Ghost) -> bool:
    """Whether each step fills all of one ghost, in the order of memory, from that of the step before and numbers alone."""
    dtype, last = None, None
    for step in steps:
        made = step.result
        if step.name not in (_FIRST if last is None else _NEXT) or not isinstance(made, Ref):
            return False
        refs = [arg for arg in step.args if isinstance(arg, Ref)]
        if last is None:
            last = made.ghost  # what it overwrites
        elif step.op is None:
            del refs[0]  # the same for a plain copy
        if step.op is not None:
            dtype = dtype or made.dtype
        elif not refs:
            return False
        kind = made.dtype if step.op is None else dtype
        if step.name == _CAST and last.device == made.ghost.device:
            dtype = made.dtype
        if not all(ref.ghost is last and ref.dtype is kind and _is_whole(ref) for ref in refs):
            return False
        if not _is_whole(made) or (made.dtype is not kind and made.dtype is not dtype):
            return False
        if any(isinstance(arg, (Constant, list)) for arg in step.args):
            return False
        last = made.ghost
    return last is ghost


def _is_whole(ref: Ref) -> bool:
    """Whether it is all of its ghost, in the order of memory."""
    stride = 1
    for size, step in zip(reversed(ref.size), reversed(ref.stride), strict=True):
        if size != 1 and step != stride:
            return False
        stride *= size
    return not ref.flags and ref.covers()
