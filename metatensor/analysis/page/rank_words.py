"""The text and the tables of a step on many devices."""

from __future__ import annotations

from html import escape
from typing import Any

from metatensor._core.units import bytes_text
from metatensor.analysis.page.tables import seconds_text, table

__all__ = ["facts", "headline", "section", "subtitle", "worst"]

SECTION = """
<section id="ranks" aria-labelledby="ranks-title">
<h2 id="ranks-title">Timeline of ranks</h2>
<p class="hint">Each row is a class of ranks that do the same: operators above, communication below. Point at a bar or tap it for
figures. <span class="keys">Drag to move, turn the wheel to zoom, double-click to reset. Left and right arrow keys move, up and down
choose a row, + and - zoom, Home resets.</span></p>
<div id="ranks-legend" class="legend"></div>
<canvas id="ranks-chart" tabindex="0" role="application" aria-label="Timeline of ranks" aria-describedby="ranks-detail"></canvas>
<div id="ranks-detail" class="detail" aria-live="polite"></div>
<div class="tables">{tables}</div>
</section>
"""
_ROWS = 64


def subtitle(data: dict[str, Any]) -> str:
    """Return the devices in one line."""
    return escape("; ".join(part for part in (f"{data['world_size']:,} ranks on {data['topology']}", data["links"]) if part))


def headline(data: dict[str, Any]) -> str:
    """Describe the time of the step."""
    ranks = data["ranks"]
    time = f'<p class="peak"><strong>{escape(seconds_text(ranks["seconds"]))}</strong> for a step. '
    return (f"{time}Of the time of all ranks, {ranks['exposed']:.1%} is communication that nothing hides, "
            f"and {ranks['bubble']:.1%} is waiting for other ranks.</p>")  # fmt: skip


def worst(data: dict[str, Any]) -> str:
    """Return the ranks with the highest peak of memory, as the subject of a sentence."""
    several = not data["worst"].isdigit()
    return f"{'Ranks' if several else 'Rank'} {escape(data['worst'])} {'need' if several else 'needs'}"


def facts(data: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return the main figures as labels, values and remarks."""
    ranks = data["ranks"]
    rows = [("time of a step", seconds_text(ranks["seconds"]), f"predicted, {data['device']['name']}"),
            ("exposed communication", f"{ranks['exposed']:.1%}", "of the time of all ranks"),
            ("waiting for other ranks", f"{ranks['bubble']:.1%}", "of the time of all ranks")]  # fmt: skip
    if data["total_bytes"] is not None:
        word = "rank" if data["worst"].isdigit() else "ranks"
        rows.append(("highest peak of memory", bytes_text(data["total_bytes"]), f"{word} {data['worst']}"))
    return rows


def section(data: dict[str, Any]) -> str:
    """Return the section with the timeline and the tables, or nothing for reports of one device."""
    if data["kind"] != "ranks":
        return ""
    classes = data["ranks"]["classes"]
    times = ("end", "compute", "communication", "exposed", "idle")
    rows = [(one["name"], *(seconds_text(one[key]) for key in times),
             "" if one["memory"] is None else bytes_text(one["memory"]["peak"])) for one in classes]  # fmt: skip
    made = [table("Ranks", ("ranks", "end", "operators", "communication", "exposed", "waiting for others", "peak memory"), rows)]
    groups = [(one["name"], f"{row['kind']} {row['detail']}".strip(), row["group"], row["route"], f"{row['count']:,}",
               bytes_text(row["bytes"]), *(seconds_text(row[key]) for key in ("seconds", "exposed", "overlap")))
              for one in classes for row in one["by_group"]]  # fmt: skip
    shown, more = groups[:_ROWS], len(groups) - _ROWS
    title = "Communication" + (f" (the first {_ROWS} of {len(groups)} rows)" if more > 0 else "")
    made.append(table(title, ("ranks", "operation", "group", "links", "number", "size", "time", "exposed", "can hide behind"), shown))
    names = list(dict.fromkeys(name for one in classes if one["memory"] for name in one["memory"]["categories"]))
    if names:
        known = [(one["name"], one["memory"]) for one in classes if one["memory"]]
        sizes = [(ranks, bytes_text(memory["peak"]), *(bytes_text(memory["categories"].get(name, 0)) for name in names))
                 for ranks, memory in known]  # fmt: skip
        made.append(table("Memory at the peak of each class of ranks", ("ranks", "peak", *names), sizes))
    more_ranks = data["ranks"]["more"]
    if more_ranks:
        made.append(f"<p>{more_ranks:,} further classes of ranks are not shown.</p>")
    return SECTION.format(tables="".join(made))
