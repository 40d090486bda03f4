"""The timelines of ranks in the trace event format of Chrome, which Perfetto reads as well.

Format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU (Trace Event Format, Google).
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from metatensor.analysis.ranks.results import ranks_text

if TYPE_CHECKING:
    from metatensor.analysis.ranks.results import RanksProfile, RankStep

__all__ = ["trace_events", "write"]

US = 1e6


def trace_events(found: RanksProfile) -> Iterator[dict[str, Any]]:
    """Yield the events: for each rank that was run, a slice for each operator and each collective or message. Times are in microseconds."""
    for one in found.classes:
        yield from _of_rank(one)


def _of_rank(one: RankStep) -> Iterator[dict[str, Any]]:
    process = one.ranks[0]
    also = f" (and {len(one.ranks) - 1} like it)" if len(one.ranks) > 1 else ""
    yield {"ph": "M", "pid": process, "name": "process_name", "args": {"name": f"rank {process}{also}"}}
    yield {"ph": "M", "pid": process, "name": "process_sort_index", "args": {"sort_index": process}}
    yield {"ph": "M", "pid": process, "tid": 0, "name": "thread_name", "args": {"name": "operators"}}
    for call, start, seconds in zip(one.calls, one.timeline.starts, one.timeline.seconds, strict=True):
        if seconds:
            yield {"ph": "X", "pid": process, "tid": 0, "ts": start * US, "dur": seconds * US, "name": call.op, "cat": call.phase,
                   "args": {"module": call.module, "flops": call.flops, "bytes": call.bytes, "dtype": call.dtype}}  # fmt: skip
    threads: dict[Any, int] = {}
    for operation in one.operations:
        entry = operation.entry
        message = entry.kind in ("send", "recv")
        stream = f"{entry.kind} {entry.detail}" if message else f"group {ranks_text(entry.group)}"
        thread = threads.setdefault(stream, len(threads) + 1)
        if thread == len(threads):
            yield {"ph": "M", "pid": process, "tid": thread, "name": "thread_name", "args": {"name": stream}}
        details = {
            "bytes": entry.bytes, "group": ranks_text(entry.group), "route": str(operation.route),
            "algorithm": operation.time.algorithm, "protocol": operation.time.protocol, "exposed us": operation.exposed * US,
            "can hide behind us": operation.overlap * US, "line": entry.line or "unknown",
        }  # fmt: skip
        yield {"ph": "X", "pid": process, "tid": thread, "ts": operation.start * US, "dur": (operation.end - operation.start) * US,
               "name": f"{entry.kind} {entry.detail}".strip(), "cat": "communication", "args": details}  # fmt: skip


def write(found: RanksProfile, path: str | os.PathLike[str]) -> None:
    """Write the trace to a file; it is compressed if the name ends with ``.gz``."""
    made = {"traceEvents": list(trace_events(found)), "displayTimeUnit": "ms",
            "otherData": {"topology": str(found.topology), "device": found.device.name, "notes": found.notes()}}  # fmt: skip
    text = json.dumps(made, separators=(",", ":"), allow_nan=False).encode()
    with open(path, "wb") as file:
        file.write(gzip.compress(text, mtime=0) if os.fspath(path).endswith(".gz") else text)
