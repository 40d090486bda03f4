"""The page of a step on many devices: the report of the rank with the highest peak of memory, with the timeline of all ranks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from metatensor.analysis.page import write as write_page
from metatensor.analysis.ranks.results import ranks_text
from metatensor.analysis.timeline import PHASES

if TYPE_CHECKING:
    from metatensor.analysis.ranks.results import RanksProfile, RankStep

__all__ = ["contents", "drawn", "write"]

SHOWN = 64
"""At most this many ranks are drawn."""
SEGMENTS = 3000
"""About how many parts the operators of a rank are drawn in."""


def write(found: RanksProfile, path: str | os.PathLike[str]) -> None:
    """Write the page to a file."""
    write_page(path, contents(found))


def contents(found: RanksProfile) -> dict[str, Any]:
    """Return what the page shows as JSON types: the report of one rank, and ``ranks``."""
    worst = found.worst
    memory = None if worst is None else worst.memory
    return {
        "kind": "ranks", "world_size": found.world_size, "topology": str(found.topology), "links": _links(found),
        "device": {"name": found.device.name, "memory": found.device.memory}, "notes": found.notes(),
        "worst": None if worst is None else ranks_text(worst.ranks), "total_bytes": None if memory is None else memory.peak,
        "profile": None if memory is None else memory.figures(),
        "modules": [] if memory is None else [row.to_dict() for row in memory.modules], "ranks": drawn(found),
    }  # fmt: skip


def _links(found: RanksProfile) -> str:
    where = found.topology
    parts = [] if where.interconnect is None else [f"{where.interconnect.name} in a node"]
    if where.nodes > 1 and where.network is not None:
        rails, rate = where.network.rails, where.network.bandwidth * 8 / 1e9
        parts.append(f"{where.network.name} between nodes ({rails} ports of {rate:g} Gb/s)")
    return ", ".join(parts)


def drawn(found: RanksProfile) -> dict[str, Any]:
    """Return the timeline of ranks as JSON types.

    Times are seconds. ``classes`` has for each class of ranks ``operators``: start, end, phase (an index of ``phases``) and label (an
    index of ``labels``) of consecutive operators, and ``operations``: start, end, label, exposed seconds, seconds of operators
    that it can hide behind, bytes, and route (an index of ``labels``).
    """
    labels: dict[str, int] = {}
    classes = []
    for one in found.classes[:SHOWN]:
        operations = []
        for each in one.operations:
            name = f"{each.entry.kind} {each.entry.detail}".strip()
            operations.append([each.start, each.end, labels.setdefault(name, len(labels)), each.exposed, each.overlap, each.entry.bytes,
                               labels.setdefault(str(each.route), len(labels))])  # fmt: skip
        memory = None if one.memory is None else {"peak": one.memory.peak, "categories": one.memory.at_peak()}
        classes.append({
            "name": ranks_text(one.ranks), "ranks": len(one.ranks), "end": one.timeline.end, "compute": one.compute,
            "communication": one.communication, "exposed": one.exposed, "idle": found.idle(one), "by_group": [
                {**row, "group": ranks_text(row["group"])} for row in one.by_group()], "memory": memory,
            "operators": [[start, end, phase, labels.setdefault(name, len(labels))] for start, end, phase, name in _segments(one)],
            "operations": operations,
        })  # fmt: skip
    return {"seconds": found.seconds, "end": max(one.timeline.end for one in found.classes), "exposed": found.exposed,
            "bubble": found.bubble, "phases": list(PHASES), "classes": classes, "more": max(0, len(found.classes) - SHOWN),
            "labels": list(labels)}  # fmt: skip


def _segments(one: RankStep) -> Iterator[tuple[float, float, int, str]]:
    """Yield start, end, phase and name of consecutive operators of the same phase and module without a gap."""
    timeline, gap = one.timeline, one.timeline.end / SEGMENTS
    start = end = 0.0
    key: tuple[str, str] | None = None
    for call, begin, seconds in zip(one.calls, timeline.starts, timeline.seconds, strict=True):
        if not seconds:
            continue
        now = call.phase, call.module or call.op
        if key is not None and begin - end < gap and (now == key or (now[0] == key[0] and begin + seconds - start < gap)):
            end = begin + seconds
            continue
        if key is not None:
            yield start, end, PHASES.index(key[0]), key[1]
        start, end, key = begin, begin + seconds, now
    if key is not None:
        yield start, end, PHASES.index(key[0]), key[1]
