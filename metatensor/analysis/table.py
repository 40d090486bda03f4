"""Format a report as a table with totals below, in plain text or for rich. Repeated layers share a line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from metatensor._core.units import bytes_text, count_text
from metatensor.analysis.accuracy import band
from metatensor.analysis.assumptions import notes
from metatensor.analysis.describe import relative, spec_text
from metatensor.analysis.report import CONVENTION, EXCLUDED, ModuleRow, Report

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["as_rich", "as_text", "lines", "totals"]

HEADINGS = ("module", "type", "output", "parameters", "FLOPs")
OUTPUT_WIDTH = 44
MAX_LINES = 60
"""Maximum number of lines of a table. If there are more, the deepest modules are omitted."""


@dataclass
class Group:
    """Adjacent modules with the same parent that look the same in the table. One of them represents all."""

    row: ModuleRow
    names: list[str]
    children: list[Group] = field(default_factory=list)

    def key(self) -> tuple:
        """Return a key that is equal for two groups if they look the same except for their names."""
        row = self.row
        children = tuple((len(child.names), child.names[0], child.key()) for child in self.children)
        return row.kind, row.parameters, row.buffers, row.flops, spec_text(row.output), children


def _tree(report: Report) -> Group:
    """Return the rows as a tree of groups."""
    stack: list[Group] = []
    root = None
    for row in report.modules:
        group = Group(row, [row.path.rpartition(".")[2]])
        del stack[row.depth :]
        if stack:
            stack[-1].children.append(group)
        else:
            root = group
        stack.append(group)
    assert root is not None
    _fold(root)
    return root


def _fold(group: Group) -> None:
    """Merge equal adjacent groups, from the leaves up."""
    folded: list[Group] = []
    previous = None
    for child in group.children:
        _fold(child)
        key = child.key()
        if key == previous:
            folded[-1].names += child.names
        else:
            folded.append(child)
        previous = key
    group.children = folded


def _walk(group: Group, times: int, depth: int) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the depth and cells of each group's line, down to ``depth``. Figures are sums over the group's modules."""
    row = group.row
    names = group.names
    name = _names(names)
    times *= len(names)
    kind = f"{row.kind} x {len(names)}" if len(names) > 1 else row.kind
    parameters = f"{row.parameters * times:,}" if row.parameters else ""
    flops = count_text(row.flops * times) if row.flops else ""
    yield row.depth, (name or row.kind, kind if name else "", _cut(spec_text(row.output)), parameters, flops)
    if row.depth < depth:
        for child in group.children:
            yield from _walk(child, times, depth)


def _names(names: list[str]) -> str:
    """Return the text for a group's names: ``0-47`` for numbers, else ``query, key, value``."""
    if len(names) > 1 and names[0].isdecimal() and names[-1].isdecimal():
        return f"{names[0]}-{names[-1]}"
    return ", ".join(names) if len(names) < 4 else f"{names[0]}, ..., {names[-1]}"


def lines(report: Report, depth: int | None = None) -> list[tuple[int, tuple[str, ...]]]:
    """Return the table's lines: each module's depth, and its cells in the order of `HEADINGS`.

    ``depth`` is the greatest depth to show. By default it is as large as `MAX_LINES` allows, but at least 1.
    """
    root = _tree(report)
    if depth is not None:
        return list(_walk(root, 1, depth))
    deepest = max(row.depth for row in report.modules)
    for limit in range(deepest, 0, -1):
        found = list(_walk(root, 1, limit))
        if len(found) <= MAX_LINES:
            return found
    return list(_walk(root, 1, min(1, deepest)))


def totals(report: Report) -> list[tuple[str, str]]:
    """Return the lines below the table as (label, text) pairs."""
    found = [("parameters", f"{report.parameters:,} ({bytes_text(report.parameter_bytes)})")]
    for group in report.shared[:5]:
        found.append(("  shared", f"{' = '.join(group.names[:4])} ({bytes_text(group.bytes)}, counted once)"))
    if len(report.shared) > 5:
        found.append(("  shared", f"and {len(report.shared) - 5} groups more"))
    if report.buffers:
        found.append(("buffers", f"{report.buffers:,} ({bytes_text(report.buffer_bytes)})"))
    found.append(("inputs", f"{', '.join(map(spec_text, report.inputs))} ({bytes_text(report.input_bytes)})"))
    found.append(("output", spec_text(report.output)))
    found.append(("FLOPs", f"{report.flops:,} ({count_text(report.flops)}; {CONVENTION})"))
    for gap in report.gaps:
        found.append(("  missing", f"{gap.op} has no FLOP rule; called {gap.calls} times in {', '.join(gap.modules[:3]) or 'the model'}"))
    peak = report.peak
    where = ""
    if peak.op is not None:
        where = f" at {peak.op} in {peak.module or 'the model itself'}"
        if peak.location is not None:
            where += f" ({relative(peak.location)})"
    found.append(("activations", f"{bytes_text(peak.bytes)} at their peak{where}"))
    found.append(("memory", f"{bytes_text(report.total_bytes)} for parameters, buffers, inputs and activations"))
    found += [("  assumed", note) for note in notes(report.assumptions)]
    found.append(("  leaves out", ", ".join(EXCLUDED)))
    found += [("  accuracy", str(band(kind))) for kind in ("inference memory", "FLOPs")]
    return found


def as_text(report: Report, depth: int | None = None) -> str:
    """Return the table and the totals as plain text."""
    table = [HEADINGS, *(("  " * level + cells[0], *cells[1:]) for level, cells in lines(report, depth))]
    widths = [max(len(cells[i]) for cells in table) for i in range(len(HEADINGS))]
    found = []
    for cells in table:
        left = [cells[i].ljust(widths[i]) for i in range(3)]
        right = [cells[i].rjust(widths[i]) for i in range(3, 5)]
        found.append("  ".join(left + right).rstrip())
    found.insert(1, "-" * (sum(widths) + 2 * len(widths) - 2))
    labels = totals(report)
    width = max(len(label) for label, _ in labels)
    found += ["", *(f"{label.ljust(width)}  {text}" for label, text in labels)]
    return "\n".join(found)


def as_rich(report: Report, depth: int | None = None) -> RenderableType:
    """Return the table and the totals for rich, which fits them to the terminal."""
    from rich import box
    from rich.console import Group as Stack
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for index, heading in enumerate(HEADINGS):
        table.add_column(heading, justify="right" if index > 2 else "left", overflow="fold", no_wrap=index in (0, 3, 4))
    for level, (name, *cells) in lines(report, depth):
        style = "bold" if level == 0 else "dim" if not cells[2] and not cells[3] else ""
        table.add_row(Text("  " * level + name), *(Text(cell) for cell in cells), style=style)
    summary = Table.grid(padding=(0, 2))
    for label, text in totals(report):
        summary.add_row(Text(label, style="red" if label == "  missing" else "cyan"), Text(text))
    return Stack(table, summary)


def _cut(text: str) -> str:
    return text if len(text) <= OUTPUT_WIDTH else text[: OUTPUT_WIDTH - 3] + "..."
