"""Compare the model of the allocator with a recorded snapshot: the block of each request, and the final state."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from metatensor.analysis.allocator.blocks import ALLOCATED, FREE, PENDING, UNMAPPED, Block, FreeBlocks, Segment
from metatensor.analysis.allocator.caching import ADDRESS_SPACE, CachingAllocator
from metatensor.analysis.allocator.settings import LARGE_SEGMENT, SMALL, SMALL_SEGMENT, AllocatorSettings
from metatensor.analysis.allocator.snapshot import Snapshot, SnapshotError, TraceEvent
from metatensor.analysis.allocator.start import Region, Start, start_of

__all__ = ["Agreement", "Difference", "compare"]

MAX_DIFFERENCES = 100


@dataclass(frozen=True)
class Difference:
    """An event that differs from the model's expectation. ``event`` is its position in the trace."""

    event: int
    kind: str
    expected: str
    recorded: str


@dataclass(frozen=True)
class Agreement:
    """How far a recorded history agrees with the model. After every event the model adopts the recorded outcome.

    Parameters
    ----------
    device : int
        Index of the device.
    events : int
        Number of events in the trace.
    allocations, allocations_same : int
        Number of requests for a block, and how many of them got the address that the model expected. If the model
        expected new memory from the driver, the request must have got new memory of the expected size.
    requests, requests_same : int
        Number of requests to the driver, and how many of them had the time and size that the model expected.
    returns, returns_same : int
        Number of returns of memory to the driver, and how many of them were whole free segments or whole free pages.
    blocks, blocks_same : int
        Number of blocks in the snapshot, and how many of them the model has with the same address, size and state at
        the end of the trace.
    reserved, reserved_model : int
        Bytes of all segments in the snapshot, and in the model after the trace.
    peak_reserved, peak_reserved_model : int
        Peak of reserved bytes in the recorded trace, and in a replay in which the model chooses every block by itself.
    differences : tuple of Difference
        The first differences.
    """

    device: int
    events: int
    allocations: int
    allocations_same: int
    requests: int
    requests_same: int
    returns: int
    returns_same: int
    blocks: int
    blocks_same: int
    reserved: int
    reserved_model: int
    peak_reserved: int
    peak_reserved_model: int
    differences: tuple[Difference, ...] = field(repr=False)

    def __str__(self) -> str:
        return (
            f"device {self.device}: {self.allocations_same:,} of {self.allocations:,} requests got the expected block, "
            f"{self.requests_same:,} of {self.requests:,} requests to the driver and {self.blocks_same:,} of {self.blocks:,} final "
            f"blocks are as expected; peak reserved {self.peak_reserved:,} bytes recorded, {self.peak_reserved_model:,} by the model"
        )


def compare(snapshot: Snapshot, device: int = 0, settings: AllocatorSettings | None = None) -> Agreement:
    """Replay the recorded history of a device through the model and return how far the two agree.

    Parameters
    ----------
    snapshot : Snapshot
        A snapshot with a history.
    device : int, default 0
        Index of the device.
    settings : AllocatorSettings, optional
        Default: the settings that the snapshot records. If it records none, PyTorch's defaults, with expandable
        segments if the snapshot contains any.

    Notes
    -----
    The state before the first event is reconstructed by undoing the events from the final state. The
    snapshot records the size of a block only if it is still in use at the end. A block that was freed during the history
    is assumed to have its requested size, rounded up, plus the bytes after it if they are too few for another block.
    """
    settings = settings or snapshot.settings or AllocatorSettings()
    trace = snapshot.traces[device] if device < len(snapshot.traces) else ()
    expandable = any(segment.expandable for segment in snapshot.segments if segment.device == device)
    if expandable != settings.expandable_segments and any(segment.device == device for segment in snapshot.segments):
        settings = replace(settings, expandable_segments=expandable)
    start = start_of(snapshot, device, settings)
    follower = _Follower(settings, start)
    for position, event in enumerate(trace):
        follower.step(position, event)
    same, total = follower.final(snapshot, device)
    return Agreement(
        device=device,
        events=len(trace),
        allocations=follower.allocations,
        allocations_same=follower.allocations_same,
        requests=follower.requests,
        requests_same=follower.requests_same,
        returns=follower.returns,
        returns_same=follower.returns_same,
        blocks=total,
        blocks_same=same,
        reserved=snapshot.reserved(device),
        reserved_model=follower.model.reserved,
        peak_reserved=follower.peak,
        peak_reserved_model=_free_run(settings, start, trace),
        differences=tuple(follower.differences),
    )


