"""The cost of a script's training steps: the report of ``metatensor run --device meta --profile``."""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections import Counter
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import click

from metatensor._core.memory_events import MemoryEvent
from metatensor._core.units import bytes_text, count_text
from metatensor.analysis.describe import relative
from metatensor.analysis.profiling import CATEGORIES, StorageRecord
from metatensor.analysis.report import CONVENTION, EXCLUDED
from metatensor.analysis.step_time import StepTime, step_time
from metatensor.checkpoint.atomic import replacing
from metatensor.checkpoint.errors import printable
from metatensor.cli.contents import printable_lines
from metatensor.cli.planned.steps import RECORDED, Recorded, StepRecorder
from metatensor.rules.policies import META, KernelPolicy, policy_named, policy_of_profile

__all__ = ["Costs", "ScriptReport", "StepCosts", "report_of"]

ROWS = 5
PHASES = ("forward", "backward", "optimizer")


@dataclass
class StepCosts:
    """The costs of one step: from the end of the previous step to the end of its last call of ``optimizer.step``."""

    peak: int
    """The most bytes alive at once."""
    at: int
    """The position of the event at which the peak was reached, -1 before the first one."""
    flops: dict[str, int]
    """Floating-point operations by phase."""
    updates: int
    """Calls of ``optimizer.step``."""
    time: StepTime | None = None

    @property
    def total(self) -> int:
        """Floating-point operations of all phases."""
        return sum(self.flops.values())

    @property
    def figures(self) -> tuple[Any, ...]:
        """What distinguishes steps."""
        return self.peak, *self.flops.values(), self.updates, self.seconds

    @property
    def seconds(self) -> str:
        """The predicted time as text, empty if no device is given."""
        return "" if self.time is None else dict(self.time.lines())["time of a step"]


