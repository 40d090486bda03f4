"""What `inspect` tells of a checkpoint that is a tree of values: its tensors, by their paths in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from metatensor.checkpoint._values import Kept, Record
from metatensor.checkpoint.model import Checkpoint, TensorInfo
from metatensor.checkpoint.unsupported import UnsupportedTensor

__all__ = ["entries_of", "listed", "tensors_of"]


def tensors_of(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the tensors in a value, each with its path: keys, indices and attributes, joined by dots."""
    from metatensor import Tensor

    for name, entry in entries_of(value, path):
        if isinstance(entry, Tensor):
            yield name, entry


def entries_of(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield what `tensors_of` yields, and each `UnsupportedTensor` among it."""
    from metatensor import Tensor

    if isinstance(value, (Tensor, UnsupportedTensor)):
        yield path, value
        return
    if isinstance(value, dict):
        items: Any = value.items()
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    elif type(value) is Record:
        yield from entries_of(value.state, path)
        return
    elif type(value) is Kept:
        yield from _Walk().entries(value, path)
        return
    else:
        return
    for key, item in items:
        yield from entries_of(item, f"{path}.{key}" if path else str(key))


MODULE_MEMBERS = ("_parameters", "_buffers", "_modules")
"""Where a module that was saved whole has its tensors and its parts: not to be seen in their names."""
NOT_PERSISTENT = "_non_persistent_buffers_set"
MAX_DEPTH = 200
MAX_AGAIN = 100_000
"""How many items are looked at again, in parts of modules that have several names."""


class _Walk:
    """Finds the tensors in what is kept of unknown objects, which may be deep, and the same or cyclic in many places.

    Each object is seen once; but the parts of a module under all their names, as its state dict has them. Nothing of a
    module but what its state dict has is looked at.
    """

    def __init__(self) -> None:
        self.seen: dict[int, Any] = {}
        self.above: set[int] = set()
        self.again = 0

    def entries(self, value: Any, path: str, part: bool = False, table: bool = False) -> Iterator[tuple[str, Any]]:
        """Those in a value; ``part`` tells that it is a part of a module, ``table`` that it is the dict of its parts."""
        from metatensor import Tensor

        if isinstance(value, (Tensor, UnsupportedTensor)):
            yield path, value
            return
        container: Any = value
        if not isinstance(value, (dict, Kept, list, tuple)) or id(value) in self.above or len(self.above) > MAX_DEPTH:
            return
        if id(value) in self.seen:
            self.again += 1 if type(value) is Kept else 1 + len(container)
            if not part or self.again > MAX_AGAIN:
                return
        self.seen[id(value)] = value
        self.above.add(id(value))
        if type(value) is Kept:
            states = [container.state]
            while type(states[0]) is tuple and len(states[0]) == 2 and len(states) < MAX_DEPTH:  # (what came first, what came then)
                states[:1] = states[0]
            for state in states:
                yield from self.entries(state, path, part)
        elif isinstance(value, dict) and all(isinstance(value.get(name), dict) for name in MODULE_MEMBERS):
            left_out = value.get(NOT_PERSISTENT)
            for name in MODULE_MEMBERS:
                for key, item in value[name].items():
                    if name != "_buffers" or not isinstance(left_out, (set, list)) or key not in left_out:
                        yield from self.entries(item, f"{path}.{key}" if path else str(key), True)
        else:
            for key, item in container.items() if isinstance(value, dict) else enumerate(container):
                inner = key in MODULE_MEMBERS and isinstance(item, dict)
                yield from self.entries(item, path if inner else f"{path}.{key}" if path else str(key), inner or table, inner)
        self.above.discard(id(value))


def listed(format: str, source: Any, value: Any, machine: Any, offset_of: Callable[[Any], int]) -> Checkpoint:
    """The listing of a machine's result.

    ``offset_of(ref)`` is where a storage's bytes begin, -1 where they do not lie in the file as this machine has them.
    """
    refs = {id(ref.storage): ref for ref in machine.storages.values()}
    filled = {id(tensor) for tensor, _ in machine.fillings}
    bare: dict[int, str] = {}
    begins: dict[str, int] = {}
    tensors: dict[str, TensorInfo] = {}
    unsupported: dict[str, str] = {}
    for path, tensor in entries_of(value):
        if isinstance(tensor, UnsupportedTensor):
            unsupported[path or "(the tensor)"] = tensor._reason
            continue
        storage = tensor.untyped_storage()
        ref = refs.get(id(storage))
        begin, location = -1, "cpu"
        if ref is not None:
            key = ref.key
            if key not in begins:
                begins[key] = offset_of(ref)
            begin, location = begins[key], ref.location
        else:
            key = bare.setdefault(id(storage), f"meta {len(bare)}")
            if id(tensor) not in filled:  # a tensor of a skeleton, or one that PyTorch saved from meta
                location = "meta"
        name = path or "(the tensor)"
        while name in tensors:
            name += "'"
        tensors[name] = TensorInfo(
            str(tensor.dtype).rpartition(".")[2],
            tuple(tensor.shape),
            tensor.numel() * tensor.dtype.itemsize,
            begin if begin < 0 else begin + tensor.storage_offset() * tensor.dtype.itemsize,
            None if tensor.is_contiguous() else tuple(tensor.stride()),
            key,
            tensor.storage_offset(),
            location,
            lazy=" ".join(what for what, so in (("conj", tensor.is_conj()), ("neg", tensor.is_neg())) if so),
        )
    metadata = {"unknown names": ", ".join(machine.unknown)} if machine.unknown else {}
    return Checkpoint(source.name, format, source.size, tensors, metadata, unsupported=unsupported)
