"""What is in a checkpoint, seen as modules: groups, totals, what shares storage, and how two differ."""

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
    """Return `printable` text, with its line breaks."""
    return "\n".join(map(printable, content.split("\n")))


def shown(content: str) -> str:
    """Return what a file says, as it may be shown: `printable`, and cut where it is longer than any sound name."""
    return printable(content if len(content) <= MAX_SHOWN else f"{content[:MAX_SHOWN]}... ({len(content):,} characters)")


def text(content: str, style: str = "") -> Text:
    """Return what `shown` makes of ``content``, without rich's markup."""
    return Text(shown(content), style=style)


@dataclass
class Module:
    """What the names up to a dot stand for."""

    path: str
    tensors: list[tuple[str, TensorInfo]] = field(default_factory=list)
    """Those right below it, by their full names."""
    children: dict[str, Module] = field(default_factory=dict)

    @property
    def elements(self) -> int:
        """Elements of all tensors below it."""
        return sum(prod(info.shape) for _, info in self.tensors) + sum(child.elements for child in self.children.values())

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors below it."""
        return sum(info.nbytes for _, info in self.tensors) + sum(child.nbytes for child in self.children.values())

    def walk(self) -> Iterator[Module]:
        """This and all modules below it, in the order of the names."""
        todo = [self]
        while todo:
            module = todo.pop()
            yield module
            todo += reversed(module.children.values())

    def key(self) -> tuple:
        """Two modules with the same key have the same tensors but for the path. Their order, which shards change, does not count."""
        own = tuple(sorted((name[len(self.path) :], info.dtype, info.shape) for name, info in self.tensors))
        return own, tuple((name, self.children[name].key()) for name in sorted(self.children))

    def folded(self) -> list[tuple[list[str], Module]]:
        """The modules right below; numbered neighbours that are alike as one, with all their names."""
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
    """The tensors as a tree of modules. Names deeper than any model's stay whole."""
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
    """Dtype, elements and bytes, most elements first."""
    found: dict[str, list[int]] = {}
    for info in checkpoint.tensors.values():
        row = found.setdefault(info.dtype, [0, 0])
        row[0] += prod(info.shape)
        row[1] += info.nbytes
    return [(dtype, count, nbytes) for dtype, (count, nbytes) in sorted(found.items(), key=lambda pair: -pair[1][0])]


def sharing(checkpoint: Checkpoint) -> dict[str, str]:
    """For each tensor whose storage another has as well, which: ``= name`` for the same elements, ``shares name`` otherwise."""
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
    """Names with what changed: "removed", "added", "changed" (dtype or shape) and, if asked for, "values"."""
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
