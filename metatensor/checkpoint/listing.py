"""List the tensors in a checkpoint of nested values, each under its path."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from metatensor._core.tensor import Tensor
from metatensor.checkpoint._values import Kept, Record
from metatensor.checkpoint.budget import current
from metatensor.checkpoint.model import Checkpoint, TensorInfo
from metatensor.checkpoint.unsupported import UnsupportedTensor

__all__ = ["PER_BYTE", "Walk", "entries_of", "free_for", "listed", "tensors_of", "unique"]


PER_SPENT, PER_BYTE = 8, 64
"""Cost of a listing above which the budget is charged, as multiples of the pickle's cost and of the file's size."""
PER_TENSOR = 1000
"""Cost of a tensor in a listing in bytes, without its name."""


def tensors_of(value: Any, file: str, free: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield each tensor in a nested value with its path: keys, indices and attribute names, joined by dots.

    A path may occur more than once. Shared values are visited every time, so the walk can be long. Raise
    `CheckpointError`, naming ``file``, if the cost of the walk exceeds ``free`` and what is left of the budget.
    """
    for name, entry in entries_of(value, file, free):
        if isinstance(entry, Tensor):
            yield name, entry


def entries_of(value: Any, file: str, free: int = 0, attributes: set[str] | None = None) -> Iterator[tuple[str, Any]]:
    """Yield what `tensors_of` yields, and every `UnsupportedTensor` as well.

    The paths of tensors that belong to a module but not to its state dict are added to ``attributes``.
    """
    return Walk(file, free, attributes).tree(value, "")


def free_for(machine: Any, source: Any) -> int:
    """Return the cost that listing the result of a pickle machine may have before the budget is charged."""
    return int(min(PER_SPENT * machine.spent, PER_BYTE * source.size))