def restore(start: Start, settings: AllocatorSettings, **options: Any) -> tuple[CachingAllocator, dict[int, Block]]:
    """Return a model in the state `start`, and its used blocks by address."""
    model = CachingAllocator(settings, **options)
    used: dict[int, Block] = {}
    for region in start.regions:
        free = model.free_blocks(region.pool, region.small, region.stream)
        block: Block | None
        if region.expandable:
            others: list[int] = []
            if not free.unmapped:  # a new segment must not use the addresses of the others
                others = [other.address for other in start.regions if _kind(other) != _kind(region)]
            block = _map_range(model, free, region.address, region.size, others)
            if block is None:
                raise SnapshotError(f"the history contradicts the segment at {region.address:#x}")
        else:
            block = model.add_segment(free, region.address, region.size)
            free.add(block)
        for item in region.used:
            block = _carve(model, block, item.address)
            free.remove(block)
            if block.size > item.size:
                free.add(block.split(item.size, FREE))
            block.state, block.requested = ALLOCATED, item.requested
            model.active += block.size
            model.allocated += block.size
            model.requested += block.requested
            used[block.address] = block
            if item.pending:
                model.request_free(block)
            following = block.next
            if following is not None and following.state == FREE:
                block = following
    return model, used


def _kind(region: Region) -> tuple[object, ...]:
    """Return a key that is equal for regions of the same expandable segment."""
    return region.expandable, region.small, region.stream, region.pool


def _carve(model: CachingAllocator, block: Block, address: int) -> Block:
    """Split a free block at an address inside it, if necessary. Return the free block that begins there."""
    if block.address == address:
        return block
    free = block.segment.free_blocks
    free.remove(block)
    rest = block.split(address - block.address, FREE)
    free.add(block)
    free.add(rest)
    return rest


def _map_range(model: CachingAllocator, free: FreeBlocks, address: int, size: int, others: Iterable[int] = ()) -> Block | None:
    """Map a range of addresses of an expandable segment, which is created if necessary. Return its free block.

    Return None if the range is already mapped. ``others`` are addresses at which other segments begin.
    """
    block = next((block for block in free.unmapped.values() if block.address <= address < block.address + block.size), None)
    if block is None and not _overlaps(model, address, size):
        page = SMALL_SEGMENT if free.pool.small else LARGE_SEGMENT
        segment = Segment(address, 0, free, page)
        end = min((start for start in (*model.segments, *others) if start > address), default=address + ADDRESS_SPACE)
        space = min(end - address, ADDRESS_SPACE) // page * page
        if space < size:
            return None
        segment.first = block = Block(address, space, segment, UNMAPPED)
        model.segments[address] = segment
        free.unmapped[address] = block
    if block is None or size <= 0 or address + size > block.address + block.size:
        return None
    if block.address < address:
        block = block.split(address - block.address, UNMAPPED)
        free.unmapped[block.address] = block
    return model.map(block, size)


def _overlaps(model: CachingAllocator, address: int, size: int) -> bool:
    """Return whether a range of addresses contains memory. Unmapped addresses of expandable segments do not count."""
    for segment in model.segments.values():
        if segment.page:
            if any(block.state != UNMAPPED and block.address < address + size and address < block.address + block.size
                   for block in segment.blocks()):  # fmt: skip
                return True
        elif segment.address < address + size and address < segment.address + segment.size:
            return True
    return False


