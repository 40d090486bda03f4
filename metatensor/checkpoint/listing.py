"""What `inspect` tells of a checkpoint that is a tree of values: its tensors, by their paths in it."""

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
"""A listing may cost so many times what its pickle did, and the file has bytes, beyond what the budget allows."""
PER_TENSOR = 1000
"""What a tensor costs in a listing, in bytes, its name not counted."""


def tensors_of(value: Any, file: str, free: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield the tensors in a value, each with its path: keys, indices and attributes, joined by dots.

    A path may come several times. `CheckpointError` that names ``file`` where the walk would take too long: what is shared
    is walked again each time. ``free`` is what it may cost beyond what the budget allows.
    """
    for name, entry in entries_of(value, file, free):
        if isinstance(entry, Tensor):
            yield name, entry


def entries_of(value: Any, file: str, free: int = 0, attributes: set[str] | None = None) -> Iterator[tuple[str, Any]]:
    """Yield what `tensors_of` yields, and each `UnsupportedTensor` among it.

    The paths of those that belong to a module but not to its state dict are added to ``attributes``.
    """
    return Walk(file, free, attributes).tree(value, "")


def free_for(machine: Any, source: Any) -> int:
    """What the listing of a machine's result may cost beyond what the budget allows."""
    return int(min(PER_SPENT * machine.spent, PER_BYTE * source.size))


def unique(pairs: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Yield pairs with a mark added to names that came before."""
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
"""Where a module that was saved whole has its tensors and its parts: not to be seen in their names."""
NOT_PERSISTENT = "_non_persistent_buffers_set"
MAX_DEPTH = 200
MAX_AGAIN = 100_000
"""How many items are looked at again, in parts of modules that have several names."""


class Walk:
    """Finds the tensors in a tree of values, and in what is kept of unknown objects.

    Those may be deep, and the same or cyclic in many places: each is seen once, but the parts of a module under all their
    names, as its state dict has them.
    """

    def __init__(self, file: str, free: int, attributes: set[str] | None = None) -> None:
        self.file = file
        self.free = free
        self.budget = current()
        self.attributes = set() if attributes is None else attributes
        self.inside = 0
        """How many attributes of modules, which are no part of their state dicts, are being looked at."""
        self.seen: dict[int, Any] = {}
        self.above: set[int] = set()
        self.again = 0

    def pay(self, nbytes: int) -> None:
        """Charge for what is about to be done."""
        self.free -= nbytes
        if self.free < 0:
            self.budget.charge(self.file, -self.free, "listing its tensors by their paths takes time")
            self.free = 0

    def inner(self, path: str, key: Any) -> str:
        """The path of an item."""
        text = key if type(key) is str else str(key)
        self.pay(len(path) + len(text))
        return f"{path}.{text}" if path else text

    def tree(self, value: Any, path: str) -> Iterator[tuple[str, Any]]:
        """Those in a value; it is no deeper than the machine allows."""
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
        """Those in a value; ``part`` tells that it is a part of a module, ``table`` that it is the dict of its parts."""
        if isinstance(value, (Tensor, UnsupportedTensor)):
            self.pay(PER_TENSOR + len(path))
            if self.inside:
                if id(value) in self.seen:  # a parameter, by one more name
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
            while type(states[0]) is tuple and len(states[0]) == 2 and len(states) < MAX_DEPTH:  # (what came first, what came then)
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
        """Those of a module: what its state dict has, and then what is in its other attributes and is not there."""
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
    """The listing of a machine's result.

    ``offset_of(ref)`` is where a storage's bytes begin, -1 where they do not lie in the file as this machine has them.
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
            if id(tensor) not in filled:  # a tensor of a skeleton, or one that PyTorch saved from meta
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
