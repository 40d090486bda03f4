"""The predicted time of recorded calls as spans: phases contain modules, modules contain operators."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from metatensor.analysis.calls import Call
from metatensor.analysis.timing import seconds_of
from metatensor.devices.profiles import DeviceProfile

__all__ = ["spans"]

LIMIT = 2000
"""Maximum number of spans in a chart."""


@dataclass
class Span:
    """A phase, module or operator that runs from ``start`` for ``seconds``."""

    name: str
    path: str
    phase: str
    depth: int
    start: float
    seconds: float = 0.0
    calls: int = 0


def spans(calls: Iterable[Call], profile: DeviceProfile, limit: int = LIMIT) -> dict[str, Any]:
    """Return the calls on a common axis of predicted seconds, one after the other, as JSON types.

    Parameters
    ----------
    calls : iterable of Call
        The calls in order.
    profile : DeviceProfile
        The device.
    limit : int
        Maximum number of spans to return. Neighbouring short ones are merged until they fit. Default 2000.

    Returns
    -------
    dict
        Lists with an entry for each span: ``name``, ``path`` of the module, ``phase``, ``depth``, ``start`` (seconds), ``seconds`` and
        ``calls``. ``merged_below`` is the length in seconds below which neighbours were merged, ``unknown_calls`` is the number of calls
        that are missing because their time is unknown.
    """
    found: list[Span] = []
    open_spans: list[Span] = []
    now, unknown = 0.0, 0
    for call in calls:
        seconds, _ = seconds_of(call, profile)
        if seconds is None:
            unknown += 1
            continue
        seconds += profile.phase_overheads.get(call.phase, 0.0)
        if not seconds:
            continue
        names = [call.phase, *(call.module.split(".") if call.module else ())]
        same = 0
        while same < min(len(names), len(open_spans)) and open_spans[same].name == names[same]:
            same += 1
        del open_spans[same:]
        for depth in range(same, len(names)):
            span = Span(names[depth], ".".join(names[1 : depth + 1]), call.phase, depth, now)
            open_spans.append(span)
            found.append(span)
        found.append(Span(call.op, call.module, call.phase, len(names), now, seconds, 1))
        for span in open_spans:
            span.seconds += seconds
            span.calls += 1
        now += seconds
    shortest = 0.0
    kept = found
    while len(kept) > limit:
        shortest = max(shortest * 1.5, now / limit)
        kept = _merged(found, shortest)
        if shortest > now:
            break
    columns: dict[str, Any] = {name: [getattr(span, name) for span in kept] for name in ("name", "path", "phase", "depth", "calls")}
    columns.update({name: [float(f"{getattr(span, name):.6g}") for span in kept] for name in ("start", "seconds")})
    return {**columns, "merged_below": shortest, "unknown_calls": unknown}


def _merged(found: list[Span], shortest: float) -> list[Span]:
    """Merge neighbours of the same depth that are shorter than ``shortest``; omit those that stay shorter."""
    kept: list[Span] = []
    waiting: dict[int, Span] = {}
    for span in sorted(found, key=lambda one: (one.depth, one.start)):
        last = waiting.get(span.depth)
        if span.seconds >= shortest:
            waiting.pop(span.depth, None)
            kept.append(span)
        elif last is not None and last.phase == span.phase and span.start - (last.start + last.seconds) < shortest:
            last.seconds = span.start + span.seconds - last.start
            last.calls += span.calls
            last.path = _common(last.path, span.path)
            last.name = "several short calls"
        else:
            waiting[span.depth] = Span(span.name, span.path, span.phase, span.depth, span.start, span.seconds, span.calls)
            kept.append(waiting[span.depth])
    return sorted((span for span in kept if span.seconds >= shortest), key=lambda one: (one.start, one.depth))


def _common(a: str, b: str) -> str:
    """Return the path of the innermost module that contains both."""
    names = []
    for one, other in zip(a.split("."), b.split("."), strict=False):
        if one != other:
            break
        names.append(one)
    return ".".join(names)