@dataclass
class ScriptReport:
    """The cost of a script's training steps. ``str()`` gives a table. Memory is in bytes."""

    script: str
    steps: list[StepCosts]
    shown: int
    """The position of the step that the figures describe: of the steps with the median FLOPs, the one with the greatest peak."""
    recognised: bool
    """Whether ``optimizer.step`` was called. If not, the only entry of `steps` is the whole run."""
    complete: bool
    """Whether all steps of the script were recorded."""
    optimizers: list[str]
    trainable_parameters: int | None
    """Elements of the parameters of modules and optimizers that were called, None if none was."""
    frozen_parameters: int | None
    by: dict[str, dict[str, int]]
    """Bytes at the peak by ``"category"``, ``"module"``, ``"operator"`` and ``"line"``."""
    place: tuple[str, str, str | None]
    """The operator, the module and the line at which the peak was reached."""
    run_peak: int
    """The most bytes alive at once in the whole recording, including the time before and after the steps."""
    host_peak: int | None
    """Peak bytes of tensors on the host, which the other figures exclude; None if they include it."""
    flops_by_op: dict[str, int] = field(default_factory=dict)
    policy: str = "meta"
    """Name of the kernel policy."""

    @property
    def step(self) -> StepCosts:
        """The step that the figures describe."""
        return self.steps[self.shown]

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as JSON types. `compare` takes the result."""
        step, (op, module, location) = self.step, self.place
        return {
            "script": self.script, "steps_recognised": self.recognised, "optimizer": ", ".join(self.optimizers) or None,
            "trainable_parameters": self.trainable_parameters, "frozen_parameters": self.frozen_parameters,
            "total_bytes": step.peak, "peak": {"bytes": step.peak, "op": op, "module": module, "location": location},
            **{f"peak_by_{by}": found for by, found in self.by.items()},
            "peak_by_category": {name: self.by["category"].get(name, 0) for name in CATEGORIES},
            **{f"{phase}_flops": step.flops[phase] for phase in PHASES}, "flops": step.total, "flops_by_op": self.flops_by_op,
            "flops_convention": CONVENTION, "time": None if step.time is None else step.time.to_dict(), "step": self.shown + 1,
            "steps": [
                {"peak_bytes": each.peak, **{f"{phase}_flops": each.flops[phase] for phase in PHASES}, "optimizer_steps": each.updates,
                 "seconds": None if each.time is None else each.time.seconds}
                for each in self.steps
            ],
            "all_steps": self.complete, "run_peak_bytes": self.run_peak, "host_peak_bytes": self.host_peak,
            "policy": self.policy, "excluded": list(EXCLUDED),
        }  # fmt: skip

    def lines(self) -> list[tuple[str, str]]:
        """Return the table as (label, text) pairs."""
        counts = {"trainable parameters": self.trainable_parameters, "frozen parameters": self.frozen_parameters}
        lines = [(name, "unknown" if count is None else count_text(count)) for name, count in counts.items()]
        at_peak = self.by["category"]
        lines += [(f"at the peak, {name}", bytes_text(at_peak[name])) for name in CATEGORIES if at_peak.get(name)]
        lines.append(("peak memory", bytes_text(self.step.peak)))
        lines += [(f"FLOPs, {phase}", count_text(self.step.flops[phase])) for phase in PHASES]
        return lines if self.step.time is None else lines + self.step.time.lines()

    def notes(self) -> list[str]:
        """Return where the peak was reached, and what the figures leave out."""
        op, module, line = self.place
        notes = []
        if op:
            inside, at = f" in {module}" if module else "", f" at {relative(line)}" if line else ""
            notes.append(f"peak: {bytes_text(self.step.peak)} during {op}{inside}{at}")
        for by in ("module", "operator", "line"):
            if by == "module" and list(self.by[by]) == [""]:
                continue
            shown = relative if by == "line" else str
            rows = [f"{shown(name) if name else '(none)'} {bytes_text(size)}" for name, size in self.by[by].items()]
            notes.append(f"at the peak, by {by}: {', '.join(rows[:ROWS])}" + (f" and {len(rows) - ROWS} more" if len(rows) > ROWS else ""))
        if self.run_peak > self.step.peak:
            notes.append(f"greatest peak of all that was recorded, such as other steps or an evaluation: {bytes_text(self.run_peak)}")
        if self.host_peak is None:
            notes.append("the script moved no tensor to a GPU: all its tensors count, and data that stays on the host is among them")
        elif self.host_peak:
            notes.append(f"not included: tensors that the script has on the host, at most {bytes_text(self.host_peak)}")
        if self.policy != META.name:
            notes += policy_named(self.policy).notes()
        if not self.complete:
            notes.append(f"only the first {RECORDED} steps were recorded")
        notes += [f"FLOPs: {CONVENTION}", f"not included: {', '.join(EXCLUDED)}"]
        return notes if self.step.time is None else notes + self.step.time.notes()

    def table(self) -> list[str]:
        """Return a table of the steps, in which consecutive equal steps share a line."""
        titles = ("step", "optimizer.step", "peak memory", *(f"FLOPs, {phase}" for phase in PHASES), "time")
        rows = [titles if self.step.time is not None else titles[:-1]]
        for _, group in groupby(enumerate(self.steps, 1), lambda pair: pair[1].figures):
            same = list(group)
            (first, step), last = same[0], same[-1][0]
            row = (str(first) if first == last else f"{first} to {last}", f"{step.updates} times" if step.updates > 1 else "once",
                   bytes_text(step.peak), *(count_text(step.flops[phase]) for phase in PHASES), step.seconds)  # fmt: skip
            rows.append(row[: len(rows[0])])
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        return ["  ".join(f"{text:>{width}}" for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]

    def __str__(self) -> str:
        if self.recognised:
            head = f"{self.script}: training step {self.shown + 1} of {len(self.steps)} recorded, with {', '.join(self.optimizers)}"
        else:
            head = f"{self.script}: the whole run, because it did not call optimizer.step in its main thread"
        lines = self.lines()
        width = max(28, *(len(name) + 2 for name, _ in lines))
        parts = [head, "", *(f"{name:<{width}}{text:>12}" for name, text in lines), "", *self.notes()]
        return "\n".join([*parts, "", *self.table()] if self.recognised else parts)


class Costs:
    """The recording of a script's steps and the options of its report.

    Each process that the script starts has its own, and prints its report if it has made training steps.
    """

    def __init__(self, script: str, steps: int | None, device: Any, json_file: str | None) -> None:
        self.script, self.steps, self.device, self.json_file = script, steps, device, json_file
        self.recorder = StepRecorder(steps)
        self._child = False
        self._before = 0
        self._file = self._changed()

    def options(self) -> tuple[Any, ...]:
        """Return the arguments of the constructor."""
        return self.script, self.steps, self.device, self.json_file

    @property
    def kernels(self) -> KernelPolicy:
        """The kernel policy of the run: that of the device, if it has one of its own. Calls of a CPU are timed as on meta."""
        return META if self.device is None or self.device.backend == "cpu" else policy_of_profile(self.device)

    @classmethod
    def asked(cls, script: str, steps: int | None, target: str | None, json_file: str | None) -> Costs:
        """Return the recording that the command line requests. Raise a usage error if there is no such device profile."""
        from metatensor.devices.profiles import ProfileError, device_profile

        try:
            device = None if target is None else device_profile(target)
        except ProfileError as error:
            raise click.BadParameter(printable(str(error)), param_hint="--device-profile") from None
        return cls(script, steps, device, None if json_file is None else os.path.abspath(json_file))

    def begin_child(self) -> None:
        """Mark this process as a child. It has a report only if it makes steps of its own."""
        self._child, self._before = True, len(self.recorder.updates)

    def report(self) -> None:
        """Print the report to stderr, and write the JSON file."""
        if self._child and len(self.recorder.updates) <= self._before:
            return
        found = report_of(self.script, self.recorder.stop(), self.device, self.kernels)
        if found is None:
            print("metatensor: nothing to report: the script ran no operator in its main thread", file=sys.stderr, flush=True)
            return
        print(f"\n{printable_lines(str(found))}", file=sys.stderr, flush=True)
        if self.json_file is not None and (found.recognised or self._file == self._changed()):
            try:
                with replacing(self.json_file) as file:
                    file.write(json.dumps(found.to_dict(), indent=2).encode())
            except OSError as error:
                raise click.ClickException(printable(f"{self.json_file} cannot be written: {error.strerror}")) from None


    def _changed(self) -> int | None:
        """Return when the JSON file was changed last. A child process with training steps writes it before its parent."""
        try:
            return None if self.json_file is None else os.stat(self.json_file).st_mtime_ns
        except OSError:
            return None


def report_of(script: str, recorded: Recorded, device: Any = None, kernels: KernelPolicy = META) -> ScriptReport | None:
    """Return the report of a recording, with predicted times if a device profile is given; None if nothing ran."""
    profile = recorded.profile
    events, host = profile.events, recorded.host or set()
    aside = set() if recorded.host is None else recorded.host_calls
    if not events and not recorded.calls:
        return None
    ends = [(step[-1].events, step[-1].calls, len(step)) for step in recorded.steps]
    recognised = bool(ends)
    if not recognised:
        ends = [(recorded.rest.events, recorded.rest.calls, 0)]
    peaks, run_peak, host_peak = _peaks(events, host, [end for end, _, _ in ends])
    steps, before = [], 0
    for (peak, at), (_, calls, updates) in zip(peaks, ends, strict=True):
        mine = [call for i, call in enumerate(recorded.calls[before:calls], before) if i not in aside]
        flops = {phase: sum(call.flops for call in mine if call.phase == phase) for phase in PHASES}
        seconds = None if device is None else step_time(device, mine, None, 1, None, ((), {}), "torch")
        steps.append(StepCosts(peak, at, flops, updates, seconds))
        before = calls
    usual = statistics.median_low(step.total for step in steps)  # others contain an evaluation, or are parts of a step
    shown = max((i for i, step in enumerate(steps) if step.total == usual), key=lambda i: (steps[i].peak, i))
    at = steps[shown].at
    first, last = (ends[shown - 1][1] if shown else 0), ends[shown][1]
    by_op: Counter[str] = Counter()
    for i, call in enumerate(recorded.calls[first:last], first):
        if call.flops and i not in aside:
            by_op[call.op] += call.flops
    place = profile._place(events[at].operator) if at >= 0 else ("", "", None)
    counts = [sum(p.numel() for p in recorded.parameters if p.requires_grad is wanted) if recorded.parameters else None
              for wanted in (True, False)]  # fmt: skip
    return ScriptReport(
        os.path.basename(script), steps, shown, recognised, not recorded.cut,
        recorded.optimizers, counts[0], counts[1], _at_peak(recorded, at, host), place, run_peak,
        None if recorded.host is None else host_peak, dict(by_op.most_common()), kernels.name,
    )  # fmt: skip


def _peaks(events: list[MemoryEvent], host: set[int], ends: list[int]) -> tuple[list[tuple[int, int]], int, int]:
    """Return the peak bytes in each part of a log, with the position of its event, the overall peak, and the peak on the host."""
    now = aside = most = most_aside = first = 0
    peaks = []
    for end in (*ends, len(events)):
        highest, at = now, first - 1
        for i in range(first, end):
            event = events[i]
            if event.storage in host:
                aside += event.change
                most_aside = max(most_aside, aside)
                continue
            now += event.change
            if now > highest:
                highest, at = now, i
        peaks.append((highest, at))
        most = max(most, highest)
        first = end
    return peaks[: len(ends)], most, most_aside


def _at_peak(recorded: Recorded, at: int, host: set[int]) -> dict[str, dict[str, int]]:
    """Return what was alive after an event, by category, module, operator and line."""
    alive: Counter[int] = Counter()
    for event in recorded.profile.events[: at + 1]:
        if event.storage not in host:
            alive[event.storage] += event.change
    totals: dict[str, Counter[str]] = {by: Counter() for by in ("category", "module", "operator", "line")}
    for record in recorded.profile.storages:
        size = alive.get(record.number, 0)
        if size:
            totals["category"][_category(record, recorded.inputs)] += size
            for by in ("module", "operator", "line"):
                totals[by][getattr(record, by) or ""] += size
    return {by: dict(total.most_common()) for by, total in totals.items()}


def _category(record: StorageRecord, inputs: set[int]) -> str:
    """Return the category of a storage. A tensor that a script created outside of modules and passed to one is an input."""
    given = record.number in inputs and not record.module and record.category in ("temporary", "saved for backward")
    return "input" if given else record.category
