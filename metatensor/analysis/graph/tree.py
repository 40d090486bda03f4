"""The groups of a program's graph: calls by phase and by module.

A group consists of consecutive calls. A module that is called twice is therefore two groups, and data only flows
forward from group to group: the graph has no cycles, whichever groups are folded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from math import ceil, isqrt
from typing import Any

from metatensor._core.capture import Value
from metatensor.program.program import Program
from metatensor.program.structure import leaves

__all__ = ["MOST", "PHASES", "grouped", "paths_of"]

MOST = 200
"""Groups with more parts than this are divided into subgroups of consecutive parts."""
DEEPEST = 40
"""Maximum number of names in a path, because a file may contain any text."""
PHASES = ("forward", "backward", "after backward")
Tree = list[Any]
"""The parts of a group: indices of calls, and groups as ``[name, names of the path, parts]``."""


def paths_of(program: Program) -> list[tuple[str, ...]]:
    """Return the names of the groups around each call, from the outermost: its phase, if there are several, and its modules."""
    calls = program.calls
    modules = [tuple(name.split(".", DEEPEST)) if name and i != 1 else () for i, name in enumerate(program.modules)]  # 1 is the first root
    walked = [i for i, call in enumerate(calls) if call.backward]
    if not walked:
        return [modules[call.module] for call in calls]
    updated = _updates(program, walked[-1] + 1)
    found = []
    for i, call in enumerate(calls):
        phase = 1 if call.backward else 2 if i > walked[-1] else 0
        found.append((PHASES[phase], *(modules[call.module] or updated.get(i, ()))))
    return found


def _updates(program: Program, start: int) -> dict[int, tuple[str, ...]]:
    """Return the paths of the parameters that calls after the backward pass update, by call.

    Calls that share storages belong together. Calls unrelated to a parameter, such as counting steps,
    belong to the next one.
    """
    parameters = {value.storage: tuple(name.split(".", DEEPEST)) for name, value in program.parameters.items()}
    rows = [(i, {value.storage for value in leaves(Value, (call.args, call.kwargs, call.result))})
            for i, call in enumerate(program.calls) if i >= start]  # fmt: skip
    parent: dict[int, int] = {}

    def root(storage: int) -> int:
        while (above := parent.setdefault(storage, storage)) != storage:
            parent[storage] = storage = parent[above]
        return storage

    for _, storages in rows:
        first, *others = sorted(storages) or [-1]
        for other in others:
            parent[root(other)] = root(first)
    written: dict[int, set[tuple[str, ...]]] = {}
    for i, _ in rows:
        for value in program.calls[i].writes:
            if value.storage in parameters:
                written.setdefault(root(value.storage), set()).add(parameters[value.storage])
    found: dict[int, tuple[str, ...]] = {}
    following: tuple[str, ...] = ()
    for i, storages in reversed(rows):
        paths = written.get(root(min(storages)), set()) if storages else set()
        following = next(iter(paths)) if len(paths) == 1 else () if paths else following
        found[i] = following
    return found


def grouped(paths: list[tuple[str, ...]]) -> Tree:
    """Return the tree of the calls with these paths."""
    return _parts(paths, 0, len(paths), 0)


def _parts(paths: list[tuple[str, ...]], start: int, stop: int, depth: int) -> Tree:
    parts: Tree = []
    seen: Counter[str] = Counter()
    for name, indices in _runs(paths, start, stop, depth):
        if name is None:
            parts.extend(indices)
            continue
        inner = _parts(paths, indices.start, indices.stop, depth + 1)
        path = paths[indices.start][: depth + 1]
        if len(inner) == 1 and isinstance(inner[0], int):  # a module with one call is that call
            parts.append(inner[0])
            continue
        if len(inner) == 1:  # a group in a group
            path, inner = inner[0][1:]
        label = _label(path, depth)
        seen[label] += 1
        parts.append([label if seen[label] == 1 else f"{label} ({seen[label]})", path, inner])
    return _chunked(parts, paths[start][:depth] if stop > start else ())


def _runs(paths: list[tuple[str, ...]], start: int, stop: int, depth: int) -> Iterator[tuple[str | None, range]]:
    """Yield the names at a depth, each with its consecutive calls. The name is None for calls without one."""
    for name, run in groupby(range(start, stop), lambda i: paths[i][depth] if len(paths[i]) > depth else None):
        indices = list(run)
        yield name, range(indices[0], indices[-1] + 1)


def _label(path: tuple[str, ...], depth: int) -> str:
    """Return the names of a path from a depth. The name of a number includes the name before it."""
    while depth and path[depth].isdigit():
        depth -= 1
    return ".".join(path[depth:])


def _chunked(parts: Tree, path: tuple[str, ...]) -> Tree:
    """Return parts with groups of consecutive parts, if there are many."""
    if len(parts) <= MOST:
        return parts
    size = max(isqrt(len(parts)), ceil(len(parts) / MOST))
    chunks = [parts[at : at + size] for at in range(0, len(parts), size)]
    return [[f"{_title(chunk[0])} – {_title(chunk[-1])}", path, chunk] if len(chunk) > 1 else chunk[0] for chunk in chunks]


def _title(one: Any) -> str:
    return f"call {one + 1}" if isinstance(one, int) else one[0]
