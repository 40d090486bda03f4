"""What `inspect` tells of a checkpoint that is a tree of values: its tensors, by their paths in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from metatensor.checkpoint._values import Kept, Record
from metatensor.checkpoint.model import Checkpoint, TensorInfo

__all__ = ["listed", "tensors_of"]


def tensors_of(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The tensors in a value, each with its path: keys, indices and attributes, joined by dots."""
    from metatensor import Tensor

    if isinstance(value, Tensor):
        yield path, value
        return
    if isinstance(value, dict):
        items: Any = value.items()
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    elif type(value) is Record:
        yield from tensors_of(value.state, path)
        return
    elif type(value) is Kept:
        yield from _Walk().tensors(value, path)
        return
    else:
        return
    for key, item in items:
        yield from tensors_of(item, f"{path}.{key}" if path else str(key))


MODULE_MEMBERS = ("_parameters", "_buffers", "_modules")
"""Where a module that was saved whole has its tensors and its parts: not to be seen in their names."""
MAX_DEPTH = 200
MAX_AGAIN = 100_000
"""How many items are looked at again, in parts of modules that have several names."""


class _Walk:
    """Finds the tensors in what is kept of unknown objects, which may be deep, and the same or cyclic in many places.

    Each object is seen once; but the parts of a module under all their names, as its state dict has them.
    """

    def __init__(self) -> None:
        self.seen: dict[int, Any] = {}
        self.above: set[int] = set()
        self.again = 0

    def tensors(self, value: Any, path: str, part: bool = False, table: bool = False) -> Iterator[tuple[str, Any]]:
        """Those in a value; ``part`` tells that it is a part of a module, ``table`` that it is the dict of its parts."""
        from metatensor import Tensor

        if isinstance(value, Tensor):
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
                yield from self.tensors(state, path, part)
        else:
            for key, item in container.items() if isinstance(value, dict) else enumerate(container):
                inner = key in MODULE_MEMBERS and isinstance(item, dict)
                yield from self.tensors(item, path if inner else f"{path}.{key}" if path else str(key), inner or table, inner)
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
    for path, tensor in tensors_of(value):
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
    return Checkpoint(source.name, format, source.size, tensors, metadata)
