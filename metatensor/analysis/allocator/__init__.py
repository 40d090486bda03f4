"""A model of PyTorch's caching allocator, which computes the bytes that a program reserves.

`replay` takes allocations and frees and returns the reserved bytes over time; `CachingAllocator` is the model itself.
`requests` creates these events from a memory log, and `Profile.reserved` replays a profiled run.
`load_snapshot` reads a memory snapshot that PyTorch wrote, and `compare` replays its history through the model.
"""

from metatensor.analysis.allocator.caching import CachingAllocator
from metatensor.analysis.allocator.compare import Agreement, Difference, compare
from metatensor.analysis.allocator.replay import EMPTY_CACHE, AllocatorReport, OutOfMemory, ReservedBytes, replay
from metatensor.analysis.allocator.requests import requests
from metatensor.analysis.allocator.settings import AllocatorSettings
from metatensor.analysis.allocator.snapshot import (
    Snapshot,
    SnapshotBlock,
    SnapshotError,
    SnapshotSegment,
    TraceEvent,
    load_snapshot,
)

__all__ = ["EMPTY_CACHE", "Agreement", "AllocatorReport", "AllocatorSettings", "CachingAllocator", "Difference", "OutOfMemory",
           "ReservedBytes", "Snapshot", "SnapshotBlock", "SnapshotError", "SnapshotSegment", "TraceEvent", "compare", "load_snapshot",
           "replay", "requests"]  # fmt: skip
