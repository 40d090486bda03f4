"""Layouts: a mesh, and placements for the tensors of a checkpoint by the patterns of their names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any

from metatensor.checkpoint.boxes import Box
from metatensor.distributed.tensor._utils import held_blocks
from metatensor.distributed.tensor.placement_types import Placement, Replicate, Shard, _StridedShard

__all__ = ["Layout", "parse_mesh", "parse_placements"]


class Layout:
    """How tensors are distributed over a mesh. No process group is needed.

    Parameters
    ----------
    mesh : sequence of int
        The sizes of the mesh's dimensions. Ranks are counted in row-major order.
    placements : iterable of (str or None, sequence of Placement)
        Patterns of names, in which ``*`` stands for any characters, and one placement per mesh dimension. If several patterns
        match a name, the last one is used. None matches all names; its placements do not shard dimensions that a tensor lacks.
        Tensors whose names match no pattern are sharded along dimension 0 by all mesh dimensions.

    Raises
    ------
    ValueError
        If the mesh is empty, or the number of placements is not that of its dimensions.

    Examples
    --------
    >>> from metatensor.distributed.checkpoint.layouts import Layout
    >>> from metatensor.distributed.tensor import Shard
    >>> layout = Layout([4], [("*.weight", [Shard(1)])])
    >>> layout.blocks("a.weight", (6, 8))[1]
    [Box(offsets=(0, 2), sizes=(6, 2))]
    """

    def __init__(self, mesh: Sequence[int], placements: Iterable[tuple[str | None, Sequence[Placement]]] = ()) -> None:
        self.mesh = tuple(mesh)
        if not self.mesh or any(size < 1 for size in self.mesh):
            raise ValueError(f"a mesh has positive sizes, got {list(self.mesh)}")
        self.rules: list[tuple[str | None, tuple[Placement, ...]]] = []
        for pattern, given in placements:
            if len(given) != len(self.mesh):
                raise ValueError(f"{len(given)} placements {', '.join(map(str, given))} for a mesh of {len(self.mesh)} dimensions")
            self.rules.append((pattern, tuple(given)))
        self.size = prod(self.mesh)
        self.used: set[str] = set()
        """The patterns that have matched a name."""

    def placements_of(self, name: str, ndim: int) -> tuple[Placement, ...]:
        """Return the placements of a tensor. Raise ValueError if a pattern asks for a dimension that it lacks."""
        for pattern, given in reversed(self.rules):
            if pattern is None:
                return _fitting(given, ndim)
            if fnmatchcase(name, pattern):
                self.used.add(pattern)
                for one in given:
                    if isinstance(one, (Shard, _StridedShard)) and not -ndim <= one.dim < ndim:
                        raise ValueError(f"{name!r} has {ndim} dimensions; it cannot be placed as {one}, as {pattern!r} demands")
                return tuple(_positive(one, ndim) for one in given)
        return _fitting((Shard(0),) * len(self.mesh), ndim)

    def blocks(self, name: str, shape: Sequence[int]) -> list[list[Box]]:
        """Return the boxes of a tensor that each rank holds, without empty ones."""
        return _blocks(tuple(shape), self.mesh, self.placements_of(name, len(shape)))


def _positive(one: Placement, ndim: int) -> Placement:
    if isinstance(one, Shard):
        return Shard(one.dim % ndim)
    return _StridedShard(one.dim % ndim, split_factor=one.split_factor) if isinstance(one, _StridedShard) else one


def _fitting(given: Sequence[Placement], ndim: int) -> tuple[Placement, ...]:
    return tuple(
        Replicate() if isinstance(one, (Shard, _StridedShard)) and not -ndim <= one.dim < ndim else _positive(one, ndim) for one in given
    )


@lru_cache(1024)
def _blocks(shape: tuple[int, ...], mesh: tuple[int, ...], placements: tuple[Placement, ...]) -> list[list[Box]]:
    """Return the boxes of each rank."""
    return [
        [Box(offsets, sizes) for offsets, sizes, _ in held_blocks(shape, mesh, place, placements)] for place in product(*map(range, mesh))
    ]


# Text -----------------------------------------------------------------------------

_PLACEMENT = re.compile(
    r"(r|replicate)(?:\(\))?"
    r"|(?:s|shard)\((?:dim=)?(-?\d+)\)"
    r"|_(?:s|stridedshard)\((?:dim=)?(-?\d+),\s*(?:sf=|split_factor=)?(\d+)\)",
    re.I,
)


def parse_mesh(text: str) -> tuple[int, ...]:
    """Return the sizes in a text such as ``8``, ``4,2`` or ``4x2``. Raise ValueError for other texts."""
    if not re.fullmatch(r"\d{1,6}([,x]\d{1,6})*", text):
        raise ValueError(f"a mesh is given by its sizes, as in 8 or 4,2, not by {text!r}")
    return tuple(int(size) for size in re.split("[,x]", text))


def parse_placements(text: str) -> tuple[str | None, tuple[Any, ...]]:
    """Return the pattern and the placements in a text such as ``S(0),R`` or ``*.weight=S(1)``.

    Raise ValueError for other texts.
    """
    at = _last_equals(text)
    pattern, given = text[: max(at, 0)].strip(), text[at + 1 :]
    found: list[Placement] = []
    for part in re.split(r",(?![^(]*\))", given):
        match = _PLACEMENT.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"placements are R, S(dim) or _S(dim, factor), separated by commas; {part.strip()!r} is none of them")
        if match[1]:
            found.append(Replicate())
        else:
            found.append(Shard(int(match[2])) if match[2] else _StridedShard(int(match[3]), split_factor=int(match[4])))
    return (pattern if at >= 0 else None), tuple(found)


def _last_equals(text: str) -> int:
    """Return the position of the last equals sign outside of parentheses, or -1."""
    depth, found = 0, -1
    for at, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == "=" and depth == 0:
            found = at
    return found
