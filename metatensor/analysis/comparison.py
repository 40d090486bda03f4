"""`compare`: what changed between two reports, read from their JSON. Pull requests and ``metatensor diff`` use it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from metatensor._core.units import bytes_text, count_text
from metatensor.analysis.sizes import SizeError, parse_bytes, parse_count

__all__ = ["Change", "Comparison", "Limit", "ReportError", "compare", "parse_limit"]

ROWS = 10
"""Modules and operators in a table."""


class ReportError(ValueError):
    """A file is not a report, or two reports cannot be compared. The message states the reason."""


def seconds_text(value: float) -> str:
    """Return a time with four significant digits: ``1.234 ms``."""
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if abs(value) * factor >= 1:
            return f"{value * factor:.4g} {unit}"
    return f"{value * 1e6:.4g} us"


TEXT: dict[str, Callable[[Any], str]] = {"bytes": bytes_text, "FLOPs": count_text, "": count_text, "seconds": seconds_text}
"""Functions that format a figure, by unit."""

INFERENCE, TRAINING = "an inference", "a training step"
FIGURES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "parameters": ("parameters", "", ("parameters", "trainable_parameters + frozen_parameters")),
    "trainable": ("trainable parameters", "", ("trainable_parameters",)),
    "frozen": ("frozen parameters", "", ("frozen_parameters",)),
    "buffers": ("elements of buffers", "", ("buffers",)),
    "peak": ("peak memory", "bytes", ("total_bytes", "bytes", "peak_bytes")),
    "memory.parameters": ("memory, parameters", "bytes", ("parameter_bytes", "peak_by_category.parameter")),
    "memory.buffers": ("memory, buffers", "bytes", ("buffer_bytes", "peak_by_category.buffer")),
    "memory.inputs": ("memory, inputs", "bytes", ("input_bytes", "peak_by_category.input")),
    "memory.activations": ("memory, activations at their peak", "bytes", ("peak_activation.bytes",)),
    "memory.gradients": ("memory, gradients", "bytes", ("gradient_bytes", "peak_by_category.gradient")),
    "memory.optimizer": ("memory, optimizer state", "bytes", ("optimizer_bytes", "peak_by_category.optimizer state")),
    "memory.saved": ("memory, saved for backward", "bytes", ("saved_bytes", "peak_by_category.saved for backward")),
    "memory.temporary": ("memory, temporary", "bytes", ("peak_by_category.temporary",)),
    "memory.forward": ("memory, forward at its peak", "bytes", ("forward_peak",)),
    "memory.backward": ("memory, backward at its peak", "bytes", ("backward_peak",)),
    "memory.step": ("memory, optimizer's temporary tensors", "bytes", ("step_peak",)),
    "flops": ("FLOPs", "FLOPs", ("flops",)),
    "flops.forward": ("FLOPs, forward", "FLOPs", ("forward_flops",)),
    "flops.backward": ("FLOPs, backward", "FLOPs", ("backward_flops",)),
    "flops.recompute": ("FLOPs, computed again", "FLOPs", ("recompute_flops",)),
    "flops.optimizer": ("FLOPs, optimizer", "FLOPs", ("optimizer_flops",)),
    "time": ("time", "seconds", ("time.seconds",)),
    "time.forward": ("time, forward", "seconds", ("time.forward",)),
    "time.backward": ("time, backward", "seconds", ("time.backward",)),
    "time.recompute": ("time, computed again", "seconds", ("time.recompute",)),
    "time.optimizer": ("time, optimizer", "seconds", ("time.optimizer",)),
}
"""Label, unit and keys in reports of each figure, by the name that a threshold uses."""
SETTINGS = ("model", "inputs", "optimizer", "precision", "recompute", "grad_accumulation", "time.device")


@dataclass(frozen=True)
class Change:
    """A figure before and after a change. It is None if a report lacks it."""

    name: str
    label: str
    unit: str
    """``"bytes"``, ``"FLOPs"``, ``"seconds"``, or ``""`` for a count."""
    before: float | None
    after: float | None
    absent: str = ""
    """``"before"`` or ``"after"`` if the module or operator is missing there; its figure is then 0."""

    @property
    def change(self) -> float | None:
        """The difference, None if one side is unknown."""
        return None if self.before is None or self.after is None else self.after - self.before

    @property
    def percent(self) -> float | None:
        """The difference in percent of the figure before, None if unknown or if that figure is 0."""
        return None if self.change is None or not self.before else 100 * self.change / self.before

    def cells(self) -> tuple[str, str, str, str, str]:
        """Return the row of a table: label, before, after, change, percent."""
        text = TEXT[self.unit]
        change = "unknown" if self.change is None else f"{'+' if self.change > 0 else ''}{text(self.change)}"
        percent = "" if self.percent is None else f"{self.percent:+.2f}%" if abs(self.percent) < 9.995 else f"{self.percent:+,.1f}%"
        sides = [
            "absent" if self.absent == side else "unknown" if value is None else text(value)
            for side, value in (("before", self.before), ("after", self.after))
        ]
        return (self.label, sides[0], sides[1], change, percent)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON types."""
        return {**vars(self), "change": self.change, "percent": self.percent}


