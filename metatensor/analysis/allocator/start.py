"""The state of a recorded allocator before the first event of its history."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from metatensor.analysis.allocator.settings import MIN_BLOCK, SMALL, SMALL_SEGMENT, AllocatorSettings
from metatensor.analysis.allocator.snapshot import Snapshot, SnapshotError

__all__ = ["Region", "Start", "Used", "start_of"]


class Used(NamedTuple):
    """A block that is in use, or freed but pending."""

    address: int
    size: int
    requested: int
    pending: bool


@dataclass
class Region:
    """A segment, or a mapped range of an expandable segment, with its used blocks by address."""

    address: int
    size: int
    stream: int
    small: bool
    expandable: bool
    pool: object
    used: list[Used] = field(default_factory=list)


@dataclass
class Start:
    """The regions by address."""

    regions: list[Region]


def start_of(snapshot: Snapshot, device: int, settings: AllocatorSettings) -> Start:
    """Return the state before the first event, by undoing the events from the final state."""
    spans: dict[int, Region] = {}
    live: dict[int, tuple[int, int, bool]] = {}  # address -> (size or 0 if unknown, requested, pending)
    for segment in snapshot.segments:
        if segment.device == device:
            pool = None if segment.pool == (0, 0) else segment.pool
            spans[segment.address] = Region(segment.address, segment.total_size, segment.stream, segment.small, segment.expandable, pool)
            for block in segment.blocks:
                if block.state != "inactive":
                    live[block.address] = (block.size, block.requested_size, block.state != "active_allocated")
    for event in reversed(snapshot.traces[device] if device < len(snapshot.traces) else ()):
        address, size = event.address, event.size
        if event.action == "alloc":
            live.pop(address, None)
        elif event.action == "free_completed":
            live[address] = (0, size, True)
        elif event.action == "free_requested":
            known, requested, _ = live.get(address, (0, size, True))
            live[address] = (known, requested, False)
        elif event.action == "segment_alloc":
            spans.pop(address, None)
        elif event.action == "segment_free" and size:
            spans[address] = Region(address, size, event.stream, size == SMALL_SEGMENT, False, None)
        elif event.action == "segment_map":
            _remove(spans, address, size)
        elif event.action == "segment_unmap" and size:
            spans[address] = Region(address, size, event.stream, size % (20 << 20) != 0, True, None)
    regions = _joined(spans)
    for before, after in zip(regions, regions[1:]):
        if before.address + before.size > after.address:
            raise SnapshotError(f"{snapshot.path}: the history contradicts the segments at {before.address:#x} and {after.address:#x}")
    _fill(regions, live, settings)
    return Start(regions)


def _remove(spans: dict[int, Region], address: int, size: int) -> None:
    """Remove a range of addresses from the regions of expandable segments that contain parts of it."""
    end = address + size
    for start, region in list(spans.items()):
        stop = start + region.size
        if region.expandable and start < end and address < stop:
            del spans[start]
            if start < address:
                spans[start] = Region(start, address - start, region.stream, region.small, True, region.pool)
            if end < stop:
                spans[end] = Region(end, stop - end, region.stream, region.small, True, region.pool)


def _joined(spans: dict[int, Region]) -> list[Region]:
    """Return the regions in the order of addresses. Adjacent regions of one expandable segment are merged."""
    regions: list[Region] = []
    for _, region in sorted(spans.items()):
        last = regions[-1] if regions else None
        if last is not None and region.expandable and last.expandable and last.address + last.size == region.address:
            last.size += region.size
        else:
            regions.append(Region(region.address, region.size, region.stream, region.small, region.expandable, region.pool))
    return regions


def _fill(regions: list[Region], live: dict[int, tuple[int, int, bool]], settings: AllocatorSettings) -> None:
    """Put the used blocks into the regions. Unknown sizes are derived from the rules for splitting."""
    addresses = sorted(live)
    position = 0
    for region in regions:
        end = region.address + region.size
        while position < len(addresses) and addresses[position] < region.address:
            position += 1
        while position < len(addresses) and addresses[position] < end:
            address = addresses[position]
            size, requested, pending = live[address]
            position += 1
            limit = min(addresses[position], end) if position < len(addresses) else end
            if not size:
                size = settings.block_size(requested)
                least = MIN_BLOCK if region.small or region.expandable else SMALL + 1
                if limit - address - size < least:
                    size = limit - address
            region.used.append(Used(address, min(size, limit - address), requested, pending))
