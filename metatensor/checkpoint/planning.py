"""Match the tensors of a checkpoint to those of a model, and collect every mismatch, without reading data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import metatensor as mt
from metatensor._core.sharded import DistributedTensor
from metatensor.checkpoint.boxes import Block, Box
from metatensor.checkpoint.errors import printable
from metatensor.checkpoint.model import Checkpoint, TensorInfo
from metatensor.nn._state_dict import _IncompatibleKeys
from metatensor.nn.parameter import is_lazy

__all__ = ["Part", "Plan", "is_distributed", "local_part", "plan_for", "quoted", "state_of"]


def plan_for(model: Any, checkpoint: Checkpoint, prefix: str = "", **options: Any) -> Plan:
    """Return the `Plan` for loading a checkpoint into a model. It lists every mismatch. No data is read."""
    names, unsupported = (
        {name[len(prefix) :]: name for name in found if name.startswith(prefix)} for found in (checkpoint.tensors, checkpoint.unsupported)
    )
    reasons = {name: checkpoint.unsupported[key] for name, key in unsupported.items()}
    state = {name: key for name, key in names.items() if key not in checkpoint.attributes}
    return Plan(model, checkpoint.tensors, state, unsupported=reasons, **options)


MAX_HINT = 200
"""Longest prefix, in characters, that `Plan.hint` suggests."""


class Part(NamedTuple):
    """A tensor of the model and the stored data to read into it."""

    name: str
    """Name in the model."""
    key: str
    """Name in the checkpoint."""
    tensor: Any
    info: TensorInfo
    blocks: tuple[Block, ...]
    """The boxes of the stored tensor to read, and where they belong in `local`."""
    device: Any
    dtype: Any

    @property
    def local(self) -> Any:
        """The tensor with data: ``tensor`` itself, or this process's part of a distributed one."""
        return local_part(self.tensor)

    @property
    def nbytes(self) -> int:
        """Number of bytes to read."""
        return sum(block.box.numel for block in self.blocks) * int(getattr(mt, self.info.dtype).itemsize)


