"""Inventory of a model: its modules by path, and the memory of their parameters and buffers, counting each byte once.

Sharing is detected by storage and not by object. Two names of one parameter, or two views of one tensor, together count
as the union of their memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

import metatensor as mt
from metatensor.analysis.report import ModuleRow, SharedGroup
from metatensor.nn.parameter import is_lazy

__all__ = ["Inventory"]


class Extent(NamedTuple):
    """The byte range of a storage that a parameter or buffer occupies, and its number of elements."""

    name: str
    storage: Any
    begin: int
    end: int
    elements: int
    itemsize: int


class Sum(NamedTuple):
    """Elements and bytes of a module's parameters or buffers. Shared ones are listed separately."""

    elements: int
    bytes: int
    shared: tuple[Extent, ...]

    def total(self) -> tuple[int, int]:
        """Return the total number of elements and bytes."""
        elements, size = _union(self.shared)
        return self.elements + elements, self.bytes + size


class Inventory:
    """The modules of ``model`` by path, with a row for each, and the groups of names that share memory.

    A module with several names has a row for each name. Totals count it once.
    """

    def __init__(self, model: Any) -> None:
        self.rows: list[ModuleRow] = []
        self.paths: dict[int, list[str]] = {}
        """Paths of each module, keyed by the module's id."""
        self._modules: list[tuple[str, Any]] = []
        if isinstance(model, mt.nn.Module):
            self._walk(model, "", 0, ())
            self._sum()
        else:
            self.rows.append(ModuleRow("", _name_of(model), 0))
            self.shared: list[SharedGroup] = []
        self.by_path = {row.path: row for row in self.rows}

    def _walk(self, module: Any, path: str, depth: int, above: tuple[int, ...]) -> None:
        if id(module) in above:
            return  # the module contains itself
        self.rows.append(ModuleRow(path, type(module).__name__, depth))
        self._modules.append((path, module))
        self.paths.setdefault(id(module), []).append(path)
        for name, child in module._modules.items():
            if child is not None:
                self._walk(child, f"{path}.{name}" if path else name, depth + 1, (*above, id(module)))

    def _sum(self) -> None:
        """Fill the rows with inclusive sums. Each parent precedes its children in the rows."""
        parameters = [_extents(path, module._parameters) for path, module in self._modules]
        buffers = [_extents(path, module._buffers) for path, module in self._modules]
        groups = defaultdict(list)
        for extents in (*parameters, *buffers):
            for extent in extents:
                groups[extent.storage].append(extent)
        common = {storage for storage, extents in groups.items() if len(extents) > 1}
        self.shared = [
            SharedGroup(tuple(extent.name for extent in groups[storage]), _union(groups[storage])[1])
            for storage in groups
            if storage in common
        ]
        for kind, own in (("parameter", parameters), ("buffer", buffers)):
            self._add_up(kind, own, common)

    def _add_up(self, kind: str, own: list[list[Extent]], common: set[Any]) -> None:
        sums: list[Sum] = [_sum(extents, common) for extents in own]
        if kind == "parameter":
            for row, plain in zip(self.rows, sums, strict=True):
                row.own_parameters = plain.total()[0]
        parents: list[int] = []
        for index, row in enumerate(self.rows):
            del parents[row.depth :]
            row_sum = sums[index]
            for parent in parents:
                above = sums[parent]
                sums[parent] = Sum(above[0] + row_sum[0], above[1] + row_sum[1], above[2] + row_sum[2])
            parents.append(index)
        for row, inclusive in zip(self.rows, sums, strict=True):
            elements, size = inclusive.total()
            setattr(row, f"{kind}s", elements)
            setattr(row, f"{kind}_bytes", size)
        seen: dict[Any, list[Extent]] = defaultdict(list)
        for row, extents in zip(self.rows, own, strict=True):
            _, size, shared = _sum(extents, common)
            for extent in shared:
                before = _union(seen[extent.storage])[1]
                seen[extent.storage].append(extent)
                size += _union(seen[extent.storage])[1] - before
            setattr(row, f"own_{kind}_bytes", size)


def _extents(path: str, members: dict[str, Any]) -> list[Extent]:
    """Return the extents of the tensors of one module. None and tensors without a shape are skipped."""
    found = []
    for name, tensor in members.items():
        if tensor is None or is_lazy(tensor):
            continue
        size = tensor.itemsize
        elements = tensor.numel()
        span = 0
        if elements:
            span = 1 + sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True))
        begin = tensor.storage_offset() * size
        full = f"{path}.{name}" if path else name
        found.append(Extent(full, tensor.untyped_storage(), begin, begin + span * size, elements, size))
    return found


def _sum(extents: Iterable[Extent], common: set[Any]) -> Sum:
    elements = size = 0
    shared = []
    for extent in extents:
        if extent.storage in common:
            shared.append(extent)
        else:
            elements += extent.elements
            size += min(extent.elements * extent.itemsize, extent.end - extent.begin)
    return Sum(elements, size, tuple(shared))


def _union(extents: Iterable[Extent]) -> tuple[int, int]:
    """Return the number of elements and bytes that the extents cover together."""
    by_storage = defaultdict(list)
    for extent in extents:
        by_storage[extent.storage].append(extent)
    elements = size = 0
    for members in by_storage.values():
        if len({(extent.begin, extent.end, extent.elements) for extent in members}) == 1:
            first = members[0]  # one tensor under several names
            elements += first.elements
            size += min(first.elements * first.itemsize, first.end - first.begin)
            continue
        covered, reach = 0, -1
        for extent in sorted(members, key=lambda extent: extent.begin):
            covered += max(0, extent.end - max(extent.begin, reach))
            reach = max(reach, extent.end)
        size += min(covered, sum(extent.elements * extent.itemsize for extent in members))
        elements += min(covered // members[0].itemsize, sum(extent.elements for extent in members))
    return elements, size


def _name_of(function: Any) -> str:
    return getattr(function, "__qualname__", None) or type(function).__qualname__
