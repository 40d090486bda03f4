"""Models that are built without memory and remember how their tensors came about.

    with mt.deferred_init():
        model = Model()
    model.to(mt.bfloat16)
    mt.materialize(model, device="cuda")

Inside the context, tensors name the device they would be on and hold no data. Each factory, random fill, copy and other
call of a kernel is written down with its arguments and, for random ones, its ticket. `materialize` carries out what a
tensor needs of that, once, and gives bit for bit what would have been there had nothing been deferred. Since the bytes
belong to storages, ties, views and buffers stay what they are, and whoever refers to a tensor sees it filled.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import metatensor as mt
from metatensor._core.device import Device, backend_for
from metatensor._core.placing import tensor_from_storage
from metatensor._core.recording import Constant, Ghost, Recorder, Ref, Step, install_data, remove_data, replay, suspended
from metatensor._core.storage import recipe_of

__all__ = ["deferred_init", "dematerialize", "is_deferred", "materialize", "materialize_slice"]

# Kernels that do not read what they write over.
OVERWRITES = frozenset((
    "zero_", "fill_", "copy_", "normal_", "uniform_", "bernoulli_.float", "random_", "exponential_", "log_normal_", "cauchy_",
    "geometric_", "copy", "trunc_normal_",
))  # fmt: skip


class deferred_init:
    """A context manager, and a decorator: inside, tensors are made without data and remember how.

    Meta tensors are made as ever. What is made of tensors with data alone is computed, as outside.
    """

    def __init__(self) -> None:
        self._recorder = Recorder(True)

    def __enter__(self) -> deferred_init:
        self._recorder.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._recorder.__exit__(*error)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        from metatensor._core.decorate import run_inside

        return run_inside(self, function)


def is_deferred(tensor: Any) -> bool:
    """Whether a tensor holds no data and remembers how it came about."""
    storage = tensor.untyped_storage()
    return storage.data is None and recipe_of(storage) is not None


# What is needed ---------------------------------------------------------------------------------


def steps_for(ghosts: Iterable[Ghost]) -> list[Step]:
    """The steps that make what these ghosts are in the end, in order."""
    needed: dict[int, Step] = {}
    queue: list[tuple[Ghost, int | None]] = [(ghost, None) for ghost in ghosts]
    while queue:
        ghost, before = queue.pop()
        for step in reversed(ghost.writers):
            if before is not None and step.number >= before:
                continue
            if step.number not in needed:
                needed[step.number] = step
                queue += [(other, step.number) for other in _read(step)]
            if _overwrites(step, ghost):
                break
    return [needed[number] for number in sorted(needed)]


def _overwrites(step: Step, ghost: Ghost) -> bool:
    """Whether nothing that was in the ghost before the step is left."""
    written = step.result if isinstance(step.result, tuple) else (step.result,)
    if not any(ref.ghost is ghost and ref.covers() for ref in written):
        return False
    sources = step.args[1:] if step.name in OVERWRITES else step.args
    return all(ref.ghost is not ghost for ref in _refs(sources))


def _read(step: Step) -> set[Ghost]:
    """The ghosts whose content a step reads; those that it writes to in part among them."""
    written = step.result if isinstance(step.result, tuple) else (step.result,)
    args = step.args[1:] if step.name in OVERWRITES else step.args
    found = {ref.ghost for ref in _refs(args)}
    return found | {ref.ghost for ref in written if not ref.covers()}


def _refs(value: Any) -> Iterator[Ref]:
    if isinstance(value, Ref):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _refs(item)


def run(ghosts: Iterable[Ghost], device: Any = None) -> dict[Ghost, Any]:
    """Storages with what these ghosts are in the end, all on one device or (None) each where it says."""
    targets = list(dict.fromkeys(ghosts))
    wanted = set(targets)
    steps = steps_for(targets)
    last: dict[Ghost, int] = {}
    for step in steps:
        for ref in _refs([step.args, step.result]):
            last[ref.ghost] = step.number
    ends: list[tuple[int, int, Ghost]] = [(number, i, g) for i, (g, number) in enumerate(last.items()) if g not in wanted]
    heapq.heapify(ends)
    place = _placing(device)
    storages: dict[Ghost, Any] = {}
    with suspended(), mt.no_grad():
        for step in steps:
            replay(step, storages, place)
            while ends and ends[0][0] <= step.number:
                storages.pop(heapq.heappop(ends)[2], None)  # nothing reads it any more
    return storages


def _placing(device: Any) -> Callable[[Any], Any]:
    """Where devices, and tensors with data, of a recipe go."""
    if device is None:
        return lambda value: value
    target = mt.device(device)

    def place(value: Any) -> Any:
        if isinstance(value, Device):
            return target if value.type != "meta" else value
        return value.to(target)

    return place


def value_of(tensor: Any) -> Any:
    """A tensor with the values that a deferred one will have; that one stays as it is."""
    storage = tensor.untyped_storage()
    ghost = recipe_of(storage)
    filled = run([ghost])[ghost]
    made = tensor_from_storage(filled, tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset())
    made = made.conj() if tensor.is_conj() else made
    return made._neg_view() if tensor.is_neg() else made


def copy_of(tensor: Any) -> Any:
    """A copy of a tensor with data, made without being recorded."""
    with suspended(), mt.no_grad():
        return tensor.detach().clone()


# Materialising ------------------------------------------------------------------------------------


def tensors_of(obj: Any) -> list[Any]:
    """The tensors of a module (parameters, buffers, and those that are plain attributes), of a nest of containers, or itself."""
    found: dict[int, Any] = {}

    def walk(value: Any) -> None:
        if isinstance(value, mt.Tensor):
            found.setdefault(id(value), value)
            if value.grad is not None:
                walk(value.grad)
        elif isinstance(value, mt.nn.Module):
            for module in value.modules():
                for attribute in vars(module).values():
                    if not isinstance(attribute, mt.nn.Module):
                        walk(attribute)
        elif isinstance(value, dict):
            for item in value.values():
                if not isinstance(item, mt.nn.Module):
                    walk(item)
        elif isinstance(value, (list, tuple, set)):
            for item in value:
                if not isinstance(item, mt.nn.Module) or not isinstance(obj, mt.nn.Module):
                    walk(item)

    walk(obj)
    return list(found.values())


def materialize(obj: Any, *, device: Any = None, dtype: Any = None, executor: Any = None) -> Any:
    """Give a deferred tensor, module or nest of containers its data, in place, and return it.

    All tensors go to ``device``, or where it is None to the one they name. ``dtype`` converts floating-point ones, each
    when it is there. With ``executor``, a `concurrent.futures` one, what does not depend on each other is computed by its
    workers. What holds data already, or is on meta, is left alone.

    Raises RuntimeError for a recipe that needs a tensor with data which was changed since.
    """
    tensors = tensors_of(obj)
    if dtype is not None:
        _convert(tensors, dtype)
    storages = _deferred_storages(tensors)
    ghosts = [recipe_of(storage) for storage in storages]
    if executor is None:
        filled = run(ghosts, device)
    else:
        from metatensor._recipes import run_with

        filled = run_with(executor, ghosts, device)
    for storage, ghost in zip(storages, ghosts, strict=True):
        install_data(storage, filled[ghost])
    return obj


def _deferred_storages(tensors: list[Any]) -> list[Any]:
    found = {}
    for tensor in tensors:
        storage = tensor.untyped_storage()
        if storage.data is None and recipe_of(storage) is not None:
            found[storage] = None
    return list(found)


def _convert(tensors: list[Any], dtype: Any) -> None:
    """Write down a conversion of the floating-point tensors that are deferred; those that share a storage share it again."""
    groups: dict[Any, list[Any]] = {}
    for tensor in tensors:
        if is_deferred(tensor) and tensor.dtype.is_floating_point:
            groups.setdefault(tensor.untyped_storage(), []).append(tensor)
    with mt.no_grad():
        for storage, group in groups.items():
            kind = group[0].dtype
            if kind is dtype or any(t.dtype is not kind for t in group):
                continue
            count = storage.nbytes() // kind.itemsize
            whole = tensor_from_storage(storage, kind, (count,), (1,)).to(dtype).untyped_storage()
            for tensor in group:
                tensor.data = tensor_from_storage(whole, dtype, tensor.shape, tensor.stride(), tensor.storage_offset())


def materialize_slice(tensor: Any, index: Any, *, device: Any = None, dtype: Any = None) -> Any:
    """A new tensor with a part of a deferred one, ``tensor[index]``, which itself stays deferred.

    The values are those that the whole would have there, in any process. While it runs, the whole is in memory once.
    """
    if not is_deferred(tensor):
        raise RuntimeError("materialize_slice: expected a deferred tensor")
    storage = tensor.untyped_storage()
    ghost = recipe_of(storage)
    filled = run([ghost], device)[ghost]
    whole = tensor_from_storage(filled, tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset())
    with mt.no_grad():
        part = whole[index]
        return part.clone() if dtype is None else part.to(dtype, copy=True)


def dematerialize(obj: Any) -> Any:
    """Take the data of what was deferred away again, and return it: it can be materialised anew, as it was first.

    What was computed with or written to it in between is lost. Tensors without a recipe keep their data.
    """
    for tensor in tensors_of(obj):
        storage = tensor.untyped_storage()
        ghost = recipe_of(storage)
        if ghost is not None and storage.data is not None:
            remove_data(storage, ghost.device)
    return obj


_ = (backend_for, Constant)