class Plan:
    """An assignment of stored tensors to a model's tensors, with a list of all mismatches."""

    def __init__(self, model: Any, infos: Mapping[str, TensorInfo], names: Mapping[str, str],
                 device: Any = None, dtype: Any = None, shard: Any = None,
                 unsupported: Mapping[str, str] | None = None) -> None:  # fmt: skip
        self.model = model
        self.infos = infos
        self.names = names
        self.device = device
        self.dtype = dtype
        self.shard = shard
        self.errors: list[str] = []
        self.missing: list[str] = []
        self.units: list[list[Part]] = []
        places: dict[int, list[str]] = {}
        tensors: dict[int, Any] = {}
        for name, tensor in state_of(model):
            places.setdefault(id(tensor), []).append(name)
            tensors[id(tensor)] = tensor
        self.known = {name for found in places.values() for name in found}
        groups: dict[Any, list[Part]] = {}
        for number, found in places.items():
            tensor = tensors[number]
            if is_lazy(tensor):
                self.errors.append(f"{found[0]}: its shape is not known yet; run the model once on meta.")
                continue
            there = [name for name in found if name in names]
            if not there:
                refused = unsupported or {}
                reasons = [f"{name}: it cannot be loaded: {refused[name]}." for name in found if name in refused]
                self.errors += reasons
                self.missing += [] if reasons else found
                continue
            part = self._part(there[-1], tensor)
            if part is not None:
                groups.setdefault(part.local.untyped_storage(), []).append(part)
        self.units = list(groups.values())
        for unit in self.units:
            if len({(part.device, part.dtype) for part in unit}) > 1:
                both = ", ".join(part.name for part in unit[:3])
                self.errors.append(f"{both}: they share one storage and cannot go to several devices or dtypes.")

    def keys(self, strict: bool) -> _IncompatibleKeys:
        """Return the missing and unexpected names. Raise RuntimeError if there are errors."""
        unexpected = self.unexpected
        errors = list(self.errors)
        if strict and self.missing:
            errors.insert(0, f"Missing in the checkpoint: {quoted(self.missing)}.")
        if strict and unexpected:
            errors.insert(0, f"Unexpected in the checkpoint: {quoted(unexpected)}.")
        if errors:
            if hint := self.hint():
                errors.append(f"The names in the checkpoint begin with {hint!r}: prefix={hint!r} leaves that out.")
            elif hint := self.hint(of_model=True):
                errors.append(f"The model's names begin with {hint!r}, but the checkpoint's do not: load into model.{hint.rstrip('.')}.")
            lines = "\n\t".join(map(printable, errors))
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self.model).__name__}:\n\t{lines}")
        return _IncompatibleKeys(self.missing, unexpected)

    @property
    def unexpected(self) -> list[str]:
        """Names in the checkpoint that the model lacks."""
        return [name for name in self.names if name not in self.known]

    def hint(self, of_model: bool = False) -> str:
        """Return the prefix to remove from the checkpoint's names so that most of them match the model's, or "".

        With ``of_model``, return the prefix to remove from the model's names instead.
        """
        known, names = (self.names.keys(), self.known) if of_model else (self.known, self.names.keys())
        fitting: Counter[str] = Counter()
        for name in names:
            at = name.find(".") + 1
            while 0 < at <= MAX_HINT:
                if name[at:] in known:
                    fitting[name[:at]] += 1
                at = name.find(".", at) + 1
        if not fitting:
            return ""
        start, count = max(fitting.items(), key=lambda pair: pair[1])
        return start if count > len(self.known & self.names.keys()) and 2 * count >= min(len(known), len(names)) else ""

    def _part(self, name: str, tensor: Any) -> Part | None:
        """Return the part to read into a tensor. If it does not fit, record an error and return None."""
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
        if shape != wanted and not (wanted == () and shape == (1,)):  # very old checkpoints store scalars as shape (1,)
            part = "the part of the checkpoint's" if slices is not None else "the checkpoint has"
            self.errors.append(f"size mismatch for {name}: {part} shape {list(shape)}, but the model has {list(wanted)}.")
            return None
        target = tensor.dtype
        if self.dtype == "checkpoint":
            target = stored
        elif self.dtype is not None and target.is_floating_point:
            target = self.dtype
        begins = tuple(begin for begin, _ in slices) if slices is not None else (0,) * len(shape)
        try:
            blocks = tuple(_moved(block, begins) for block in tensor._blocks()) if is_distributed(tensor) else (
                Block(Box(begins, shape), (0,) * len(shape)),
            )  # fmt: skip
        except ValueError as error:
            self.errors.append(f"{name}: {error}.")
            return None
        return Part(name, key, tensor, info, blocks, self._device(name, tensor), target)

    def _slices(self, name: str, shape: tuple[int, ...]) -> tuple[tuple[tuple[int, int], ...] | None, tuple[int, ...]]:
        """Return the ranges of a stored tensor that the model holds, and their shape."""
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
            if not tensor.is_meta:
                chosen = tensor.device
            else:
                chosen = tensor._spec.mesh.device_type if is_distributed(tensor) else mt.get_default_device()
        return mt.device(chosen)


def is_distributed(tensor: Any) -> bool:
    """Return True for a tensor of which this process holds a part."""
    return isinstance(tensor, DistributedTensor) and tensor._spec is not None


def local_part(tensor: Any) -> Any:
    """Return this process's part of a distributed tensor, or the tensor itself if it is not distributed."""
    return tensor._local_tensor if is_distributed(tensor) else tensor


def _moved(block: tuple[Any, Any, Any], begins: tuple[int, ...]) -> Block:
    """Return a block of a distributed tensor, as (offsets, sizes, place), that is itself a part of a stored one."""
    offsets, sizes, place = block
    return Block(Box(tuple(a + b for a, b in zip(offsets, begins)), tuple(sizes)), tuple(place))


def state_of(model: Any) -> Any:
    """Yield (name, tensor) for each entry of the model's state dict. A tied tensor appears under each of its names."""
    for path, module in model.named_modules(remove_duplicate=False):
        start = f"{path}." if path else ""
        temporary = module._non_persistent_buffers_set
        for members, left_out in ((module._parameters, ()), (module._buffers, temporary)):
            for name, tensor in members.items():
                if tensor is not None and name not in left_out:
                    yield start + name, tensor


def quoted(names: Sequence[str]) -> str:
    """Return names quoted and joined for a message."""
    return ", ".join(f'"{printable(name)}"' for name in names)