def unique(pairs: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Yield the pairs, with a mark appended to repeated names."""
    seen: dict[str, int] = {}
    for name, value in pairs:
        if name in seen:
            plain = name
            while name in seen:
                seen[plain] += 1
                name = plain + "'" * seen[plain] if seen[plain] < 3 else f"{plain}'{seen[plain]}"
        seen[name] = 0
        yield name, value


MODULE_MEMBERS = ("_parameters", "_buffers", "_modules")
"""Attributes in which a pickled module holds its tensors and submodules. They do not appear in paths."""
NOT_PERSISTENT = "_non_persistent_buffers_set"
MAX_DEPTH = 200
MAX_AGAIN = 100_000
"""Largest number of items that may be visited again because a parameter, buffer or submodule has several names."""


class Walk:
    """Finds the tensors in nested values and in the state of unknown objects.

    The state of unknown objects may be deep, shared or cyclic. Each object in it is visited once. Parameters, buffers
    and submodules are the exception: they are visited under each of their names, as in a state dict.
    """

    def __init__(self, file: str, free: int, attributes: set[str] | None = None) -> None:
        self.file = file
        self.free = free
        self.budget = current()
        self.attributes = set() if attributes is None else attributes
        self.inside = 0
        """Depth of nesting in attributes that are not part of a module's state dict."""
        self.seen: dict[int, Any] = {}
        self.above: set[int] = set()
        self.again = 0

    def pay(self, nbytes: int) -> None:
        """Charge for work before it is done."""
        self.free -= nbytes
        if self.free < 0:
            self.budget.charge(self.file, -self.free, "listing its tensors by their paths takes time")
            self.free = 0

    def inner(self, path: str, key: Any) -> str:
        """Return the path of an item."""
        text = key if type(key) is str else str(key)
        self.pay(len(path) + len(text))
        return f"{path}.{text}" if path else text

    def tree(self, value: Any, path: str) -> Iterator[tuple[str, Any]]:
        """Yield the tensors in a value. The pickle machine limits its depth."""
        if isinstance(value, (Tensor, UnsupportedTensor)):
            self.pay(PER_TENSOR + len(path))
            yield path, value
        elif isinstance(value, (dict, list, tuple)):
            self.pay(64 + 16 * len(value))
            for key, item in value.items() if isinstance(value, dict) else enumerate(value):
                if isinstance(item, WALKED):
                    yield from self.tree(item, self.inner(path, key))
        elif type(value) is Record:
            self.pay(64)
            yield from self.tree(value.state, path)
        elif type(value) is Kept:
            yield from self.entries(value, path)

    def entries(self, value: Any, path: str, part: bool = False, table: bool = False) -> Iterator[tuple[str, Any]]:
        """Yield the tensors in a value that may contain unknown objects.

        ``part`` is true if the value is a part of a module, ``table`` if it is the dict that holds such parts.
        """
        if isinstance(value, (Tensor, UnsupportedTensor)):
            self.pay(PER_TENSOR + len(path))
            if self.inside:
                if id(value) in self.seen:  # it was found under another name
                    return
                self.attributes.add(path)
            self.seen[id(value)] = value
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
        self.pay(64 if type(value) is Kept else 64 + 16 * len(container))
        if type(value) is Kept:
            states = [container.state]
            while type(states[0]) is tuple and len(states[0]) == 2 and len(states) < MAX_DEPTH:  # (earlier, later)
                states[:1] = states[0]
            for state in states:
                yield from self.entries(state, path, part)
        elif isinstance(value, dict) and all(isinstance(value.get(name), dict) for name in MODULE_MEMBERS):
            yield from self.module(value, path)
        else:
            for key, item in container.items() if isinstance(value, dict) else enumerate(container):
                if isinstance(item, WALKED):
                    inner = key in MODULE_MEMBERS and isinstance(item, dict)
                    yield from self.entries(item, path if inner else self.inner(path, key), inner or table, inner)
        self.above.discard(id(value))

    def module(self, state: dict[Any, Any], path: str) -> Iterator[tuple[str, Any]]:
        """Yield the tensors of a module: those in its state dict, then those found only in other attributes."""
        temporary = state.get(NOT_PERSISTENT)
        for name in MODULE_MEMBERS:
            for key, item in state[name].items():
                if not isinstance(item, WALKED):
                    continue
                beside = name == "_buffers" and isinstance(temporary, (set, list)) and key in temporary
                self.inside += beside
                yield from self.entries(item, self.inner(path, key), True)
                self.inside -= beside
        self.inside += 1
        for key, item in state.items():
            if key not in MODULE_MEMBERS and isinstance(item, WALKED):
                yield from self.entries(item, self.inner(path, key))
        self.inside -= 1


WALKED = (Tensor, UnsupportedTensor, dict, list, tuple, Record, Kept)


def listed(format: str, source: Any, value: Any, machine: Any, offset_of: Callable[[Any], int]) -> Checkpoint:
    """Return the `Checkpoint` for the result of a pickle machine.

    ``offset_of(ref)`` returns the file offset of a storage's bytes, or -1 if the file does not hold them in their final
    form.
    """
    refs = {id(ref.storage): ref for ref in machine.storages.values()}
    filled = {id(tensor) for tensor, _ in machine.fillings}
    bare: dict[int, str] = {}
    begins: dict[str, int] = {}
    tensors: dict[str, TensorInfo] = {}
    unsupported: dict[str, str] = {}
    attributes: set[str] = set()
    entries = entries_of(value, source.name, free_for(machine, source), attributes)
    for name, tensor in unique((path or "(the tensor)", entry) for path, entry in entries):
        if isinstance(tensor, UnsupportedTensor):
            unsupported[name] = tensor._reason
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
            if id(tensor) not in filled:  # from a skeleton, or saved from meta by PyTorch
                location = "meta"
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
    return Checkpoint(source.name, format, source.size, tensors, metadata, unsupported=unsupported, attributes=frozenset(attributes))
