"""Loading a checkpoint into a model that is there: tensor by tensor, each read once, straight to where it belongs."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import metatensor as mt
from metatensor.checkpoint.model import TensorInfo
from metatensor.checkpoint.opening import Opened, path_of
from metatensor.checkpoint.progress import Progress, progress_for
from metatensor.checkpoint.reading import contiguous, span
from metatensor.nn._parameter import without_grad
from metatensor.nn._state_dict import _IncompatibleKeys
from metatensor.nn.parameter import is_lazy

__all__ = ["Plan", "load_into", "plan_for"]

_unfinished: WeakKeyDictionary[Any, tuple[Any, set[str]]] = WeakKeyDictionary()
"""What an interrupted call has loaded already: by model the checkpoint, and the names."""


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

    Names, shapes and dtypes are compared before a byte of data is read. Then each tensor is read once, straight into
    its memory on the device; no second copy of the model exists at any time, nor of more than one of its tensors where
    a conversion needs one. Parameters stay the objects that they are: what was tied stays tied, and a tied tensor is
    found under any of its names. What a call that was interrupted (by Ctrl-C, say) has loaded stays, and a second call
    with the same checkpoint goes on where it stopped.

    Args:
        model: the module, on meta as a rule.
        path: a file or folder that `mt.load` takes.
        device: where tensors go: a device; a dict of names or their beginnings ("layers.0", "") to devices; or a callable
            of the name. By default they stay where they are, and those on meta go to the default device.
        dtype: the dtype for floating-point tensors. By default each keeps that of the model, whatever the file has;
            "checkpoint" takes over that of the file.
        shard: which part of a stored tensor belongs to the model: a callable of name and stored shape, or a dict by
            name, that gives a slice, or a tuple of one for each dimension, or None for all of it. Only the rows asked
            for are read.
        strict: whether names that only one side has are an error.
        prefix: the beginning of the checkpoint's names that the model's do not have ("state_dict.", "module."); tensors
            without it are no part of the model.
        progress: show bytes, rate and time left on the terminal (by default if it is one and it takes a while), or not,
            or call this with bytes done, bytes in all, and a name.

    Returns a pair (missing_keys, unexpected_keys). Raises RuntimeError that lists every name, shape and dtype that does
    not fit, with nothing loaded; `CheckpointError` for a damaged checkpoint.
    """
    resolved = path_of(path)
    with Opened(resolved) as source:
        names = {name[len(prefix) :]: name for name in source.checkpoint.tensors if name.startswith(prefix)}
        plan = Plan(model, source.checkpoint.tensors, names, device, dtype, shard)
        keys = plan.keys(strict)
        done = _resume(model, resolved)
        units = [unit for unit in plan.units if not done.issuperset(part.name for part in unit)]
        total = sum(part.nbytes for unit in units for part in unit)
        with progress_for(progress, total) as shown:
            for unit in units:
                _load_unit(unit, source, shown)
                done.update(part.name for part in unit)
    _unfinished.pop(model, None)
    _warn_of_meta(model)
    return keys


def plan_for(model: Any, tensors: Mapping[str, TensorInfo], prefix: str = "") -> Plan:
    """What of a checkpoint would go where in a model, and what does not fit: `load_into` without the loading."""
    return Plan(model, tensors, {name[len(prefix) :]: name for name in tensors if name.startswith(prefix)})


def _resume(model: Any, path: str) -> set[str]:
    """The names that an interrupted call has loaded from the same file; the set to note more in."""
    state = os.stat(path)
    identity = (os.path.realpath(path), state.st_size, state.st_mtime_ns)
    before, done = _unfinished.get(model, (None, set()))
    if before != identity:
        done = set()
    _unfinished[model] = identity, done
    return done


class _Part(NamedTuple):
    """A tensor of the model and what is read into it."""

    name: str
    """The model's."""
    key: str
    """The checkpoint's."""
    tensor: Any
    info: TensorInfo
    slices: tuple[tuple[int, int], ...] | None
    """The range of each dimension that is taken, or None for all."""
    device: Any
    dtype: Any

    @property
    def nbytes(self) -> int:
        """Bytes to read."""
        if self.slices is None or not self.slices or not self.info.shape[0]:
            return self.info.nbytes
        first, last = self.slices[0]
        return self.info.nbytes // self.info.shape[0] * (last - first)


