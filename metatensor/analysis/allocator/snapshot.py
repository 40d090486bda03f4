"""Memory snapshots of PyTorch (`torch.cuda.memory._dump_snapshot`), read without executing code from them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from metatensor.analysis.allocator.settings import EMPTY_CACHE, AllocatorSettings

__all__ = ["Snapshot", "SnapshotBlock", "SnapshotError", "SnapshotSegment", "TraceEvent", "load_snapshot"]

MAX_BYTES = 4 << 30
"""Largest file that `load_snapshot` reads. Reading takes memory in proportion to the file."""
STATES = ("active_allocated", "active_awaiting_free", "active_pending_free", "inactive")
ACTIONS = ("alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map", "segment_unmap", "snapshot",
           "oom", "user_defined")  # fmt: skip


RETURNS = ("segment_free", "segment_unmap")


class SnapshotError(ValueError):
    """Raised for a file that is not a memory snapshot of PyTorch, or is damaged."""


class SnapshotBlock(NamedTuple):
    """A block at the time of the snapshot. States are ``active_allocated``, ``inactive`` and others. Sizes are in bytes."""

    address: int
    size: int
    requested_size: int
    state: str
    frames: Sequence[Mapping[str, Any]] = ()


class SnapshotSegment(NamedTuple):
    """A segment at the time of the snapshot. Sizes are in bytes. ``pool`` is the id of a private pool, or (0, 0)."""

    device: int
    address: int
    total_size: int
    stream: int
    small: bool
    expandable: bool
    pool: tuple[int, int]
    blocks: tuple[SnapshotBlock, ...]


class TraceEvent(NamedTuple):
    """An event of the recorded history.

    ``action`` is ``alloc``, ``free_requested``, ``free_completed``, ``segment_alloc``, ``segment_free``,
    ``segment_map``, ``segment_unmap``, ``oom``, ``snapshot``, or an action that later versions of PyTorch added.
    ``size`` is in bytes. ``time_us`` is None in snapshots of early versions. ``frames`` are mappings with ``name``,
    ``filename`` and ``line``, the innermost frame first.
    """

    action: str
    address: int
    size: int
    stream: int
    time_us: int | None = None
    frames: Sequence[Mapping[str, Any]] = ()

    @property
    def line(self) -> str | None:
        """The innermost Python line, as ``file:line``, or None if none was recorded."""
        for frame in self.frames:
            if isinstance(frame, Mapping) and str(frame.get("filename", "")).endswith(".py"):
                return f"{frame['filename']}:{frame.get('line')}"
        return None


@dataclass(frozen=True)
class Snapshot:
    """A memory snapshot.

    Parameters
    ----------
    path : str
        The file.
    segments : tuple of SnapshotSegment
        The segments of all devices.
    traces : tuple of tuple of TraceEvent
        The recorded history of each device. Early events may be missing, because PyTorch keeps a limited number of
        them.
    settings : AllocatorSettings or None
        Settings of the allocator; None in snapshots of early versions, which do not have them.
    recorded_settings : mapping
        The settings in the snapshot's own form.
    """

    path: str
    segments: tuple[SnapshotSegment, ...]
    traces: tuple[tuple[TraceEvent, ...], ...]
    settings: AllocatorSettings | None
    recorded_settings: Mapping[str, Any] = field(repr=False)

    def __repr__(self) -> str:
        events = sum(map(len, self.traces))
        return f"<Snapshot {self.path}: {len(self.segments):,} segments, {self.reserved():,} bytes reserved, {events:,} events>"

    @property
    def devices(self) -> list[int]:
        """Indices of the devices that have segments or events."""
        return sorted({*(segment.device for segment in self.segments), *(i for i, trace in enumerate(self.traces) if trace)})

    def reserved(self, device: int | None = None) -> int:
        """Return the bytes of all segments, or of those of one device."""
        return sum(segment.total_size for segment in self._of(device))

    def allocated(self, device: int | None = None) -> int:
        """Return the bytes of all blocks in use, or of those of one device."""
        return sum(block.size for segment in self._of(device) for block in segment.blocks if block.state == "active_allocated")

    def events(self, device: int = 0, *, returns: bool = True) -> Iterator[Any]:
        """Yield the history of a device as events for `replay`, so that it can be replayed with other settings.

        The blocks that were in use before the history come first, in the order of addresses. A block is freed at the
        time when it may be reused. With ``returns``, the cache is emptied whenever memory was returned to the driver.
        (The history does not record whether the program emptied the cache or memory was needed.)

        >>> from metatensor.analysis import allocator
        >>> snapshot = allocator.load_snapshot("snapshot.pickle")                           # doctest: +SKIP
        >>> allocator.replay(snapshot.events(), "expandable_segments:True").peak_reserved   # doctest: +SKIP
        """
        from metatensor.analysis.allocator.start import start_of

        live: dict[int, int] = {}
        number = 0
        for region in start_of(self, device, self.settings or AllocatorSettings()).regions:
            for used in region.used:
                live[used.address] = number
                yield number, used.requested or used.size, region.stream
                number += 1
        before = ""
        for event in self.traces[device] if device < len(self.traces) else ():
            if event.action == "alloc" and event.address not in live:
                live[event.address] = number
                yield number, event.size, event.stream
                number += 1
            elif event.action == "free_completed" and event.address in live:
                yield live.pop(event.address), None
            elif returns and event.action in RETURNS and before not in RETURNS:
                yield EMPTY_CACHE
            before = event.action

    def _of(self, device: int | None) -> Iterator[SnapshotSegment]:
        return (segment for segment in self.segments if device is None or segment.device == device)


def load_snapshot(path: str | os.PathLike[str]) -> Snapshot:
    """Read a memory snapshot that `torch.cuda.memory._dump_snapshot` wrote.

    The file is a pickle. The interpreter that reads checkpoints reads it too: it imports nothing, calls nothing, and
    takes time and memory in proportion to the file.

    Raises
    ------
    SnapshotError
        If the file is not such a snapshot, refers to any class or function, or is inconsistent.
    """
    from metatensor.checkpoint._pickle import Machine
    from metatensor.checkpoint.errors import CheckpointError

    file = os.fspath(path)
    size = os.path.getsize(file)
    if size > MAX_BYTES:
        raise SnapshotError(f"{file}: {size:,} bytes; snapshots of more than {MAX_BYTES:,} bytes are not read")
    with open(file, "rb") as stream:
        data = stream.read(MAX_BYTES)
    try:
        contents, _ = Machine(file, {}).load(data)
    except CheckpointError as error:
        raise SnapshotError(f"{file} is not a memory snapshot: {error}") from error
    return _Reader(file).snapshot(contents)


class _Reader:
    """Checks the contents of one snapshot."""

    def __init__(self, file: str) -> None:
        self.file = file

    def wrong(self, reason: str) -> SnapshotError:
        return SnapshotError(f"{self.file} is not a memory snapshot: {reason}")

    def number(self, entry: Mapping[str, Any], key: str, what: str, default: int | None = None) -> int:
        value = entry.get(key, default)
        if type(value) is not int or not 0 <= value < 1 << 64:
            raise self.wrong(f"{key} of {what} must be a number of at most 64 bits, got {str(value)[:40]}")
        return value

    def list_of(self, value: Any, what: str, kind: type = dict) -> list[Any]:
        if not isinstance(value, (list, tuple)) or not all(isinstance(item, kind) for item in value):
            raise self.wrong(f"{what} must be a list of {'mappings' if kind is dict else 'lists'}")
        return list(value)

    def frames(self, entry: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        found = entry.get("frames", ())
        return found if isinstance(found, (list, tuple)) else ()

    def snapshot(self, contents: Any) -> Snapshot:
        if isinstance(contents, (list, tuple)):  # early versions saved only the segments
            contents = {"segments": contents}
        if not isinstance(contents, dict) or "segments" not in contents:
            raise self.wrong("it has no segments")
        segments = tuple(map(self.segment, self.list_of(contents["segments"], "segments")))
        ends: dict[int, int] = {}
        for segment in sorted(segments, key=lambda segment: (segment.device, segment.address)):
            if segment.address < ends.get(segment.device, 0):
                raise self.wrong(f"two segments have the address {segment.address:#x}")
            ends[segment.device] = segment.address + segment.total_size
        traces = self.list_of(contents.get("device_traces") or [], "device_traces", (list, tuple))  # type: ignore[arg-type]
        recorded = contents.get("allocator_settings")
        if not isinstance(recorded, dict):
            recorded = {}
        try:
            settings = AllocatorSettings.of_snapshot(recorded) if recorded else None
        except (TypeError, ValueError) as error:
            raise self.wrong(f"allocator_settings: {error}") from error
        return Snapshot(self.file, segments, tuple(map(self.trace, traces)), settings, recorded)

    def segment(self, entry: dict[str, Any]) -> SnapshotSegment:
        address, total = self.number(entry, "address", "a segment"), self.number(entry, "total_size", "a segment")
        at = address
        blocks = []
        for item in self.list_of(entry.get("blocks", []), "blocks"):
            size = self.number(item, "size", "a block")
            state = item.get("state")
            if state not in STATES:
                raise self.wrong(f"a block has the state {str(state)[:40]!r}")
            if self.number(item, "address", "a block", at) != at or not size:
                raise self.wrong(f"the blocks of the segment at {address:#x} do not follow one another")
            history = item.get("history")  # early versions store the requested bytes and the frames there
            detail = history[0] if isinstance(history, list) and history and isinstance(history[0], dict) else item
            requested = self.number(item, "requested_size", "a block", self.number(detail, "real_size", "a block", size))
            blocks.append(SnapshotBlock(at, size, requested, state, self.frames(detail)))
            at += size
        if at != address + total:
            raise self.wrong(f"the blocks of the segment at {address:#x} have {at - address:,} bytes, the segment {total:,}")
        kind = entry.get("segment_type")
        if kind not in ("small", "large"):
            raise self.wrong(f"a segment has the type {str(kind)[:40]!r}")
        pool = entry.get("segment_pool_id", (0, 0))
        if not (isinstance(pool, (tuple, list)) and len(pool) == 2 and all(type(part) is int for part in pool)):
            raise self.wrong("segment_pool_id must be two numbers")
        return SnapshotSegment(
            self.number(entry, "device", "a segment", 0), address, total, self.number(entry, "stream", "a segment", 0), kind == "small",
            entry.get("is_expandable") is True, (pool[0], pool[1]), tuple(blocks),
        )  # fmt: skip

    def trace(self, entries: Any) -> tuple[TraceEvent, ...]:
        found = []
        for entry in self.list_of(entries, "a trace"):
            action = entry.get("action")
            if not isinstance(action, str):
                raise self.wrong("an event has no action")
            time = entry.get("time_us")
            found.append(TraceEvent(
                action, self.number(entry, "addr", "an event", 0), self.number(entry, "size", "an event", 0),
                self.number(entry, "stream", "an event", 0), time if type(time) is int else None, self.frames(entry),
            ))  # fmt: skip
        return tuple(found)
