"""The figures of a step on many devices."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from metatensor._core.units import bytes_text, seconds_text
from metatensor.analysis.accuracy import band
from metatensor.analysis.calls import Call
from metatensor.analysis.ranks.scheduling import Operation, RankTimeline
from metatensor.devices.profiles import DeviceProfile
from metatensor.devices.topologies import Topology

if TYPE_CHECKING:
    from metatensor.analysis.profiling import Profile

__all__ = ["EXCLUDED", "RankStep", "RanksProfile", "ranks_text"]

EXCLUDED = ("loading data", "transfers from the host", "gaps between kernels", "operations of several groups slowing each other down",
            "operators slowed down by communication")  # fmt: skip
"""What the times leave out."""


@dataclass
class RankStep:
    """The step of one class of ranks that do the same."""

    ranks: list[int]
    """The ranks of the class. The first one was run."""
    timeline: RankTimeline = field(repr=False)
    calls: Sequence[Call] = field(repr=False)
    """The calls of operators, whose times are in `timeline`."""
    memory: Profile | None = field(repr=False)
    """The profile of its memory."""
    result: Any = field(repr=False, default=None)
    """What the step returned."""

    @property
    def operations(self) -> list[Operation]:
        """The operations of the rank, in order."""
        return self.timeline.operations

    @property
    def compute(self) -> float:
        """Seconds of operators."""
        return self.timeline.compute

    @property
    def communication(self) -> float:
        """Seconds of operations."""
        return sum(operation.seconds for operation in self.operations)

    @property
    def exposed(self) -> float:
        """Seconds in which the rank waits for running operations."""
        return self.timeline.exposed

    def phases(self) -> dict[str, float]:
        """Return the seconds of operators by phase."""
        total = dict.fromkeys(("forward", "backward", "optimizer"), 0.0)
        for call, seconds in zip(self.calls, self.timeline.seconds, strict=True):
            total[call.phase] += seconds
        return total

    def by_group(self) -> list[dict[str, Any]]:
        """Return number, bytes, seconds and exposed seconds of operations by kind and group, those with most seconds first.

        Messages are told apart by the other rank (``detail``).
        """
        rows: dict[Any, dict[str, Any]] = {}
        for one in self.operations:
            detail = one.entry.detail if one.entry.kind in ("send", "recv") else ""
            key = one.entry.kind, detail, one.entry.group, str(one.route)
            row = rows.setdefault(key, {"kind": one.entry.kind, "detail": detail, "group": list(one.entry.group), "route": str(one.route),
                                        "count": 0, "bytes": 0, "seconds": 0.0, "exposed": 0.0, "overlap": 0.0})  # fmt: skip
            row["count"] += 1
            row["bytes"] += one.entry.bytes
            row["seconds"] += one.seconds
            row["exposed"] += one.exposed
            row["overlap"] += one.overlap
        return sorted(rows.values(), key=lambda row: -row["seconds"])


class RanksProfile:
    """The time of a step and the memory of all ranks, as `profile_ranks` returns them. ``str()`` gives tables.

    Attributes
    ----------
    topology : Topology
        The devices and their links.
    device : DeviceProfile
        The profile that times of operators are based on.
    classes : list of RankStep
        The classes of ranks that do the same, in the order of their first ranks.
    policy : str
        The kernel policy.
    unknown : dict of str to int
        What is missing in the device's profile, and for how many calls. Their seconds count as 0.
    """

    def __init__(
        self, topology: Topology, device: DeviceProfile, classes: list[RankStep], unknown: dict[str, int], policy: str, unmatched: int
    ) -> None:
        self.topology, self.device, self.classes, self.unknown = topology, device, classes, unknown
        self.policy, self._unmatched = policy, unmatched

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return self.topology.size

    def of(self, rank: int) -> RankStep:
        """Return the class of a rank. Raise IndexError if there is no such rank."""
        for one in self.classes:
            if rank in one.ranks:
                return one
        raise IndexError(f"there is no rank {rank} among {self.world_size}")

    @property
    def seconds(self) -> float | None:
        """Seconds of the step: until the last rank has finished. None if the time of an operator is unknown."""
        return None if self.unknown else self._end

    @property
    def _end(self) -> float:
        return max(one.timeline.end for one in self.classes)

    def idle(self, one: RankStep) -> float:
        """Return the seconds in which a rank neither computes nor waits for a running operation: it waits for other ranks."""
        seconds = self._end - one.compute - one.exposed
        return seconds if seconds > 1e-9 * self._end else 0.0  # sums of many figures are rounded

    @property
    def bubble(self) -> float:
        """The fraction of the step, over all ranks, in which they wait for other ranks."""
        total = sum(self.idle(one) * len(one.ranks) for one in self.classes)
        return total / (self._end * self.world_size) if self._end else 0.0

    @property
    def exposed(self) -> float:
        """The fraction of the step, over all ranks, in which they wait for running operations."""
        total = sum(one.exposed * len(one.ranks) for one in self.classes)
        return total / (self._end * self.world_size) if self._end else 0.0

    @property
    def worst(self) -> RankStep | None:
        """The class of ranks with the highest peak of memory, None if memory was not profiled."""
        known = [one for one in self.classes if one.memory is not None]
        return max(known, key=lambda one: one.memory.peak, default=None)  # type: ignore[union-attr]

    def memory(self) -> list[dict[str, Any]]:
        """Return ranks, peak bytes and the bytes alive then by category, for each class of ranks."""
        return [{"ranks": one.ranks, "peak": one.memory.peak, "categories": one.memory.at_peak()} for one in self.classes if one.memory]

    def notes(self) -> list[str]:
        """Return how the figures were found and what they leave out."""
        notes = [f"times of operators: profile {self.device.name}, of operations: latency plus bytes over bandwidth, with NCCL's constants",
                 f"kernel policy: {self.policy}", f"time leaves out: {', '.join(EXCLUDED)}"]  # fmt: skip
        if self.device.kind == "gpu" and (known := band("time, ranks")) is not None:
            notes.append(str(known))
        if self.topology.note:
            notes.append(self.topology.note)
        notes += [f"unknown for {count} calls, which count as 0: {what}" for what, count in self.unknown.items()]
        if self._unmatched:
            notes.append(f"{self._unmatched} messages are received from any rank; they are taken to begin at once")
        return notes

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as JSON types: seconds and bytes."""
        return {
            "kind": "ranks", "world_size": self.world_size, "topology": self.topology.to_dict(), "device": self.device.name,
            "seconds": self.seconds, "exposed": self.exposed, "bubble": self.bubble, "unknown": dict(self.unknown), "notes": self.notes(),
            "classes": [{
                "ranks": one.ranks, "seconds": one.timeline.end, "compute": one.compute, "phases": one.phases(),
                "communication": one.communication, "exposed": one.exposed, "idle": self.idle(one),
                "operations": [operation.to_dict() for operation in one.operations], "by_group": one.by_group(),
                "memory": None if one.memory is None else {"peak": one.memory.peak, "categories": one.memory.at_peak()},
            } for one in self.classes],
        }  # fmt: skip

    def to_json(self, indent: int | None = 2) -> str:
        """Return `to_dict` as JSON text."""
        return json.dumps(self.to_dict(), indent=indent)

    def to_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the timelines for Perfetto or chrome://tracing to a file; it is compressed if the name ends with ``.gz``.

        Each rank that was run is a process, with a thread for operators and one for each of its groups.
        """
        from metatensor.analysis.ranks.trace import write

        write(self, path)

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write a self-contained page with the timeline of ranks and all figures to a file.

        If memory was profiled, it is the report of the rank with the highest peak, which needs Plotly.
        """
        from metatensor.analysis.ranks.page import write

        write(self, path)

    def __str__(self) -> str:
        seconds = "unknown" if self.seconds is None else seconds_text(self.seconds)
        shares = f"exposed communication {self.exposed:.1%}, waiting for other ranks {self.bubble:.1%}"
        lines = [f"step on {self.topology}: {seconds}, {shares}", ""]
        head = ("ranks", "step", "compute", "communication", "exposed", "idle", "peak memory")
        rows = [(ranks_text(one.ranks), seconds_text(one.timeline.end), seconds_text(one.compute), seconds_text(one.communication),
                 seconds_text(one.exposed), seconds_text(self.idle(one)), "" if one.memory is None else bytes_text(one.memory.peak))
                for one in self.classes]  # fmt: skip
        lines += _columns([head, *rows])
        for one in self.classes:
            lines += ["", f"communication of ranks {ranks_text(one.ranks)}"]
            groups = [(f"{row['kind']} {row['detail']}".strip(), f"{row['count']} x", bytes_text(row["bytes"]),
                       seconds_text(row["seconds"]), f"{seconds_text(row['exposed'])} exposed",
                       f"{ranks_text(row['group'])}: {row['route']}") for row in one.by_group()]  # fmt: skip
            lines += ["  " + line for line in _columns(groups)] or ["  none"]
        if self.worst is not None and self.worst.memory is not None:
            lines += ["", f"memory at the peak of ranks {ranks_text(self.worst.ranks)}, which need most"]
            lines += ["  " + line for line in _columns([(bytes_text(size), name) for name, size in self.worst.memory.at_peak().items()])]
        return "\n".join([*lines, "", *self.notes()])

    def __repr__(self) -> str:
        return f"RanksProfile({self.world_size} ranks, {len(self.classes)} classes, {self._end:.4g} s)"


def ranks_text(ranks: Sequence[int]) -> str:
    """Return ranks as text: ``"0-7"``, ``"0, 8, 16, ... 56 (8 ranks)"``."""
    if len(ranks) > 2:
        step = ranks[1] - ranks[0]
        if step == 1 and list(ranks) == list(range(ranks[0], ranks[-1] + 1)):
            return f"{ranks[0]}-{ranks[-1]}"
        if len(ranks) > 4:
            return f"{', '.join(map(str, ranks[:3]))}, ... {ranks[-1]} ({len(ranks)} ranks)"
    return ", ".join(map(str, ranks))


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
