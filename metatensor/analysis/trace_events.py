"""The timeline of a profile in the trace event format of Chrome, which Perfetto reads as well.

Format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU (Trace Event Format, Google).
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from metatensor.analysis.timeline import chart

if TYPE_CHECKING:
    from metatensor.analysis.profiling import Profile

__all__ = ["POINTS", "trace_events", "write"]

POINTS = 50_000
"""About how many events a trace keeps. Longer runs are reduced as `chart` does, with the peak exact."""
NOTE = "ts is the number of the memory event: one event is one microsecond of this axis, not of time"


def trace_events(profile: Profile, points: int = POINTS) -> Iterator[dict[str, Any]]:
    """Yield the events: bytes by category as counters, modules and operators as slices, and the peak as a mark."""
    for thread, name in ((0, "phases"), (1, "modules"), (2, "operators")):
        yield {"ph": "M", "pid": 0, "tid": thread, "name": "thread_name", "args": {"name": name}}
    yield {"ph": "M", "pid": 0, "name": "process_name", "args": {"name": "memory, by event (1 us = 1 event)"}}
    drawn = chart(profile, points, 0)
    categories, at = drawn["categories"], drawn["event"]
    for i, event in enumerate(at):
        yield {"ph": "C", "pid": 0, "ts": event, "name": "memory (bytes)", "args": {name: sizes[i] for name, sizes in categories.items()}}
    places = [tuple(drawn["places"][i]) for i in drawn["place"]]
    end = drawn["all_events"]
    yield from _slices(0, at, [(drawn["phases"][i], "") for i in drawn["phase"]], end)
    yield from _slices(1, at, [(module, "") for _, module, _ in places], end)
    yield from _slices(2, at, [(operator, line or "") for operator, _, line in places], end)
    if drawn["peak"] is not None:
        operator, module, line = profile.peak_place
        yield {"ph": "i", "s": "g", "pid": 0, "tid": 0, "ts": profile.peak_event, "name": "peak",
               "args": {"bytes": profile.peak, "operator": operator, "module": module, "line": line or "unknown"}}  # fmt: skip


def _slices(thread: int, at: list[int], values: list[tuple[str, str]], end: int) -> Iterator[dict[str, Any]]:
    """Yield a slice for each run of equal values that have a name."""
    first = 0
    for i in range(1, len(at) + 1):
        if i < len(at) and values[i] == values[first]:
            continue
        name, line = values[first]
        if name:
            stop = at[i] if i < len(at) else end
            args = {"args": {"line": line}} if line else {}
            yield {"ph": "X", "pid": 0, "tid": thread, "ts": at[first], "dur": stop - at[first], "name": name, **args}
        first = i


def write(profile: Profile, path: str | os.PathLike[str]) -> None:
    """Write the trace to a file; it is compressed if the name ends with ``.gz``."""
    made = {"traceEvents": list(trace_events(profile)), "displayTimeUnit": "ns",
            "otherData": {"note": NOTE, "unit": "bytes", "events": len(profile.events), "peak": profile.peak}}  # fmt: skip
    text = json.dumps(made, separators=(",", ":")).encode()
    with open(path, "wb") as file:
        file.write(gzip.compress(text, mtime=0) if os.fspath(path).endswith(".gz") else text)