@dataclass(frozen=True)
class Limit:
    """A limit on the growth of a figure, such as ``peak>5%`` or ``parameters>0``."""

    text: str
    name: str
    amount: float
    relative: bool
    """Whether ``amount`` is in percent of the figure before."""

    def excess(self, change: Change) -> str | None:
        """Return why a change is not within the limit, or None if it is."""
        if change.before is None or change.after is None:
            side = "before and after" if change.before is change.after else "before" if change.before is None else "after"
            return f"{self.text}: {change.label} cannot be tested, because it is unknown {side}"
        growth = change.after - change.before
        allowed = change.before * self.amount / 100 if self.relative else self.amount
        if growth <= max(allowed, 0):
            return None
        _, before, after, grown, percent = change.cells()
        return f"{self.text}: {change.label} grew from {before} to {after} ({grown}{', ' + percent if percent else ''})"


@dataclass
class Comparison:
    """What changed between two reports. ``str()`` gives a table, `markdown` one for comments on pull requests."""

    kind: str
    """``"an inference"`` or ``"a training step"``."""
    figures: list[Change]
    """All figures that a report has, in a fixed order."""
    modules: list[Change] = field(default_factory=list)
    """Parameters and FLOPs of the modules that changed, without their submodules, the greatest change first."""
    operators: list[Change] = field(default_factory=list)
    """FLOPs and predicted time of the operators that changed, the greatest change first."""
    remarks: list[str] = field(default_factory=list)
    """Settings that differ, and what the reports lack."""
    exceeded: list[str] = field(default_factory=list)
    """The limits that are exceeded or cannot be tested, and why."""

    def figure(self, name: str) -> Change:
        """Return the change of the figure with a name, such as ``"peak"``. Raise KeyError if there is no such name."""
        for change in self.figures:
            if change.name == name:
                return change
        label, unit, _ = FIGURES[name]
        return Change(name, label, unit, None, None)

    def apply(self, limits: Iterable[Limit]) -> list[str]:
        """Test limits. Return, and keep in `exceeded`, those that are exceeded or cannot be tested."""
        self.exceeded = [why for limit in limits if (why := limit.excess(self.figure(limit.name))) is not None]
        return self.exceeded

    @property
    def changed(self) -> list[Change]:
        """The figures that differ, or that only one report has."""
        return [change for change in self.figures if change.before != change.after]

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as JSON types. Unknown figures are null."""
        lists = {name: [change.to_dict() for change in getattr(self, name)] for name in ("figures", "modules", "operators")}
        return {"comparison": self.kind, **lists, "remarks": self.remarks, "exceeded": self.exceeded}

    def tables(self) -> list[tuple[str, list[Change]]]:
        """Return the tables as pairs of a title and its rows."""
        found = [("figure", self.changed)]
        for title, rows in (("module, without submodules", self.modules), ("operator", self.operators)):
            found.append((title if len(rows) <= ROWS else f"{title} ({ROWS} of {len(rows)})", rows[:ROWS]))
        return [(title, rows) for title, rows in found if rows]

    def ends(self) -> list[str]:
        """Return the lines below the tables."""
        same = [f"{change.label} {change.cells()[1]}" for change in self.figures if change.before == change.after]
        lines = [f"unchanged: {', '.join(same)}"] if same else []
        return lines + self.remarks

    def __str__(self) -> str:
        lines = [f"costs of {self.kind}" + ("" if self.changed else ": nothing changed")]
        for title, rows in self.tables():
            cells = [(title, "before", "after", "change", ""), *(change.cells() for change in rows)]
            widths = [max(len(row[i]) for row in cells) for i in range(5)]
            lines.append("")
            for row in cells:
                line = f"{row[0]:<{widths[0]}}" + "".join(f"  {text:>{width}}" for text, width in zip(row[1:], widths[1:], strict=True))
                lines.append(line.rstrip())
        lines += ["", *self.ends()] if self.ends() else []
        lines += ["", *(f"over the limit {why}" for why in self.exceeded)] if self.exceeded else []
        return "\n".join(lines)

    def markdown(self) -> str:
        """Return the tables in Markdown."""
        lines = [f"### Costs of {self.kind}" + ("" if self.changed else ": nothing changed"), ""]
        lines += [*(f"- :x: over the limit {_escaped(why)}" for why in self.exceeded), ""] if self.exceeded else []
        for title, rows in self.tables():
            lines += [f"| {title} | before | after | change | % |", "|---|---:|---:|---:|---:|"]
            lines += ["| " + " | ".join(map(_escaped, change.cells())) + " |" for change in rows]
            lines.append("")
        lines += [f"- {_escaped(line)}" for line in self.ends()]
        return "\n".join(lines).rstrip()


def _escaped(text: str) -> str:
    """Return a text as one line of Markdown, with all markup escaped."""
    return re.sub(r"([\\`*_{}\[\]<>|#@~])", r"\\\1", " ".join(text.split()))


def compare(before: dict[str, Any], after: dict[str, Any]) -> Comparison:
    """Compare two reports: results of ``to_dict``, or the JSON of ``metatensor estimate``, ``check`` or ``run --profile``.

    Parameters
    ----------
    before, after : dict
        The reports: both of an inference, or both of a training step.

    Returns
    -------
    Comparison
        The figures of both. A figure that a report lacks is None, not 0.

    Raises
    ------
    ReportError
        If one is not a report, or if one is of an inference and the other of a training step.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor import nn
    >>> x = mt.empty(8, 512, device="meta")
    >>> reports = [mt.analysis.estimate(nn.Linear(512, n, device="meta"), x).to_dict() for n in (512, 1024)]
    >>> found = mt.analysis.compare(*reports)
    >>> found.figure("flops").percent, found.figure("time").after
    (100.0, None)
    """
    kinds = (_kind(before, "the report before"), _kind(after, "the report after"))
    if kinds[0][0] != kinds[1][0]:
        raise ReportError(f"the report before is of {kinds[0][0]} and the report after of {kinds[1][0]}; they have no figures in common")
    figures = [
        Change(name, label, unit, _figure(before, keys, "the report before"), _figure(after, keys, "the report after"))
        for name, (label, unit, keys) in FIGURES.items()
    ]
    remarks = []
    for key in SETTINGS:
        values = _found(before, key), _found(after, key)
        if values[0] != values[1]:
            remarks.append(f"{key.rpartition('.')[2]}: {_setting(values[0])} before, {_setting(values[1])} after")
    if ("script" in before) != ("script" in after):
        remarks.append("one report is of a script: it has memory by category at the peak, the other one has the maximum of each category")
    for side, report in (("before", before), ("after", after)):
        error = report.get("error")
        if isinstance(error, dict):
            remarks.append(f"{side}: the model failed, so its figures are unknown: {error.get('type')}: {error.get('message')}")
        gaps = [gap["op"] for gap in report.get("flops_gaps") or () if isinstance(gap, dict) and "op" in gap]
        if gaps:
            remarks.append(f"{side}: the FLOPs of {', '.join(map(str, gaps))} are unknown and missing from the sum")
    known = [change for change in figures if change.before is not None or change.after is not None]
    return Comparison(kinds[0][0], known, _modules(before, after), _operators(before, after), remarks)


def parse_limit(text: str) -> Limit:
    """Parse a limit on the growth of a figure: ``peak>5%``, ``memory.saved>100MB``, ``parameters>0``, ``time>2ms``."""
    name, sign, amount = (part.strip() for part in text.partition(">"))
    if not sign or not amount:
        raise SizeError(f"{text!r} is not of the form FIGURE>AMOUNT, such as peak>5% or parameters>0")
    if name not in FIGURES:
        raise SizeError(f"{text!r}: there is no figure {name!r}; there are {', '.join(FIGURES)}")
    unit = FIGURES[name][1]
    if amount.endswith("%"):
        match = re.fullmatch(r"\d+(\.\d+)?|\.\d+", amount[:-1].strip())
        if match is None:
            raise SizeError(f"{text!r}: {amount!r} is not a percentage")
        return Limit(text, name, float(match[0]), True)
    if unit == "seconds":
        match = re.fullmatch(r"(\d+(?:\.\d+)?|\.\d+)\s*(s|ms|us)?", amount)
        if match is None or (match[2] is None and float(match[1])):
            raise SizeError(f"{text!r}: {amount!r} is not a time; expected a number such as 5ms or 0.2s")
        return Limit(text, name, float(Fraction(match[1])) * {"s": 1.0, "ms": 1e-3, "us": 1e-6}[match[2] or "s"], False)
    value = parse_bytes(amount) if unit == "bytes" else parse_count(amount, "flops" if unit == "FLOPs" else "")
    return Limit(text, name, value, False)


# Reading reports ----------------------------------------------------------------------------


def _kind(report: Any, side: str) -> tuple[str, str]:
    """Return the kind of a report, and the command that wrote it."""
    if isinstance(report, dict):
        if "backward_flops" in report and ("optimizer_bytes" in report or "peak_by_category" in report):
            return TRAINING, "training"
        if "peak_activation" in report and "modules" in report:
            return INFERENCE, "estimate"
        if "ok" in report and "over_budget" in report:
            return INFERENCE, "check"
    raise ReportError(f"{side} is not a report of 'metatensor estimate --json' or 'metatensor check --json'")


def _found(report: Any, key: str) -> Any:
    for part in key.split("."):
        if not isinstance(report, dict):
            return None
        report = report.get(part)
    return report


def _figure(report: dict[str, Any], keys: tuple[str, ...], side: str) -> float | None:
    for key in keys:
        parts = [_number(_found(report, each), each, side) for each in key.split(" + ")]
        if None not in parts:
            return sum(part for part in parts if part is not None)
    return None


def _number(value: Any, key: str, side: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ReportError(f"{side} has {value!r:.40} for {key!r}; expected a number")
    return value


def _setting(value: Any) -> str:
    text = value if isinstance(value, str) else "unknown" if value is None else repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _modules(before: dict[str, Any], after: dict[str, Any]) -> list[Change]:
    """Return the changes of modules, without their submodules."""
    if not (isinstance(before.get("modules"), list) and isinstance(after.get("modules"), list)):
        return []
    return _changes(_own(before["modules"], "the report before"), _own(after["modules"], "the report after"))


def _own(rows: list[Any], side: str) -> dict[tuple[str, str], float]:
    """Return the parameters and FLOPs of each module without its submodules, by path and unit."""
    own: dict[tuple[str, str], float] = {}
    flops: dict[str, float] = {}
    for row in rows:
        if not isinstance(row, dict) or not isinstance(row.get("path"), str):
            raise ReportError(f"{side} has an entry of 'modules' without a path")
        path = row["path"]
        if (count := _number(row.get("own_parameters"), "own_parameters", side)) is not None:
            own[path, ""] = count
        if (count := _number(row.get("flops"), "flops", side)) is not None:
            flops[path] = count
    for path, count in flops.items():
        own[path, "FLOPs"] = own.get((path, "FLOPs"), 0) + count
        above = path
        while above:
            above = above.rpartition(".")[0]
            if above in flops:
                own[above, "FLOPs"] = own.get((above, "FLOPs"), 0) - count
                break
    return own


def _operators(before: dict[str, Any], after: dict[str, Any]) -> list[Change]:
    """Return the changes of operators."""
    sides = []
    for report, side in ((before, "the report before"), (after, "the report after")):
        values: dict[tuple[str, str], float] = {}
        for unit, key in (("FLOPs", "flops_by_op"), ("seconds", "time.by_op")):
            table = _found(report, key)
            if isinstance(table, dict):
                numbers = {(name, unit): _number(value, f"{key}.{name}", side) for name, value in table.items()}
                values |= {entry: value for entry, value in numbers.items() if value is not None}
        sides.append((values, {unit for _, unit in values}))
    units = sides[0][1] & sides[1][1]  # times of operators can be compared only if both reports have times
    return _changes(*({key: value for key, value in values.items() if key[1] in units} for values, _ in sides))


def _changes(before: dict[tuple[str, str], float], after: dict[tuple[str, str], float]) -> list[Change]:
    """Return the entries that differ, ordered by their share of the total in their unit. A new entry counts as 0 before."""
    total: dict[str, float] = {}
    for table in (before, after):
        for (_, unit), value in table.items():
            total[unit] = total.get(unit, 0) + abs(value)
    labels = {"": "parameters", "FLOPs": "FLOPs", "seconds": "time"}
    changes = []
    for name, unit in {**before, **after}:
        pair = before.get((name, unit), 0), after.get((name, unit), 0)
        if pair[0] != pair[1]:
            absent = "" if (name, unit) in before and (name, unit) in after else "after" if (name, unit) in before else "before"
            changes.append(Change(name, f"{name or '(the model itself)'}: {labels[unit]}", unit, *pair, absent))
    changes.sort(key=lambda change: -abs(change.change or 0) / (total[change.unit] or 1))
    return changes