class Plan:
    """What goes where, and all that does not fit, found without reading data."""

    def __init__(self, model: Any, infos: Mapping[str, TensorInfo], names: Mapping[str, str],
                 device: Any = None, dtype: Any = None, shard: Any = None) -> None:  # fmt: skip
        self.model = model
        self.infos = infos
        self.names = names
        self.device = device
        self.dtype = dtype
        self.shard = shard
        self.errors: list[str] = []
        self.missing: list[str] = []
        self.units: list[list[_Part]] = []
        places: dict[int, list[str]] = {}
        tensors: dict[int, Any] = {}
        for name, tensor in _state(model):
            places.setdefault(id(tensor), []).append(name)
            tensors[id(tensor)] = tensor
        self.known = {name for found in places.values() for name in found}
        groups: dict[Any, list[_Part]] = {}
        for number, found in places.items():
            tensor = tensors[number]
            if is_lazy(tensor):
                self.errors.append(f"{found[0]}: its shape is not known yet; run the model once on meta.")
                continue
            there = [name for name in found if name in names]
            if not there:
                self.missing += found
                continue
            part = self._part(there[-1], tensor)
            if part is not None:
                groups.setdefault(tensor.untyped_storage(), []).append(part)
        self.units = list(groups.values())
        for unit in self.units:
            if len({(part.device, part.dtype) for part in unit}) > 1:
                both = ", ".join(part.name for part in unit[:3])
                self.errors.append(f"{both}: they share one storage and cannot go to several devices or dtypes.")

    def keys(self, strict: bool) -> _IncompatibleKeys:
        """The names that only one side has. RuntimeError for what is an error."""
        unexpected = self.unexpected
        errors = list(self.errors)
        if strict and self.missing:
            errors.insert(0, f"Missing in the checkpoint: {_quoted(self.missing)}.")
        if strict and unexpected:
            errors.insert(0, f"Unexpected in the checkpoint: {_quoted(unexpected)}.")
        if errors:
            hint = self.hint()
            if hint:
                errors.append(f"The names in the checkpoint begin with {hint!r}: prefix={hint!r} leaves that out.")
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self.model).__name__}:\n\t" + "\n\t".join(errors))
        return _IncompatibleKeys(self.missing, unexpected)

    @property
    def unexpected(self) -> list[str]:
        """Names of the checkpoint that the model does not have."""
        return [name for name in self.names if name not in self.known]

    def hint(self) -> str:
        """What the checkpoint's names begin with, where none fits but all would without it."""
        if self.known & self.names.keys():
            return ""
        for name in self.names:
            for known in self.known:
                start = name[: -len(known)]
                if name.endswith("." + known) and all(start + other in self.names for other in list(self.known)[:20]):
                    return start
        return ""

    def _part(self, name: str, tensor: Any) -> _Part | None:
        """What is read into a tensor; None, with an error noted, where it does not fit."""
        key = self.names[name]
        info = self.infos[key]
        stored = getattr(mt, info.dtype, None)
        if not isinstance(stored, mt.dtype):
            self.errors.append(f"{name}: the checkpoint has {info.dtype}, which metatensor does not compute with.")
            return None
        if info.location == "meta":
            self.errors.append(f"{name}: the checkpoint has no data for it: it is a skeleton, or was saved from meta.")
            return None
        try:
            slices, shape = self._slices(name, info.shape)
        except (TypeError, ValueError) as error:
            self.errors.append(f"{name}: {error}.")
            return None
        wanted = tuple(tensor.shape)
        if shape != wanted and not (wanted == () and shape == (1,)):  # very old checkpoints hold single numbers so
            part = "the part of the checkpoint's" if slices is not None else "the checkpoint has"
            self.errors.append(f"size mismatch for {name}: {part} shape {list(shape)}, the model has {list(wanted)}.")
            return None
        target = tensor.dtype
        if self.dtype == "checkpoint":
            target = stored
        elif self.dtype is not None and target.is_floating_point:
            target = self.dtype
        return _Part(name, key, tensor, info, slices, self._device(name, tensor), target)

    def _slices(self, name: str, shape: tuple[int, ...]) -> tuple[tuple[tuple[int, int], ...] | None, tuple[int, ...]]:
        """The ranges that the model holds of a stored tensor, and the shape they make."""
        shard = self.shard
        asked = shard.get(name) if isinstance(shard, Mapping) else None if shard is None else shard(name, shape)
        if asked is None:
            return None, shape
        if isinstance(asked, slice):
            asked = (asked,)
        if not isinstance(asked, Sequence) or len(asked) > len(shape) or not all(isinstance(item, slice) for item in asked):
            raise TypeError(f"shard must give slices, at most {len(shape)} of them, got {asked!r}")
        ranges = []
        for item, size in zip((*asked, *(slice(None),) * (len(shape) - len(asked))), shape):
            begin, end, step = item.indices(size)
            if step != 1:
                raise ValueError(f"shard must give slices of step 1, got {item!r}")
            ranges.append((begin, max(begin, end)))
        return tuple(ranges), tuple(end - begin for begin, end in ranges)

    def _device(self, name: str, tensor: Any) -> Any:
        chosen = self.device
        if isinstance(chosen, Mapping):
            fitting = [key for key in chosen if key == "" or name == key or name.startswith(f"{key}.")]
            if not fitting:
                raise ValueError(f"load_into: device has no entry for {name!r}; '' stands for all others")
            chosen = chosen[max(fitting, key=len)]
        elif callable(chosen) and not isinstance(chosen, mt.device):
            chosen = chosen(name)
        if chosen is None:
            chosen = mt.get_default_device() if tensor.is_meta else tensor.device
        return mt.device(chosen)


