"""Load a checkpoint into an existing model. Each tensor is read once, directly into its destination."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any
from weakref import WeakKeyDictionary

import metatensor as mt
from metatensor._core.recorder import suspended
from metatensor._core.storage_views import tensor_from_storage
from metatensor.checkpoint.box_reading import read_block
from metatensor.checkpoint.opening import Opened, path_of
from metatensor.checkpoint.planning import Part, is_distributed, local_part, plan_for, quoted, state_of
from metatensor.checkpoint.progress import Progress, progress_for
from metatensor.checkpoint.reading import span
from metatensor.deferred import is_deferred
from metatensor.deferred.named_tensors import named_tensors
from metatensor.nn._parameter import without_grad
from metatensor.nn._state_dict import _IncompatibleKeys
from metatensor.nn.parameter import is_lazy

__all__ = ["load_into"]

_unfinished: WeakKeyDictionary[Any, tuple[Any, dict[str, Any]]] = WeakKeyDictionary()
"""Progress of interrupted calls: for each model, the checkpoint's identity and a mark per loaded tensor."""


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
    """Load the parameters and persistent buffers of ``model`` from the checkpoint at ``path``, by name.

    Parameters and buffers may be distributed tensors (`DTensor`) with any placements on any mesh. Each process then
    reads the bytes of its parts only, without communication.

    Names, shapes and dtypes are checked before any data is read. Each tensor is then read once, directly into its
    memory on the device. No second copy of the model ever exists. A conversion holds at most one extra tensor.
    Parameters keep their identity, so tied parameters stay tied, and a tied parameter is found under any of its names.
    If a call is interrupted (by Ctrl-C, say), tensors that are already loaded keep their values, and a call with the
    same checkpoint resumes.

    Parameters
    ----------
    model : nn.Module
        The module to fill, usually on meta. Fake tensors of a device that is not available stay fake: their data is not
        read.
    path : str or path
        A file or folder that `load` accepts.
    device : device, str, dict or callable, optional
        Where to put the tensors. A dict maps names or name prefixes ("layers.0", "") to devices. A callable maps a name
        to a device. By default tensors stay on their device, and those on meta go to the default device, or the device
        type of their mesh.
    dtype : dtype or "checkpoint", optional
        The dtype of floating-point tensors. By default the model's dtypes are kept. "checkpoint" takes every dtype from
        the file.
    shard : dict or callable, optional
        Which part of each stored tensor the model holds. A dict maps names, and a callable maps (name, stored shape),
        to a slice, a tuple with one slice per dimension, or None for the whole tensor. Only the required bytes are
        read, unless the file compresses them.
    strict : bool, default True
        Raise if the checkpoint lacks a name of the model or has an extra one.
    prefix : str, default ""
        Prefix that the checkpoint's names have and the model's names lack ("state_dict.", "module."). Tensors without
        it are ignored.
    progress : bool or callable, optional
        Show bytes, rate and time left on a terminal, or as lines in a log. By default they appear on a terminal if
        loading takes more than half a second. A callable receives the bytes done, the total number of bytes and a
        tensor name.

    Returns
    -------
    named tuple
        ``(missing_keys, unexpected_keys)``, two lists of names.

    Raises
    ------
    RuntimeError
        If names, shapes or dtypes do not fit. The message lists all of them, and nothing is loaded.
    CheckpointError
        If the checkpoint is damaged.
    TypeError
        If an argument has the wrong type.

    Examples
    --------
    >>> import os, tempfile
    >>> import metatensor as mt
    >>> path = os.path.join(tempfile.mkdtemp(), "model.pt")
    >>> mt.save({"weight": mt.ones(4, 8, device="cpu"), "bias": mt.zeros(4, device="cpu")}, path)
    >>> model = mt.nn.Linear(8, 4, device="meta")
    >>> missing, unexpected = mt.load_into(model, path, device="cpu")
    >>> model.weight.sum().item()
    32.0
    """
    if not isinstance(model, mt.nn.Module):
        raise TypeError(f"load_into: the model must be a Module, got {type(model).__name__}")
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise TypeError(f"load_into: expected the path of a checkpoint, got {type(path).__name__}; for an open file use mt.load")
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
                done.update((part.name, _mark(part.local)) for part in unit)
    _unfinished.pop(model, None)
    _warn_of_meta(model)
    return keys


def _resume(model: Any, path: str, prefix: str) -> dict[str, Any]:
    """Return the tensors that an interrupted call loaded from the same file.

    The caller adds to this dict as it loads more.
    """
    state = os.stat(path)
    identity = (os.path.realpath(path), state.st_size, state.st_mtime_ns, prefix)
    before, done = _unfinished.get(model, (None, {}))
    if before != identity:
        done = {}
    _unfinished[model] = identity, done
    return done


