"""Loading a checkpoint into a model that is there: tensor by tensor, each read once, straight to where it belongs."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

import metatensor as mt
from metatensor._core.placing import tensor_from_storage
from metatensor._core.recorder import suspended
from metatensor.checkpoint.opening import Opened, path_of
from metatensor.checkpoint.planning import Part, plan_for, quoted, state_of
from metatensor.checkpoint.progress import Progress, progress_for
from metatensor.checkpoint.reading import contiguous, span
from metatensor.deferred import is_deferred
from metatensor.deferred.places import places
from metatensor.nn._parameter import without_grad
from metatensor.nn._state_dict import _IncompatibleKeys
from metatensor.nn.parameter import is_lazy

__all__ = ["load_into"]

_unfinished: WeakKeyDictionary[Any, tuple[Any, dict[str, Any]]] = WeakKeyDictionary()
"""What an interrupted call has loaded already: by model the checkpoint, and names with the memory they were loaded into."""


def load_into(
    model: Any,
    path: str | os.PathLike[str],
    *,
    device: Any = None,
    dtype: Any = None,
    shard: Any = None,
    strict: bool = True,
    prefix: str = "",
    progress: bool | Callable[[int, int, str], None] | None = None,
) -> _IncompatibleKeys:
    """Load the checkpoint at ``path`` into ``model``: parameters and persistent buffers, by name.

    Names, shapes and dtypes are compared before a byte of data is read. Then each tensor is read once, straight into its memory on
    the device. No second copy of the model exists at any time, nor of more than one of its tensors where a conversion needs one.
    Parameters stay the objects that they are: what was tied stays tied, and a tied tensor is found under any of its names. What
    an interrupted call (by Ctrl-C, say) has loaded stays, and a second call with the same checkpoint goes on where it stopped.

    Parameters
    ----------
    model
        The module, on meta as a rule. Fake tensors of a device that is not there stay fake, and nothing is read for them.
    path
        A file or folder that `load` takes.
    device
        Where tensors go: a device; a dict from names or their beginnings ("layers.0", "") to devices; or a callable of the
        name. By default they stay where they are, and those on meta go to the default device.
    dtype
        The dtype for floating-point tensors. By default each keeps that of the model, whatever the file has; "checkpoint"
        takes over that of the file.
    shard
        Which part of a stored tensor belongs to the model: a callable of name and stored shape, or a dict by name, that gives a
        slice, a tuple of one for each dimension, or None for all of it. Only the rows asked for are read.
    strict
        Whether names that only one side has are an error.
    prefix
        The beginning of the checkpoint's names that the model's do not have ("state_dict.", "module."). Tensors without it
        are no part of the model.
    progress
        Whether to show bytes, rate and time left: on a terminal, or as lines in a log. By default they are shown on a terminal
        if loading takes a while. A callable is called with the bytes done, the bytes in all, and a name.

    Returns
    -------
    A pair (missing_keys, unexpected_keys).

    Raises
    ------
    RuntimeError
        Lists every name, shape and dtype that does not fit; nothing is loaded.
    CheckpointError
        For a damaged checkpoint.
    """
    if not isinstance(model, mt.nn.Module):
        raise TypeError(f"load_into: the model must be a Module, got {type(model).__name__}")
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise TypeError(f"load_into: the checkpoint is given by its path, got {type(path).__name__}; for an open file there is mt.load")
    if dtype not in (None, "checkpoint") and not (isinstance(dtype, mt.dtype) and dtype.is_floating_point):
        raise TypeError(f'load_into: dtype must be a floating-point dtype, None, or "checkpoint", got {dtype!r}')
    resolved = path_of(path)
    with suspended(), Opened(resolved) as source:
        plan = plan_for(model, source.checkpoint, prefix, device=device, dtype=dtype, shard=shard)
        keys = plan.keys(strict)
        others = _beside(model, plan.units)
        done = _resume(model, resolved, prefix)
        units = [unit for unit in plan.units if not all(_is_done(part, done) for part in unit)]
        total = sum(part.nbytes for unit in units for part in unit)
        with progress_for(progress, total) as shown:
            for unit in units:
                _load_unit(unit, source, shown, others)
                done.update((part.name, _mark(part.tensor)) for part in unit)
    _unfinished.pop(model, None)
    _warn_of_meta(model)
    return keys


def _resume(model: Any, path: str, prefix: str) -> dict[str, Any]:
    """What an interrupted call has loaded from the same file; the dict to note more in."""
    state = os.stat(path)
    identity = (os.path.realpath(path), state.st_size, state.st_mtime_ns, prefix)
    before, done = _unfinished.get(model, (None, {}))
    if before != identity:
        done = {}
    _unfinished[model] = identity, done
    return done


def _mark(tensor: Any) -> tuple[int, int, Any]:
    """What changes when the memory of a tensor is written or replaced."""
    return tensor.untyped_storage()._cdata, tensor._version, tensor.dtype


def _is_done(part: Part, done: dict[str, Any]) -> bool:
    """Whether an earlier call has loaded a part, and nobody has touched it since."""
    return not part.tensor.is_meta and done.get(part.name) == _mark(part.tensor)


def _beside(model: Any, units: list[list[Part]]) -> dict[Any, list[Any]]:
    """The other tensors of a model that share memory with those to be loaded, by storage: buffers in no checkpoint, attributes."""
    loaded = {id(part.tensor) for unit in units for part in unit}
    found: dict[Any, dict[int, Any]] = {part.tensor.untyped_storage(): {} for unit in units for part in unit}
    for place in places(model):
        if id(place.value) not in loaded and not is_lazy(place.value):
            found.get(place.value.untyped_storage(), {})[id(place.value)] = place.value
    return {storage: list(tensors.values()) for storage, tensors in found.items() if tensors}


def _move_along(other: Any, target: Any, begin: int) -> None:
    """Let a tensor view the memory that stands for what it viewed before, whose element ``begin`` is the first, if it is there."""
    if other.storage_offset() >= begin:
        try:
            other.data = tensor_from_storage(
                target.untyped_storage(), target.dtype, other.shape, other.stride(), other.storage_offset() - begin
            )
        except RuntimeError:  # it viewed more than was loaded
            return


def _load_unit(unit: list[Part], source: Opened, shown: Progress, others: dict[Any, list[Any]]) -> None:
    """Load the tensors of one storage, and only then put them in place."""
    with mt.FakeTensorMode() if _stays_fake(unit) else nullcontext():
        made = _made(unit)
    before, dtype = unit[0].tensor.untyped_storage(), unit[0].tensor.dtype
    begin = min(part.tensor.storage_offset() for part in unit)
    for part, target in zip(unit, made):
        shown.start(part.name)
        without_grad(_fill, target, part, source, shown)
    for part, target in zip(unit, made):
        if target is not part.tensor:
            part.tensor.data = target
    if made[0].untyped_storage() is not before:
        for other in others.get(before, ()):
            if other.dtype is dtype:
                _move_along(other, made[0], begin)


def _stays_fake(unit: list[Part]) -> bool:
    """Whether tensors are fake ones of a device that is not there: then names, shapes and dtypes are all that can be loaded."""
    device = unit[0].device
    if not unit[0].tensor.untyped_storage().is_fake or device.type == "meta":
        return False
    return device.type not in mt.plugins.device_types() or not mt.plugins.backend(device.type).is_available()


def _made(unit: list[Part]) -> list[Any]:
    """Tensors to load into, on the device and of the dtype asked for, over one storage as those of the model are."""
    first = unit[0]
    if all(part.tensor.device == part.device and part.tensor.dtype == part.dtype and not part.tensor.is_meta
           and not part.tensor.untyped_storage().is_fake for part in unit):  # fmt: skip
        return [part.tensor.detach() for part in unit]
    if len(unit) == 1 and first.tensor.is_contiguous():
        return [mt.empty(tuple(first.tensor.shape), dtype=first.dtype, device=first.device)]
    end = max(part.tensor.storage_offset() + span(tuple(part.tensor.shape), tuple(part.tensor.stride())) for part in unit)
    begin = min(part.tensor.storage_offset() for part in unit)
    flat = mt.empty(end - begin, dtype=first.dtype, device=first.device)
    return [
        flat.as_strided(tuple(part.tensor.shape), tuple(part.tensor.stride()), part.tensor.storage_offset() - begin) for part in unit
    ]


def _fill(target: Any, part: Part, source: Opened, shown: Progress) -> None:
    """Read a part into ``target``: its bytes as they are where they can be, else by way of one tensor of its own."""
    info = part.info
    if not target.numel() or target.is_meta or target.untyped_storage().is_fake:
        shown.advance(part.nbytes)
        return
    rows = part.slices is None or all(r == (0, size) for r, size in zip(part.slices[1:], info.shape[1:]))
    plain = info.stride is None or info.stride == contiguous(info.shape)
    stored = getattr(mt, info.dtype)
    if plain and rows and not info.lazy and stored == target.dtype and target.is_contiguous() and not (target.is_conj() or target.is_neg()):
        _read(target, part, source, shown)
        return
    # What has to be converted or picked from: the rows that are needed, as they are in the file.
    first, last = part.slices[0] if part.slices and plain else (0, info.shape[0] if info.shape else 1)
    if plain:
        whole = mt.empty((last - first, *info.shape[1:]) if info.shape else (), dtype=stored, device=part.device)
        _read(whole, part, source, shown)
    else:
        assert info.stride is not None
        flat = mt.empty(span(info.shape, info.stride), dtype=stored, device=part.device)
        _read(flat, part._replace(slices=None), source, shown)
        whole = flat.as_strided(info.shape, info.stride)
    if part.slices is not None:
        for dim, (begin, end) in enumerate(part.slices):
            if dim or not plain:
                whole = whole.narrow(dim, begin, end - begin)
    for what in info.lazy.split():
        whole = whole.conj() if what == "conj" else whole.neg()
    target.copy_(whole.reshape(target.shape) if whole.shape != target.shape else whole)


def _read(target: Any, part: Part, source: Opened, shown: Progress) -> None:
    """Read bytes into a dense tensor: those of the rows that are taken."""
    from metatensor.plugins import backend

    on = backend(target.device.type)
    begin = 0
    if part.slices and part.info.shape[0]:
        begin = part.slices[0][0] * (part.info.nbytes // part.info.shape[0])
    nbytes = prod(target.shape) * target.dtype.itemsize
    at = target.storage_offset() * target.dtype.itemsize
    raw = tensor_from_storage(target.untyped_storage(), mt.uint8, (nbytes,), (1,), at)
    try:
        memory = memoryview(on.numpy(raw))
    except TypeError:  # not memory of the host's
        buffer = bytearray(nbytes)
        source.read_into(part.key, memoryview(buffer), begin, shown.advance)
        on.from_host(target, buffer)
        return
    source.read_into(part.key, memory, begin, shown.advance)


def _warn_of_meta(model: Any) -> None:
    """Warn of buffers that no checkpoint has and that therefore still have no values."""
    persistent = {name for name, _ in state_of(model)}
    left = [
        name for name, buffer in model.named_buffers()
        if name not in persistent and buffer.untyped_storage().data is None and not is_deferred(buffer)
    ]  # fmt: skip
    if left:
        warnings.warn(
            f"load_into: {quoted(left[:5])}{' and others' if len(left) > 5 else ''} are buffers that checkpoints do not hold; they "
            "are still on meta, or fake, and have to be computed; under metatensor.deferred_init() they remember how",
            stacklevel=3,
        )
