"""Compute a part of a deferred tensor without the whole.

This works if each element can be computed from numbers and its own position in the random stream.
"""

from __future__ import annotations

from typing import Any

from metatensor._core.device import backend_for
from metatensor._core.recording import Constant, Recipe, Ref, Step
from metatensor._core.replaying import replay
from metatensor._core.storage_views import tensor_from_storage

__all__ = ["part_alone"]

# Kernels that compute each element independently, with the same bits at any position. Random kernels map to the index
# of the argument that holds the position in the random stream.
_DRAWS = {"rand": 1, "randn": 1, "uniform_": 3, "normal_": 3}
_FIRST = frozenset((*_DRAWS, "zeros", "ones", "full", "zero", "fill", "empty"))
_COPIES = frozenset(("copy", "clone"))
_CAST = "_to_copy"
_NEXT = frozenset((*_COPIES, _CAST, "add", "sub", "mul", "div", "neg", "clamp", "clamp_min", "clamp_max", "erfinv"))


def part_alone(recipe: Recipe, steps: list[Step], view: Any, device: Any, relocate: Any) -> Any:
    """Return the part of a recorded storage that ``view`` covers, or None if computing it needs the whole tensor.

    ``view`` is a meta tensor over the whole storage, and ``steps`` are those that compute it. The result's storage
    covers the elements from the part's first to its last.
    """
    if not view.numel() or not steps or not _by_elements(steps, recipe):
        return None
    if view.dtype is not [step.result.dtype for step in steps if step.name not in _COPIES][-1]:
        return None
    if any(step.name in _DRAWS for step in steps) and not backend_for(device).draws_parts:
        return None
    first = view.storage_offset()
    count = 1 + sum((size - 1) * stride for size, stride in zip(view.shape, view.stride(), strict=True))
    shown = _vector(device, count, steps[0].result.dtype)
    storages: dict[Recipe, Any] = {}
    for step in steps:
        if step.name in _COPIES:
            continue
        args = [shown if isinstance(arg, Ref) else arg for arg in step.args]
        if step.name == _CAST:
            before, shown = shown, _vector(device, count, step.result.dtype)
            replay(Step(step.number, step.overload, args, shown, step.device), storages, relocate)
            del storages[before.recipe]
            continue
        slot = _DRAWS.get(step.name)
        if slot is not None:
            args[slot] = (*args[slot], first)
        replay(Step(step.number, step.overload, args, shown, step.device), storages, relocate)
    return tensor_from_storage(storages[shown.recipe], view.dtype, view.shape, view.stride(), 0)


def _vector(device: Any, count: int, dtype: Any) -> Ref:
    """Return a recorded tensor of ``count`` elements that no step has written to."""
    return Ref(Recipe(device, count * dtype.itemsize), dtype, (count,), (1,), 0, 0)


def _by_elements(steps: list[Step], recipe: Recipe) -> bool:
    """Return True if each step fills a whole storage, in memory order, from numbers and the previous step's storage.
    """
    dtype, last = None, None
    for step in steps:
        made = step.result
        if step.name not in (_FIRST if last is None else _NEXT) or not isinstance(made, Ref):
            return False
        refs = [arg for arg in step.args if isinstance(arg, Ref)]
        if last is None:
            last = made.recipe  # a first step refers to nothing but the storage that it overwrites
        elif step.op is None:
            del refs[0]  # a plain copy overwrites its first argument
        if step.op is not None:
            dtype = dtype or made.dtype
        elif not refs:
            return False
        kind = made.dtype if step.op is None else dtype
        if step.name == _CAST and last.device == made.recipe.device:
            dtype = made.dtype
        if not all(ref.recipe is last and ref.dtype is kind and _is_whole(ref) for ref in refs):
            return False
        if not _is_whole(made) or (made.dtype is not kind and made.dtype is not dtype):
            return False
        if any(isinstance(arg, (Constant, list)) for arg in step.args):
            return False
        last = made.recipe
    return last is recipe


def _is_whole(ref: Ref) -> bool:
    """Return True if the tensor covers its storage in memory order."""
    stride = 1
    for size, step in zip(reversed(ref.size), reversed(ref.stride), strict=True):
        if size != 1 and step != stride:
            return False
        stride *= size
    return not ref.flags and ref.covers()
