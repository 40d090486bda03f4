"""Replay allocations and frees through the model of the allocator."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from operator import index
from typing import Any

from metatensor.analysis.allocator.blocks import Block
from metatensor.analysis.allocator.caching import CachingAllocator
from metatensor.analysis.allocator.settings import EMPTY_CACHE, AllocatorSettings
from metatensor.devices.base import OutOfMemoryError

__all__ = ["EMPTY_CACHE", "AllocatorReport", "OutOfMemory", "ReservedBytes", "replay"]

@dataclass(frozen=True)
class ReservedBytes:
    """The parts of the reserved memory at one time, in bytes. ``reserved`` is the sum of the others.

    Parameters
    ----------
    reserved : int
        Bytes of all segments. Tools such as nvidia-smi show these plus the context of the device.
    requested : int
        Bytes that the program has requested and not freed.
    rounding : int
        Bytes by which the blocks in use are larger than the requests.
    pending : int
        Bytes that are freed, but possibly in use on another stream.
    split : int
        Free parts of segments that are in use, or of pages of expandable segments that are in use. They can serve later
        requests that fit, but cannot be returned to the driver.
    cached : int
        Whole free segments and pages, which `EMPTY_CACHE` returns to the driver.
    """

    reserved: int
    requested: int
    rounding: int
    pending: int
    split: int
    cached: int


@dataclass(frozen=True)
class OutOfMemory:
    """A request that did not fit: its position, its size in bytes, and the reserved memory at that time."""

    event: int
    nbytes: int
    state: ReservedBytes
    message: str


@dataclass(frozen=True)
class AllocatorReport:
    """The reserved memory during a sequence of events. Sizes are in bytes.

    Parameters
    ----------
    settings : AllocatorSettings
        The settings of the allocator.
    capacity : int or None
        Bytes that the driver can provide; None if unlimited.
    events : int
        Number of events replayed. It is smaller than the number given if memory ran out.
    peak_reserved, peak_allocated, peak_requested : int
        Peaks of the bytes of segments, of blocks in use, and of requests. They may occur at different events.
    peak_event : int
        Position of the first event after which ``peak_reserved`` bytes were reserved; -1 if there were none.
    at_peak, at_end : ReservedBytes
        The parts of the reserved memory after ``peak_event``, and after the last event.
    segments : int
        Number of segments at the end.
    segments_requested, segments_returned, retries : int
        Requests to the driver, segments (or ranges of pages) returned to it, and requests that were repeated after the
        cache was emptied. Each retry makes the device wait for all its work.
    out_of_memory : OutOfMemory or None
        The first request that did not fit. The replay ends there.
    reserved, allocated : array of int
        Bytes after each event, if a timeline was requested.
    """

    settings: AllocatorSettings
    capacity: int | None
    events: int
    peak_reserved: int
    peak_allocated: int
    peak_requested: int
    peak_event: int
    at_peak: ReservedBytes
    at_end: ReservedBytes
    segments: int
    segments_requested: int
    segments_returned: int
    retries: int
    out_of_memory: OutOfMemory | None
    reserved: array[int] = field(repr=False)
    allocated: array[int] = field(repr=False)

    @property
    def fragmentation(self) -> float:
        """Fraction of the reserved bytes at their peak that was neither in use nor pending, from 0 to 1."""
        state = self.at_peak
        return (state.split + state.cached) / state.reserved if state.reserved else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return everything except the timeline as JSON types."""
        names = ("capacity", "events", "peak_reserved", "peak_allocated", "peak_requested", "peak_event", "fragmentation", "segments",
                 "segments_requested", "segments_returned", "retries")  # fmt: skip
        found: dict[str, Any] = {name: getattr(self, name) for name in names}
        found["at_peak"], found["at_end"] = vars(self.at_peak), vars(self.at_end)
        failure = self.out_of_memory
        found["out_of_memory"] = failure and {"event": failure.event, "nbytes": failure.nbytes, "state": vars(failure.state)}
        return found