class _Follower:
    """Compares each recorded event with the model's expectation, then applies the recorded event to the model."""

    def __init__(self, settings: AllocatorSettings, start: Start) -> None:
        self.model, self.used = restore(start, settings)
        self.differences: list[Difference] = []
        self.allocations = self.allocations_same = 0
        self.requests = self.requests_same = 0
        self.returns = self.returns_same = 0
        self.peak = self.model.reserved
        self.grown: list[TraceEvent] = []  # requests to the driver since the last request for a block
        self.starts = sorted(self.model.segments)

    def differ(self, position: int, kind: str, expected: str, recorded: str) -> None:
        if len(self.differences) < MAX_DIFFERENCES:
            self.differences.append(Difference(position, kind, expected, recorded))

    def step(self, position: int, event: TraceEvent) -> None:
        action = event.action
        if action in ("segment_alloc", "segment_map"):
            self.grown.append(event)
        elif action == "alloc":
            self.allocate(position, event)
        elif action == "free_requested":
            block = self.used.get(event.address)
            if block is None or block.state != ALLOCATED:
                self.differ(position, "free", "no block in use there", f"{event.address:#x}")
            else:
                self.model.request_free(block)
        elif action == "free_completed":
            block = self.used.pop(event.address, None)
            if block is not None and block.state == PENDING:
                self.model.complete_free(block)
        elif action in ("segment_free", "segment_unmap"):
            self.give_back(position, event)
        self.peak = max(self.peak, self.model.reserved)

    def allocate(self, position: int, event: TraceEvent) -> None:
        """Compare a request for a block with the model's expectation, and apply it as recorded."""
        model = self.model
        if not event.size:
            return
        self.allocations += 1
        size = model.settings.block_size(event.size)
        small = size <= SMALL
        recorded_at = self.segment_at(event.address) if not self.grown else None
        free = recorded_at.free_blocks if recorded_at is not None else model.free_blocks(None, small, event.stream)
        expected = model.best_fit(free, size)
        grown = sum(each.size for each in self.grown)
        self.requests += bool(self.grown)
        if expected is not None:
            same = expected.address == event.address and not self.grown
            if not same:
                self.differ(position, "block", f"the free block of {expected.size:,} bytes at {expected.address:#x}",
                            f"{event.address:#x}" + (f" in {grown:,} new bytes" if grown else ""))  # fmt: skip
        elif model.settings.expandable_segments:
            room = model.room(free, size)
            have = room.size if room is not None and room.state == FREE else 0
            page = SMALL_SEGMENT if small else LARGE_SEGMENT
            needed = -(-(size - have) // page) * page
            same = grown == needed and (room is None or room.address == event.address)
            self.requests_same += same
            if not same:
                where = f" at {room.address:#x}" if room is not None else ""
                self.differ(position, "request", f"{needed:,} new bytes{where}", f"{event.address:#x}, {grown:,} new bytes")
        else:
            needed = model.settings.segment_size(size)
            same = grown == needed and any(each.address == event.address for each in self.grown)
            self.requests_same += same
            if not same:
                self.differ(position, "request", f"a segment of {needed:,} bytes", f"{event.address:#x}, {grown:,} new bytes")
        self.allocations_same += same
        self.grow(position, free)
        segment = self.segment_at(event.address)
        block = self.free_block(segment, event.address) if segment is not None else None
        if block is None or block.size < size:
            self.differ(position, "place", "no free block there", f"{event.size:,} bytes at {event.address:#x}")
            return
        block = _carve(model, block, event.address)
        block.segment.free_blocks.remove(block)
        self.used[event.address] = model.use(block, size, event.size)

    def grow(self, position: int, free: FreeBlocks) -> None:
        """Apply the recorded requests to the driver."""
        for each in self.grown:
            if each.action == "segment_map":
                done = _map_range(self.model, free, each.address, each.size) is not None
            else:
                done = each.size > 0 and not _overlaps(self.model, each.address, each.size)
                if done:
                    free.add(self.model.add_segment(free, each.address, each.size))
            if not done:
                self.differ(position, "place", "no memory there yet", f"{each.size:,} new bytes at {each.address:#x}")
            self.starts = sorted(self.model.segments)
        self.grown = []

    def segment_at(self, address: int) -> Segment | None:
        """Return the segment that contains an address, or None."""
        position = bisect_right(self.starts, address) - 1
        return self.model.segments.get(self.starts[position]) if position >= 0 else None

    def free_block(self, segment: Segment, address: int) -> Block | None:
        """Return the free block of a segment that contains an address, or None."""
        found = segment.free_blocks.at.get(address)
        if found is not None:
            return found
        return next((b for b in segment.blocks() if b.state == FREE and b.address <= address < b.address + b.size), None)

    def give_back(self, position: int, event: TraceEvent) -> None:
        """Check whether the model could return this memory to the driver, and apply the return as recorded."""
        self.returns += 1
        segment = self.segment_at(event.address)
        block = self.free_block(segment, event.address) if segment is not None else None
        if segment is None or block is None:
            self.differ(position, "return", "no free memory there", f"{event.size:,} bytes at {event.address:#x}")
            return
        if segment.page:
            before = self.model.reserved
            address = block.address
            self.model.unmap(block)
            same = before - self.model.reserved == event.size and address <= event.address
        else:
            same = block.previous is None and block.next is None and (block.address, block.size) == (event.address, event.size)
            if same:
                self.model.give_back(block)
        self.starts = sorted(self.model.segments)
        self.returns_same += same
        if not same:
            self.differ(position, "return", f"{block!r}", f"{event.size:,} bytes at {event.address:#x}")

    def final(self, snapshot: Snapshot, device: int) -> tuple[int, int]:
        """Return how many blocks of the snapshot the model has too, and the number of blocks in the snapshot."""
        here = {(block.address, block.size, block.state == FREE) for block in self.model.blocks() if block.state != UNMAPPED}
        there = [(block.address, block.size, block.state == "inactive")
                 for segment in snapshot.segments if segment.device == device for block in segment.blocks]  # fmt: skip
        return sum(block in here for block in there), len(there)


def _free_run(settings: AllocatorSettings, start: Start, trace: tuple[TraceEvent, ...]) -> int:
    """Replay a trace in which the model chooses every block. Return the peak of reserved bytes.

    New segments get the recorded addresses. A recorded return of memory empties the model's cache.
    """
    addresses: dict[int, list[int]] = {}
    for event in reversed(trace):
        if event.action == "segment_alloc":
            addresses.setdefault(event.size, []).append(event.address)
    taken = [1 << 60]

    def place(nbytes: int) -> int:
        known = addresses.get(nbytes)
        while known:
            address = known.pop()
            if not _overlaps(model, address, nbytes):
                return address
        taken[0] += -(-nbytes // SMALL_SEGMENT) * SMALL_SEGMENT
        return taken[0] - nbytes

    model, used = restore(start, settings, place=place)
    live: dict[int, Block] = dict(used)
    peak = model.reserved
    returning = False
    for event in trace:
        if event.action in ("segment_free", "segment_unmap"):
            if not returning:
                model.empty_cache()
            returning = True
            continue
        returning = False
        if event.action == "alloc" and event.size:
            live[event.address] = model.allocate(event.size, event.stream)
            peak = max(peak, model.reserved)
        elif event.action == "free_requested" and (block := live.get(event.address)) is not None and block.state == ALLOCATED:
            model.request_free(block)
        elif event.action == "free_completed" and (block := live.pop(event.address, None)) is not None and block.state == PENDING:
            model.complete_free(block)
    return peak