def _state(model: Any) -> Any:
    """Names and tensors of what a state_dict has, the same tensor under each of its names."""
    for path, module in model.named_modules(remove_duplicate=False):
        start = f"{path}." if path else ""
        temporary = module._non_persistent_buffers_set
        for members, left_out in ((module._parameters, ()), (module._buffers, temporary)):
            for name, tensor in members.items():
                if tensor is not None and name not in left_out:
                    yield start + name, tensor


def _load_unit(unit: list[_Part], source: Opened, shown: Progress) -> None:
    """Load the tensors of one storage, and only then put them in place."""
    made = _made(unit)
    for part, target in zip(unit, made):
        shown.start(part.name)
        without_grad(_fill, target, part, source, shown)
    for part, target in zip(unit, made):
        if target is not part.tensor:
            part.tensor.data = target


def _made(unit: list[_Part]) -> list[Any]:
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


def _fill(target: Any, part: _Part, source: Opened, shown: Progress) -> None:
    """Read a part into ``target``: its bytes as they are where they can be, else by way of one tensor of its own."""
    info = part.info
    if not target.numel() or target.is_meta:
        shown.advance(part.nbytes)
        return
    rows = part.slices is None or all(r == (0, size) for r, size in zip(part.slices[1:], info.shape[1:]))
    plain = info.stride is None or info.stride == contiguous(info.shape)
    stored = getattr(mt, info.dtype)
    if plain and rows and stored == target.dtype and target.is_contiguous() and not (target.is_conj() or target.is_neg()):
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
    target.copy_(whole.reshape(target.shape) if whole.shape != target.shape else whole)


def _read(target: Any, part: _Part, source: Opened, shown: Progress) -> None:
    """Read bytes into a dense tensor: those of the rows that are taken."""
    from metatensor._core.placing import tensor_from_storage
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
    persistent = {name for name, _ in _state(model)}
    left = [name for name, buffer in model.named_buffers() if buffer.is_meta and name not in persistent]
    if left:
        warnings.warn(
            f"load_into: {_quoted(left[:5])}{' and others' if len(left) > 5 else ''} are buffers that checkpoints do not hold; "
            "they are still on meta and have to be computed",
            stacklevel=3,
        )


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