def _mark(tensor: Any) -> tuple[int, int, Any]:
    """Return a key that changes when the tensor's memory is written to or replaced."""
    return tensor.untyped_storage()._cdata, tensor._version, tensor.dtype


def _is_done(part: Part, done: dict[str, Any]) -> bool:
    """Return True if an earlier call loaded a part and its tensor has not been modified since."""
    return not part.local.is_meta and done.get(part.name) == _mark(part.local)


def _beside(model: Any, units: list[list[Part]]) -> dict[Any, list[Any]]:
    """Return, by storage, the model's other tensors that share memory with those to be loaded.

    They are buffers that the checkpoint lacks, and plain attributes.
    """
    loaded = {id(part.tensor) for unit in units for part in unit}
    found: dict[Any, dict[int, Any]] = {part.local.untyped_storage(): {} for unit in units for part in unit}
    for place in named_tensors(model):
        if id(place.value) not in loaded and not is_lazy(place.value):
            found.get(place.value.untyped_storage(), {})[id(place.value)] = place.value
    return {storage: list(tensors.values()) for storage, tensors in found.items() if tensors}


def _move_along(other: Any, target: Any, begin: int) -> None:
    """Make ``other`` a view of the memory that replaces its old storage.

    ``begin`` is the old offset of the new memory's first element.
    """
    if other.storage_offset() >= begin:
        try:
            other.data = tensor_from_storage(
                target.untyped_storage(), target.dtype, other.shape, other.stride(), other.storage_offset() - begin
            )
        except RuntimeError:  # `other` extends beyond the loaded memory
            return


def _load_unit(unit: list[Part], source: Opened, shown: Progress, others: dict[Any, list[Any]]) -> None:
    """Load all tensors of one storage, then put them in place."""
    with mt.FakeTensorMode() if _stays_fake(unit) else nullcontext():
        made = _made(unit)
    before, dtype = unit[0].local.untyped_storage(), unit[0].local.dtype
    begin = min(part.local.storage_offset() for part in unit)
    for part, target in zip(unit, made):
        shown.start(part.name)
        without_grad(_fill, target, part, source, shown)
    source.release()
    for part, target in zip(unit, made):
        part.tensor.data = part.tensor._with_local(target) if is_distributed(part.tensor) else target
    if made[0].untyped_storage() is not before:
        for other in others.get(before, ()):
            if other.dtype is dtype:
                _move_along(other, made[0], begin)


def _stays_fake(unit: list[Part]) -> bool:
    """Return True for fake tensors of an unavailable device: only names, shapes and dtypes can be checked for them."""
    device = unit[0].device
    if not unit[0].local.untyped_storage().is_fake or device.type == "meta":
        return False
    return device.type not in mt.plugins.device_types() or not mt.plugins.backend(device.type).is_available()


def _made(unit: list[Part]) -> list[Any]:
    """Return tensors to load into, with the chosen device and dtype, that share storage as the model's tensors do."""
    first = unit[0]
    if all(part.local.device == part.device and part.local.dtype == part.dtype and not part.local.is_meta
           and not part.local.untyped_storage().is_fake for part in unit):  # fmt: skip
        return [part.local.detach() for part in unit]
    if len(unit) == 1 and first.local.is_contiguous():
        return [mt.empty(tuple(first.local.shape), dtype=first.dtype, device=first.device)]
    end = max(part.local.storage_offset() + span(tuple(part.local.shape), tuple(part.local.stride())) for part in unit)
    begin = min(part.local.storage_offset() for part in unit)
    flat = mt.empty(end - begin, dtype=first.dtype, device=first.device)
    return [
        flat.as_strided(tuple(part.local.shape), tuple(part.local.stride()), part.local.storage_offset() - begin) for part in unit
    ]


def _fill(target: Any, part: Part, source: Opened, shown: Progress) -> None:
    """Read a part into ``target``: directly if no conversion is needed, else through one temporary tensor."""
    if not target.numel() or target.is_meta or target.untyped_storage().is_fake:
        shown.advance(part.nbytes)
        return
    if len(target.shape) != len(part.info.shape):  # a scalar that is stored with shape (1,)
        target = target.view(part.info.shape)
    for block in part.blocks:
        read_block(source, part.key, block, target, shown.advance)


def _warn_of_meta(model: Any) -> None:
    """Warn about buffers without values, which checkpoints do not contain."""
    persistent = {name for name, _ in state_of(model)}
    left = [
        name for name, buffer in model.named_buffers()
        if name not in persistent and local_part(buffer).untyped_storage().data is None and not is_deferred(local_part(buffer))
    ]  # fmt: skip
    if left:
        warnings.warn(
            f"load_into: {quoted(left[:5])}{' and others' if len(left) > 5 else ''} are buffers that checkpoints do not hold; they "
            "are still on meta, or fake, and must be computed; in a model built under "
            "metatensor.deferred_init(), metatensor.materialize does that",
            stacklevel=3,
        )
