"""The timeline of a profile, reduced to as many points as a page can draw, with the storages alive at each.

The peak is always one of the points. Nothing is averaged: each point is an event of the run.
"""

from __future__ import annotations

import linecache
import re
from collections import Counter
from heapq import nlargest
from typing import TYPE_CHECKING, Any

from metatensor.analysis.report import ModuleRow

if TYPE_CHECKING:
    from metatensor.analysis.profiling import Profile, StorageRecord

__all__ = ["BEFORE", "DEFAULT_LOSS", "PHASES", "before_peak", "by_module", "chart", "heaviest", "living", "outside_modules", "source_text"]

PHASES = ("forward", "backward", "optimizer")
BEFORE = "(existed before the run)"
"""Stands for the operator of storages that the run did not allocate."""
DEFAULT_LOSS = "the default loss"
"""Stands for the line of the operators of the loss that `estimate_training` uses if none is given."""
NEAR = 0.99
"""Other peaks are marked if they reach at least this fraction of the peak."""


def chosen(totals: list[int], peak: int, points: int) -> list[int]:
    """Return at most about ``points`` indices of events: the highest and lowest of each part of the run, both ends and the peak."""
    n = len(totals)
    if n <= points:
        return list(range(n))
    parts = max(1, points // 2)
    found = {0, n - 1}
    if peak >= 0:
        found.add(peak)
    for i in range(parts):
        part = range(i * n // parts, (i + 1) * n // parts)
        found.add(max(part, key=totals.__getitem__))
        found.add(min(part, key=totals.__getitem__))
    return sorted(found)


def chart(profile: Profile, points: int = 1500, largest: int = 5) -> dict[str, Any]:
    """Return the timeline as JSON types.

    Parameters
    ----------
    profile : Profile
        The profile.
    points : int
        About how many events to keep. Default 1500.
    largest : int
        How many groups of live storages to list at each of them. Default 5.

    Returns
    -------
    dict
        ``event``, ``total`` (bytes), ``phase`` and ``place`` have an entry for each point, and so has each list of ``categories``
        (bytes). ``alive`` has the largest groups of living storages of each point, as pairs of an index of ``groups`` and bytes.
        ``phase`` is an index of ``phases``: outside of backward passes and the optimizer's steps it is ``forward``.
        ``places`` lists operator, module and line; ``groups`` lists category, operator and line. ``peak`` is the index of the peak
        among the points, or None. ``near_peaks`` has the indices of up to five other peaks within 1% of it, highest first.
    """
    events, records = profile.events, {record.number: record for record in profile.storages}
    start = sum(profile.resident.values())
    totals, total = [], start
    for event in events:
        total += event.change
        totals.append(total)
    keep = chosen(totals, profile.peak_event, points)
    groups: dict[tuple, int] = {(category, BEFORE, None): i for i, category in enumerate(profile.resident)}
    sizes: Counter[int] = Counter({groups[category, BEFORE, None]: nbytes for category, nbytes in profile.resident.items()})
    of: dict[int, tuple[str, int]] = {}
    for number, record in records.items():
        key = (record.category, record.operator, record.line)
        of[number] = record.category, groups.setdefault(key, len(groups))
    now = Counter(profile.resident)
    names = [name for name in _categories(profile) if name in now or any(record.category == name for record in records.values())]
    places: dict[tuple, int] = {}
    made: dict[str, Any] = {"event": keep, "total": [totals[i] for i in keep], "phase": [], "place": [], "alive": [],
                            "categories": {name: [] for name in names}}  # fmt: skip
    wanted = iter(keep)
    phase = 0
    upcoming = next(wanted, -1)
    for i, event in enumerate(events):
        category, group = of[event.storage]
        now[category] += event.change
        sizes[group] += event.change
        if event.kind != "death":  # releases after a pass belong to that pass
            phase = PHASES.index(profile.phase_of(event))
        if i != upcoming:
            continue
        upcoming = next(wanted, -1)
        for name in names:
            made["categories"][name].append(now[name])
        made["phase"].append(phase)
        made["place"].append(places.setdefault(profile.place_of(event), len(places)))
        made["alive"].append([pair for pair in nlargest(largest, sizes.items(), key=lambda item: item[1]) if pair[1]])
    made.update(phases=list(PHASES), places=[list(place) for place in places], groups=[list(group) for group in groups],
                start=start, peak=keep.index(profile.peak_event) if profile.peak_event >= 0 else None, all_events=len(events))  # fmt: skip
    made["near_peaks"] = near_peaks(made["total"], made["peak"])
    return made


def near_peaks(totals: list[int], peak: int | None, most: int = 5) -> list[int]:
    """Return the indices of other peaks within 1% of the peak, the highest first.

    Between two of them, memory falls below 99% of the peak.
    """
    if peak is None:
        return []
    least = NEAR * totals[peak]
    found: list[int] = []
    begin = None
    for i, total in enumerate([*totals, -1]):
        if total >= least:
            begin = i if begin is None else begin
        elif begin is not None:
            if not begin <= peak < i:
                found.append(max(range(begin, i), key=totals.__getitem__))
            begin = None
    return sorted(found, key=lambda i: (-totals[i], i))[:most]


def before_peak(profile: Profile) -> dict[str, Any] | None:
    """Return the last line of user code before the peak, in the same phase, and the largest storage allocated since and alive at the peak.

    None if the peak has a line of user code itself, or there is no such line or storage.
    """
    peak = profile.peak_event
    if peak < 0 or profile.peak_place[2] not in (None, DEFAULT_LOSS):
        return None
    after, first = None, 0
    for i in range(peak - 1, -1, -1):
        event = profile.events[i]
        if profile.phase_of(event) != profile.peak_phase and event.kind != "death":
            break
        if event.kind == "birth" and profile.place_of(event)[2] not in (None, DEFAULT_LOSS):
            after, first = profile.place_of(event)[2], i
            break
    made = [record for record in profile.storages if first < record.born <= peak and (record.died is None or record.died > peak)]
    if after is None or not made:
        return None
    most = max(made, key=lambda record: record.nbytes)
    return {"after": after, "operator": most.operator, "line": most.line, "bytes": most.nbytes}


def outside_modules(profile: Profile) -> dict[str, int]:
    """Return the bytes allocated outside of all modules: at the peak, and in the whole run."""
    inside = {record.number for record in profile.storages if record.module}
    alive: Counter[int] = Counter()
    for event in profile.events[: profile.peak_event + 1]:
        alive[event.storage] += event.change
    return {"peak_bytes": sum(nbytes for number, nbytes in alive.items() if number not in inside),
            "made_bytes": sum(record.nbytes for record in profile.storages if not record.module)}  # fmt: skip


def _categories(profile: Profile) -> tuple[str, ...]:
    from metatensor.analysis.profiling import CATEGORIES

    return CATEGORIES


def living(profile: Profile, limit: int = 200) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Return the largest storages alive at the peak as dicts, and the number and bytes of the others that the run allocated."""
    alive: Counter[int] = Counter()
    for event in profile.events[: profile.peak_event + 1]:
        alive[event.storage] += event.change
    records: dict[int, StorageRecord] = {record.number: record for record in profile.storages}
    rows = sorted(((nbytes, number) for number, nbytes in alive.items() if nbytes), key=lambda row: (-row[0], row[1]))
    found = []
    for nbytes, number in rows[:limit]:
        record = records[number]
        found.append({"bytes": nbytes, "category": record.category, "operator": record.operator, "module": record.module,
                      "line": record.line, "born": record.born, "died": record.died})  # fmt: skip
    return found, {"count": len(rows[limit:]), "bytes": sum(nbytes for nbytes, _ in rows[limit:])}


def heaviest(profile: Profile, limit: int = 10) -> list[dict[str, Any]]:
    """Return the operators whose results weigh most at the peak, with the module and the line of each, and the sizes of the results.

    Modules whose paths differ only in numbers count together, as ``"layers.*.linear"``.
    """
    alive: Counter[int] = Counter()
    for event in profile.events[: profile.peak_event + 1]:
        alive[event.storage] += event.change
    sizes: Counter[tuple[str, str, str | None]] = Counter()
    counts: Counter[tuple[str, str, str | None]] = Counter()
    for record in profile.storages:
        if alive[record.number]:
            place = record.operator, re.sub(r"(?<![^.])\d+(?![^.])", "*", record.module), record.line
            sizes[place] += alive[record.number]
            counts[place] += 1
    return [
        {"bytes": nbytes, "count": counts[place], "operator": place[0], "module": place[1], "line": place[2]}
        for place, nbytes in sizes.most_common(limit)
    ]


def by_module(profile: Profile, rows: list[ModuleRow]) -> None:
    """Fill `ModuleRow.peak_bytes` and `ModuleRow.made_bytes`, including submodules."""
    alive: Counter[int] = Counter()
    for event in profile.events[: profile.peak_event + 1]:
        alive[event.storage] += event.change
    peak: Counter[str] = Counter()
    made: Counter[str] = Counter()
    known = {row.path for row in rows}
    for record in profile.storages:
        path: str = record.module if record.module in known else ""
        while True:
            peak[path] += alive[record.number]
            made[path] += record.nbytes
            if not path:
                break
            path = path.rpartition(".")[0]
    for row in rows:
        row.peak_bytes, row.made_bytes = peak[row.path], made[row.path]


def source_text(lines: set[str | None]) -> dict[str, str]:
    """Return the text of each ``file:line`` whose file can be read."""
    found = {}
    for line in sorted(filter(None, lines)):
        file, _, number = line.rpartition(":")
        text = linecache.getline(file, int(number)).strip() if number.isdecimal() else ""
        if text:
            found[line] = text[:200]
    return found
