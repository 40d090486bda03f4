"""When everything happens: the calls and the communication of all ranks on an axis of seconds.

The operators of a rank run one after the other. An operation of a group begins when all its ranks have called it, and when the group's
earlier ones have ended (each group has a stream of its own, as in PyTorch; each direction of a pair of ranks has another). It runs
beside the operators until the rank waits for it. An operation called in `ahead_of_operators` counts as called when the rank last
waited for an operation of its stream.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from metatensor.analysis.calls import Call
from metatensor.analysis.collectives import KINDS, CollectiveTime, reached, route_time
from metatensor.analysis.ranks.recording import Mark
from metatensor.devices.topologies import Route, Topology
from metatensor.distributed.communication_log import Communication

__all__ = ["Operation", "Program", "RankTimeline", "schedule"]


@dataclass
class Operation:
    """One operation of a rank. Times are seconds since the beginning of the step."""

    entry: Communication
    """What was communicated."""
    route: Route
    """The links that it uses."""
    time: CollectiveTime
    """Its predicted time."""
    issued: float = 0.0
    """When the rank called it."""
    start: float = 0.0
    """When the last of the ranks had called it and the group's earlier operations had ended."""
    end: float = 0.0
    waited: float | None = None
    """When the rank waited for it, None if it never did."""
    exposed: float = 0.0
    """Seconds of it for which the rank waited."""
    overlap: float = 0.0
    """Seconds of operators between the call and the wait: what it can hide behind."""
    phase: str = ""
    """The phase of the rank when it was called."""

    @property
    def seconds(self) -> float:
        """Its predicted seconds."""
        return self.time.seconds

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON types."""
        entry = self.entry
        return {
            "order": entry.order, "kind": entry.kind, "bytes": entry.bytes, "group": list(entry.group), "detail": entry.detail,
            "dtype": entry.dtype, "shape": list(entry.shape), "asynchronous": entry.asynchronous, "line": entry.line,
            "route": str(self.route), "algorithm": self.time.algorithm, "protocol": self.time.protocol, "phase": self.phase,
            "issued": self.issued, "start": self.start, "end": self.end, "waited": self.waited, "seconds": self.seconds,
            "exposed": self.exposed, "overlap": self.overlap,
        }  # fmt: skip


@dataclass
class Program:
    """What a rank does: its calls, and where among them operations begin and are waited for."""

    calls: Sequence[Call]
    marks: Sequence[Mark]
    entries: Sequence[Communication]


@dataclass
class RankTimeline:
    """When the calls and operations of a rank happen."""

    starts: list[float] = field(default_factory=list)
    """When each call begins."""
    seconds: list[float] = field(default_factory=list)
    """How long each call takes."""
    operations: list[Operation] = field(default_factory=list)
    compute: float = 0.0
    """Seconds of all operators."""
    exposed: float = 0.0
    """Seconds in which the rank waited for running operations."""
    end: float = 0.0
    """When its operators and operations had ended."""


@dataclass
class _Meeting:
    """An operation of several ranks."""

    needed: int
    seconds: float = 0.0
    issued: list[tuple[int, Operation, Any]] = field(default_factory=list)
    """The rank, its operation and the stream, for each rank that has called it."""
    end: float | None = None
    waiting: list[int] = field(default_factory=list)


class _Rank:
    """How far a rank has come."""

    def __init__(self, program: Program) -> None:
        self.program, self.timeline = program, RankTimeline()
        self.now = 0.0
        self.at = 0  # the next mark
        self.calls = 0  # how many calls have been made
        self.meetings: dict[int, _Meeting] = {}
        self.stream_of: dict[int, Any] = {}
        self.issued_compute: dict[int, float] = {}
        self.counts: Counter[Any] = Counter()
        self.streams: dict[Any, float] = {}
        self.waited: dict[Any, float] = {}
        """When the rank last waited for an operation of a stream."""


def schedule(
    programs: dict[int, Program], class_of: Callable[[int], int], topology: Topology, seconds_of: Callable[[Call], float]
) -> dict[int, RankTimeline]:
    """Return the timelines of ranks.

    Parameters
    ----------
    programs : dict of int to Program
        What ranks do. A rank stands for all ranks of its class.
    class_of : callable
        Returns the rank in ``programs`` that stands for a rank.
    topology : Topology
        Where the ranks run.
    seconds_of : callable
        Returns the predicted seconds of a call.

    Raises
    ------
    RuntimeError
        If a rank waits for an operation that another one never begins. This happens only if one rank of each class was run.
    """
    return _Schedule(programs, class_of, topology, seconds_of).run()


class _Schedule:
    def __init__(
        self, programs: dict[int, Program], class_of: Callable[[int], int], topology: Topology, seconds_of: Callable[[Call], float]
    ) -> None:
        self.ranks = {rank: _Rank(program) for rank, program in programs.items()}
        self.class_of, self.topology, self.seconds_of = class_of, topology, seconds_of
        self.meetings: dict[Any, _Meeting] = {}
        self.ready: deque[int] = deque(self.ranks)

    def run(self) -> dict[int, RankTimeline]:
        while self.ready:
            self._advance(self.ready.popleft())
        for rank, one in self.ranks.items():
            if one.at < len(one.program.marks):
                raise RuntimeError(self._stuck(rank, one))
        for one in self.ranks.values():
            ends = [operation.end for operation in one.timeline.operations]
            one.timeline.end = max([one.now, *ends])
            one.timeline.exposed += max(0.0, one.timeline.end - one.now)
        return {rank: one.timeline for rank, one in self.ranks.items()}

    def _advance(self, rank: int) -> None:
        """Let a rank go on until it waits for an operation that has not begun, or has finished."""
        one = self.ranks[rank]
        marks = one.program.marks
        while one.at < len(marks):
            mark = marks[one.at]
            self._compute(one, mark.calls)
            if mark.begins:
                self._begin(rank, one, one.program.entries[mark.order])
            else:
                meeting = one.meetings[mark.order]
                if meeting.end is None:
                    meeting.waiting.append(rank)
                    return
                self._wait(one, mark.order, meeting.end)
            one.at += 1
        self._compute(one, len(one.program.calls))

    def _compute(self, one: _Rank, until: int) -> None:
        """Run the calls before a mark."""
        timeline, calls = one.timeline, one.program.calls
        for i in range(one.calls, until):
            seconds = self.seconds_of(calls[i])
            timeline.starts.append(one.now)
            timeline.seconds.append(seconds)
            one.now += seconds
            timeline.compute += seconds
        one.calls = until

    def _begin(self, rank: int, one: _Rank, entry: Communication) -> None:
        key, needed, stream, members = self._meeting(rank, one, entry)
        kind = "send" if entry.kind in ("send", "recv") else entry.kind
        route = self.topology.route(members)
        time = reached(route_time(kind if kind in KINDS else "all_gather", entry.bytes, route), self.topology)  # objects are gathered
        operation = Operation(entry, route, time, one.waited.get(stream, 0.0) if entry.ahead else one.now)
        calls = one.program.calls
        operation.phase = calls[min(one.calls, len(calls)) - 1].phase if one.calls else "forward"
        one.timeline.operations.append(operation)
        meeting = self.meetings.get(key)
        if meeting is None:
            meeting = self.meetings[key] = _Meeting(needed)
        one.meetings[entry.order] = meeting
        one.stream_of[entry.order] = stream
        one.issued_compute[entry.order] = one.timeline.compute
        meeting.seconds = max(meeting.seconds, operation.seconds)
        meeting.issued.append((rank, operation, stream))
        if len(meeting.issued) == meeting.needed:
            self._resolve(meeting)
            del self.meetings[key]

    def _meeting(self, rank: int, one: _Rank, entry: Communication) -> tuple[Any, int, Any, tuple[int, ...]]:
        """Return what identifies an operation on all its ranks, how many of the ranks that were run call it, its stream, and its ranks."""
        if entry.kind in ("send", "recv"):
            other = entry.detail.rpartition(" ")[2]
            if not other.isdigit():  # from any rank: it is not known which one has sent
                return (rank, entry.order), 1, (rank, entry.order), (entry.rank,)
            peer = int(other)
            pair = (entry.rank, peer) if entry.kind == "send" else (peer, entry.rank)
            classes = self.class_of(pair[0]), self.class_of(pair[1])
            number = one.counts[classes, entry.kind]
            one.counts[classes, entry.kind] += 1
            return (classes, number), 2, pair, pair
        members = tuple(sorted({self.class_of(member) for member in entry.group}))
        if len(members) == 1:
            return (rank, entry.order), 1, entry.group, entry.group
        place = (members, len(entry.group))
        number = one.counts[place]
        one.counts[place] += 1
        return (place, number), len(members), entry.group, entry.group

    def _resolve(self, meeting: _Meeting) -> None:
        """Set the times of an operation that all its ranks have called."""
        start = max(max(operation.issued, self.ranks[rank].streams.get(stream, 0.0)) for rank, operation, stream in meeting.issued)
        meeting.end = start + meeting.seconds
        for rank, operation, stream in meeting.issued:
            operation.start, operation.end = start, meeting.end
            self.ranks[rank].streams[stream] = meeting.end
        self.ready.extend(meeting.waiting)

    def _wait(self, one: _Rank, order: int, end: float) -> None:
        operation = one.timeline.operations[order]
        if operation.waited is None:
            operation.waited = one.now
            operation.overlap = self._between(one, order)
        if end > one.now:
            exposed = end - max(one.now, operation.start)
            operation.exposed += exposed
            one.timeline.exposed += exposed
            one.now = end
        one.waited[one.stream_of[order]] = one.now

    def _between(self, one: _Rank, order: int) -> float:
        """Return the seconds of operators between the call of an operation and now."""
        operation = one.timeline.operations[order]
        if not operation.entry.ahead:
            return one.timeline.compute - one.issued_compute[order]
        starts, seconds = one.timeline.starts, one.timeline.seconds
        return sum(seconds[bisect_left(starts, operation.issued) :])

    def _stuck(self, rank: int, one: _Rank) -> str:
        entry = one.program.entries[one.program.marks[one.at].order]
        meeting = one.meetings[entry.order]
        begun = sorted(other for other, _, _ in meeting.issued)
        return (
            f"the timeline of rank {rank} stops at {entry}: {len(begun)} of {meeting.needed} ranks that were run begin it ({begun}). "
            "Calls of ranks of different classes are not matched while the program runs; use ranks='all' to find the mistake"
        )


