"""Contents of a checkpoint as a tree of modules: groups, totals, shared storages, and differences between two files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

from rich.text import Text

from metatensor.checkpoint.errors import printable

if TYPE_CHECKING:
    from metatensor.checkpoint import Checkpoint, TensorInfo

__all__ = ["Module", "differences", "grouped", "printable_lines", "sharing", "shown", "text", "totals"]


MAX_SHOWN = 1000


def printable_lines(content: str) -> str:
    """Apply `printable` to each line of a text."""
    return "\n".join(map(printable, content.split("\n")))


def shown(content: str) -> str:
    """Return text from a file escaped by `printable` and truncated to `MAX_SHOWN` characters."""
    return printable(content if len(content) <= MAX_SHOWN else f"{content[:MAX_SHOWN]}... ({len(content):,} characters)")


def text(content: str, style: str = "") -> Text:
    """Return ``content``, escaped by `shown`, as rich text. Markup in it is not interpreted."""
    return Text(shown(content), style=style)


@dataclass
class Module:
    """A node of the tree: the tensors and modules whose names begin with the same path."""

    path: str
    tensors: list[tuple[str, TensorInfo]] = field(default_factory=list)
    """Tensors directly in this module, with their full names."""
    children: dict[str, Module] = field(default_factory=dict)

    @property
    def elements(self) -> int:
        """The number of elements of all tensors in this module and below."""
        return sum(prod(info.shape) for _, info in self.tensors) + sum(child.elements for child in self.children.values())

    @property
    def nbytes(self) -> int:
        """The bytes of all tensors in this module and below."""
        return sum(info.nbytes for _, info in self.tensors) + sum(child.nbytes for child in self.children.values())

    def walk(self) -> Iterator[Module]:
        """Yield this module and all modules below it, in the order of their names."""
        todo = [self]
        while todo:
            module = todo.pop()
            yield module
            todo += reversed(module.children.values())

    def key(self) -> tuple:
        """Return a key that is equal for modules with the same tensors, apart from their path and their order."""
        own = tuple(sorted((name[len(self.path) :], info.dtype, info.shape) for name, info in self.tensors))
        return own, tuple((name, self.children[name].key()) for name in sorted(self.children))

    def folded(self) -> list[tuple[list[str], Module]]:
        """Return a (names, module) pair for each child. Consecutive numbered modules with equal keys share one pair."""
        found: list[tuple[list[str], Module]] = []
        for name, child in sorted(self.children.items(), key=lambda pair: (0, int(pair[0]), "") if _number(pair[0]) else (1, 0, pair[0])):
            if found and _number(name) and _number(found[-1][0][-1]) and found[-1][1].key() == child.key():
                found[-1][0].append(name)
            else:
                found.append(([name], child))
        return found


def _number(name: str) -> bool:
    return name.isascii() and name.isdecimal() and len(name) < 10


MAX_DEPTH = 64


def grouped(checkpoint: Checkpoint) -> Module:
    """Group the tensors into a tree of modules. Names of more than `MAX_DEPTH` parts are not split."""
    root = Module("")
    for name, info in checkpoint.tensors.items():
        module = root
        parts = name.split(".")
        for part in parts[:-1] if len(parts) <= MAX_DEPTH else ():
            child = module.children.get(part)
            if child is None:
                child = module.children[part] = Module(f"{module.path}.{part}" if module.path or module is not root else part)
            module = child
        module.tensors.append((name, info))
    return root


def totals(checkpoint: Checkpoint) -> list[tuple[str, int, int]]:
    """Return (dtype, elements, bytes) of each dtype, in descending order of elements."""
    found: dict[str, list[int]] = {}
    for info in checkpoint.tensors.values():
        row = found.setdefault(info.dtype, [0, 0])
        row[0] += prod(info.shape)
        row[1] += info.nbytes
    return [(dtype, count, nbytes) for dtype, (count, nbytes) in sorted(found.items(), key=lambda pair: -pair[1][0])]


def sharing(checkpoint: Checkpoint) -> dict[str, str]:
    """Return a description of shared storage by tensor name: ``= name`` for the same elements, else ``shares name``."""
    groups: dict[str, list[str]] = {}
    for name, info in checkpoint.tensors.items():
        if info.storage is not None:
            groups.setdefault(info.storage, []).append(name)
    found = {}
    for names in groups.values():
        for i, name in enumerate(names):
            if len(names) > 1:
                info = checkpoint.tensors[name]
                other = names[1] if i == 0 else names[0]
                same = info[:-1] == checkpoint.tensors[other][:-1]
                found[name] = f"{'=' if same else 'shares'} {other}"
    return found


def differences(path: str, before: Checkpoint, other: str, after: Checkpoint, values: bool) -> dict[str, dict[str, str]]:
    """Return descriptions of differences by name, in the groups "removed", "added", "changed" and "values".

    "changed" is about dtypes and shapes. "values" is empty unless ``values`` is true.
    """
    found: dict[str, dict[str, str]] = {"removed": {}, "added": {}, "changed": {}, "values": {}}
    both = []
    for name, info in before.tensors.items():
        new = after.tensors.get(name)
        if new is None:
            found["removed"][name] = _text(info)
        elif (info.dtype, info.shape) != (new.dtype, new.shape):
            found["changed"][name] = f"{_text(info)} -> {_text(new)}"
        else:
            both.append(name)
    for name, info in after.tensors.items():
        if name not in before.tensors:
            found["added"][name] = _text(info)
    if values and both:
        from metatensor.checkpoint.converting import elements
        from metatensor.checkpoint.opening import Opened

        with Opened(path) as first, Opened(other) as second:
            for name in both:
                one, two = elements(first, name), elements(second, name)
                if one != two:
                    found["values"][name] = f"{_text(before.tensors[name])}, {_unlike(one, two)}"
    return found


def _unlike(one: bytes, two: bytes) -> str:
    from hashlib import sha256

    return f"other values ({sha256(one).hexdigest()[:8]} -> {sha256(two).hexdigest()[:8]})"


def _text(info: TensorInfo) -> str:
    return f"{info.dtype}{list(info.shape)}"