def replay(events: Iterable[Any], settings: AllocatorSettings | str | None = None, *, capacity: int | None = None,
           timeline: bool = True) -> AllocatorReport:  # fmt: skip
    """Replay allocations and frees by the rules of PyTorch's caching allocator, and report the reserved memory.

    Parameters
    ----------
    events : iterable
        The events in order. ``(id, nbytes)`` or ``(id, nbytes, stream)`` allocates; ``(id, None)`` frees. An id is any
        hashable value, and may be used again after it is freed. Requests of 0 bytes take no memory. `EMPTY_CACHE`
        returns cached memory to the driver.
    settings : AllocatorSettings or str, optional
        The settings of the allocator. A string has the format of ``PYTORCH_CUDA_ALLOC_CONF``. Default: PyTorch's
        defaults.
    capacity : int, optional
        Bytes that the driver can provide, such as `DeviceProfile.visible_memory` minus the context. Default: unlimited.
    timeline : bool, default True
        Whether to keep the bytes after each event, which takes 16 bytes per event.

    Raises
    ------
    ValueError
        If an event frees an id that is not in use, allocates an id that is in use, or has none of these forms.

    Examples
    --------
    >>> from metatensor.analysis import allocator
    >>> report = allocator.replay([("a", 3 * 2**20), ("b", 1000), ("a", None)])
    >>> report.peak_reserved >> 20, report.peak_allocated      # a segment of 20 MiB and one of 2 MiB
    (22, 3146752)
    """
    if isinstance(settings, str):
        settings = AllocatorSettings.parse(settings)
    model = CachingAllocator(settings, capacity=capacity)
    allocate, free = model.allocate, model.free
    live: dict[Hashable, Block | None] = {}
    reserved, allocated = array("q"), array("q")
    add_reserved, add_allocated = reserved.append, allocated.append
    peak_reserved = peak_allocated = peak_requested = 0
    peak_event, peak, failure = -1, _state(model), None
    position = -1
    for position, event in enumerate(events):
        if type(event) is str and event == EMPTY_CACHE:
            model.empty_cache()
        else:
            try:
                id, nbytes, *stream = event
                if nbytes is not None and type(nbytes) is not int:
                    nbytes = index(nbytes)
            except (TypeError, ValueError):
                raise ValueError(f"event {position} must be (id, nbytes), (id, nbytes, stream) or (id, None), got {event!r}") from None
            if nbytes is None:
                try:
                    block = live.pop(id)
                except KeyError:
                    raise ValueError(f"event {position} frees {id!r}, which is not in use") from None
                if block is not None:
                    free(block)
            elif id in live:
                raise ValueError(f"event {position} allocates {id!r}, which is in use")
            elif nbytes < 0:
                raise ValueError(f"event {position} allocates {nbytes} bytes")
            elif not nbytes:
                live[id] = None
            else:
                try:
                    live[id] = allocate(nbytes, *stream)
                except OutOfMemoryError as error:
                    failure = OutOfMemory(position, nbytes, _state(model), str(error))
                    break
                if model.allocated > peak_allocated:
                    peak_allocated = model.allocated
                if model.requested > peak_requested:
                    peak_requested = model.requested
                if model.reserved > peak_reserved:
                    peak_reserved, peak_event, peak = model.reserved, position, _state(model)
        if timeline:
            add_reserved(model.reserved)
            add_allocated(model.allocated)
    return AllocatorReport(
        model.settings, capacity, position + (failure is None), peak_reserved, peak_allocated, peak_requested, peak_event, peak,
        _state(model), len(model.segments), model.segments_requested, model.segments_returned, model.retries, failure, reserved, allocated,
    )  # fmt: skip


def _state(model: CachingAllocator) -> ReservedBytes:
    """Return the current parts of the reserved memory."""
    split = model.split
    pending = model.active - model.allocated
    return ReservedBytes(
        model.reserved, model.requested, model.allocated - model.requested, pending, split, model.reserved - model.active - split
    )

