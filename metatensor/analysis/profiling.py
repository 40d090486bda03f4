"""`profile`: run any callable and report the memory in use over time, by category, module, operator and source line."""

from __future__ import annotations

import json
import os
import sys
import threading
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from metatensor._core.accounting import HeldStorages
from metatensor._core.attribution import Attribution
from metatensor._core.memory import MemoryLog
from metatensor._core.memory_events import MemoryEvent
from metatensor._core.nested import tensors_in
from metatensor._core.source_locations import is_ours
from metatensor._core.units import bytes_text
from metatensor.analysis.inventory import Inventory
from metatensor.analysis.report import SCHEMA, ModuleRow
from metatensor.analysis.timeline import before_peak, by_module, chart, living, outside_modules, source_text
from metatensor.nn._following import Follower, ModulePaths
from metatensor.nn._referenced import referenced_modules
from metatensor.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

if TYPE_CHECKING:
    from metatensor.analysis.allocator import AllocatorReport, AllocatorSettings

__all__ = ["CATEGORIES", "Profile", "StorageRecord", "profile"]

CATEGORIES = ("parameter", "buffer", "input", "gradient", "optimizer state", "saved for backward", "communication", "output", "temporary")
"""What a storage is for. Communication: what the collectives of `metatensor.distributed` make."""
_HELD = ("parameter", "buffer", "gradient", "optimizer state", "input", "output")
"""The categories that follow from what refers to a storage after a run. If several fit, the first one is used."""
EXCLUDED = ("rounding of an allocator", "workspaces of kernels", "context of a device")
_POINTS = 1000  # of the timeline in `to_dict`
_ROWS = 10


class StorageRecord(NamedTuple):
    """One storage that a profiled run allocated."""

    number: int
    """Later storages have greater numbers."""
    nbytes: int
    """Its greatest size in bytes."""
    category: str
    """One of `CATEGORIES`."""
    operator: str
    """The operator that allocated it, or ``""``."""
    module: str
    """The path of the module that was running, ``""`` outside modules. In a backward pass: of the module whose operator the gradient
    belongs to."""
    line: str | None
    """``file:line`` of the user's code that called the operator. ``"the default loss"`` for that of `estimate_training`."""
    born: int
    """The event of its allocation, an index of `Profile.events`."""
    died: int | None
    """The event of its release, or None if it outlived the run."""


class Profile:
    """The memory in use during a run, as `profile` returns it. ``str()`` gives a table.

    All figures are bytes of storages on all devices: without an allocator's rounding, the context of a device, and workspaces of kernels.

    Attributes
    ----------
    result : Any
        What the callable returned.
    """

    def __init__(self, run: _Run, result: Any) -> None:
        self.result = result
        self._held = run.collected(result)
        self._log, self._attribution = run.log, run.attribution
        self._paths, self._steps, self._labels = run.paths, run.steps, run.labels
        self._roots = run.roots
        self._caller: str | None = None
        self._needs_grad = any(t.requires_grad for t in tensors_in(result))
        self._at, self._most = run.log.highest()

    # Figures ------------------------------------------------------------------------------------

    @cached_property
    def _sorted(self) -> tuple[dict[int, str], dict[str, list[int]]]:
        """The categories of storages that the run made, by number, and the sizes of those that existed before, by category."""
        known, before = self._held.sorted(self._log.first_storage, _HELD)
        before.pop("output", None)
        return known, before

    @property
    def resident(self) -> dict[str, int]:
        """The bytes that existed before the run and were used by it, by category."""
        return {category: sum(sizes) for category, sizes in self._sorted[1].items() if sum(sizes)}

    @property
    def peak(self) -> int:
        """The most bytes alive at once, including those that existed before."""
        return self._most + sum(self.resident.values())

    @property
    def made_peak(self) -> int:
        """The most bytes alive at once that the run allocated, as `MemoryTracker` counts."""
        return self._most

    @cached_property
    def events(self) -> list[MemoryEvent]:
        """Allocations ("birth"), resizes and releases ("death") of storages, in order."""
        return list(self._log.events())

    @cached_property
    def modules(self) -> list[ModuleRow]:
        """The modules that ran or that the callable refers to, depth first, with their parameters and the bytes that they allocated.

        Several independent modules are below a first row without a path.
        """
        rows = [row for root in self._roots for row in _rows(root, len(self._roots) > 1)]
        if len(self._roots) != 1:
            top = [row for row in rows if row.depth == 1]
            names = ("parameters", "buffers", "parameter_bytes", "buffer_bytes")
            rows.insert(0, ModuleRow("", "whole run", 0, **{name: sum(getattr(row, name) for row in top) for name in names}))
        by_module(self, rows)
        return rows

    @cached_property
    def storages(self) -> list[StorageRecord]:
        """The storages that the run allocated, in order."""
        size: dict[int, int] = {}
        now: dict[int, int] = {}
        born: dict[int, int] = {}
        died: dict[int, int] = {}
        ends: dict[int, int] = {}
        for i, event in enumerate(self.events):
            if event.kind == "birth":
                born[event.storage] = i
                now[event.storage] = size[event.storage] = event.change
            elif event.kind == "resize":
                now[event.storage] += event.change
                size[event.storage] = max(size[event.storage], now[event.storage])
            else:
                died[event.storage] = i
            if event.walk:
                ends[event.walk] = i
        made = []
        for number, first in born.items():
            operator, module, line = self._place(self.events[first].operator)
            category = self._category(number, first, died.get(number))
            made.append(StorageRecord(number, size[number], category, operator, module, line, first, died.get(number)))
        return made

    @cached_property
    def _collectives(self) -> tuple[list[int], list[int]]:
        """The numbers of the first and last operators of collectives, in order. Collectives inside of others are left out."""
        starts: list[int] = []
        ends: list[int] = []
        for first, last in sorted(self._attribution.collectives):
            if not ends or last > ends[-1]:
                starts.append(first)
                ends.append(last)
        return starts, ends

    def _in_collective(self, operator: int) -> bool:
        """Return whether an operator was called by a collective."""
        starts, ends = self._collectives
        i = bisect_right(starts, operator) - 1
        return i >= 0 and operator <= ends[i]

    def timeline(self, by: str | None = None) -> list[tuple[int, int]] | list[tuple[int, dict[str, int]]]:
        """Return what is alive after each event of the run, as pairs of the operator's number and bytes.

        Parameters
        ----------
        by : str, optional
            ``"category"``, ``"operator"``, ``"module"`` or ``"line"``: return dicts of bytes instead. Default: the sum.
        """
        group = None if by is None else self._groups(by)
        if group is None:
            total, made = sum(self.resident.values()), []
            for event in self.events:
                total += event.change
                made.append((event.operator, total))
            return made
        now = Counter(self.resident) if by == "category" else Counter({"": sum(self.resident.values())})
        points = []
        for event in self.events:
            now[group[event.storage]] += event.change
            points.append((event.operator, {key: value for key, value in now.items() if value}))
        return points

    def at_peak(self, by: str = "category") -> dict[str, int]:
        """Return the bytes that were alive at the peak, largest first, by ``"category"``, ``"operator"``, ``"module"`` or ``"line"``.

        Storages that existed before the run are counted by category only.
        """
        group = self._groups(by)
        alive: Counter[int] = Counter()
        for event in self.events[: self._at + 1]:
            alive[event.storage] += event.change
        total = Counter(self.resident) if by == "category" else Counter()
        for number, nbytes in alive.items():
            total[group[number]] += nbytes
        return {key: value for key, value in total.most_common() if value}

    @property
    def peak_place(self) -> tuple[str, str, str | None]:
        """The operator, the module and the ``file:line`` at which the peak was reached; ``("", "", None)`` if nothing was made."""
        return ("", "", None) if self._at < 0 else self._place(self._log.operator_at(self._at))

    def reserved(self, settings: AllocatorSettings | str | None = None, *, capacity: int | None = None) -> AllocatorReport:
        """Return the memory that PyTorch's caching allocator would reserve for the run.

        The storages that existed before the run are allocated first, then those of the run in order.

        Parameters
        ----------
        settings : AllocatorSettings or str, optional
            Settings of the allocator, such as ``"expandable_segments:True"``. Default: PyTorch's defaults.
        capacity : int, optional
            Bytes that the device can provide. Default: unlimited.

        Returns
        -------
        AllocatorReport
            Reserved bytes after each allocation, their peak, and their parts.

        Examples
        --------
        >>> import metatensor as mt
        >>> model = mt.nn.Linear(512, 512, device="meta")
        >>> run = mt.analysis.profile(lambda: model(mt.empty(64, 512, device="meta")).sum().backward())
        >>> run.peak, run.reserved().peak_reserved
        (2232328, 4194304)
        """
        from metatensor.analysis.allocator import replay, requests

        before = [nbytes for sizes in self._sorted[1].values() for nbytes in sizes]
        return replay(requests(self.events, before), settings, capacity=capacity)

    @property
    def peak_event(self) -> int:
        """The index in `events` of the event that reached the peak, -1 if nothing was allocated."""
        return self._at

    @property
    def peak_phase(self) -> str | None:
        """``"forward"``, ``"backward"`` or ``"optimizer"``: the phase of the peak; None if nothing was allocated."""
        return None if self._at < 0 else self.phase_of(self.events[self._at])

    def phase_of(self, event: MemoryEvent) -> str:
        """Return ``"backward"`` in a backward pass, ``"optimizer"`` in an optimizer's step, else ``"forward"``."""
        if event.walk:
            return "backward"
        return "optimizer" if any(first < event.operator <= last for first, last in self._steps) else "forward"

    def place_of(self, event: MemoryEvent) -> tuple[str, str, str | None]:
        """Return the operator, the module and the ``file:line`` of an event."""
        return self._place(event.operator)

    # Output -----------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as JSON types; docs/report-schema.md describes the keys.

        The timeline has at most 1000 points, each the highest of its part of the run.
        """
        return {"kind": "profile", "schema": SCHEMA, **self.figures(), "modules": [row.to_dict() for row in self.modules]}

    def figures(self) -> dict[str, Any]:
        """Return all figures except those of the modules."""
        operator, module, line = self.peak_place
        points = self.timeline()
        step = max(1, -(-len(points) // _POINTS))
        drawn, (alive, others) = chart(self), living(self)
        lines = {row[2] for row in (*drawn["places"], *drawn["groups"])} | {row["line"] for row in alive}
        return {
            "unit": "bytes", "peak": self.peak, "made_peak": self.made_peak, "resident": dict(self.resident),
            "peak_operator": operator, "peak_module": module, "peak_line": line,
            "peak_phase": self.peak_phase, "peak_since": before_peak(self),
            "outside_modules": outside_modules(self), "chart": drawn, "alive_at_peak": alive, "alive_at_peak_others": others,
            "source": source_text(lines), "directory": os.getcwd(),
            **{f"peak_by_{by}": self.at_peak(by) for by in ("category", "operator", "module", "line")},
            "events": len(points), "timeline": [list(max(points[i : i + step], key=lambda p: p[1])) for i in range(0, len(points), step)],
            "excluded": list(EXCLUDED),
        }  # fmt: skip

    def to_json(self, indent: int | None = 2) -> str:
        """Return `to_dict` as JSON text."""
        return json.dumps(self.to_dict(), indent=indent)

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write a self-contained page with all figures to a file. It needs Plotly: ``pip install 'metatensor-device[report]'``."""
        from metatensor.analysis.page import write

        write(path, self.to_dict())

    def to_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the timeline for Perfetto or chrome://tracing to a file; it is compressed if the name ends with ``.gz``.

        The axis is the number of the event, not time: each event is shown as one microsecond.
        """
        from metatensor.analysis.trace_events import write

        write(self, path)

    def __str__(self) -> str:
        operator, module, line = self.peak_place
        where = ", ".join(part for part in (operator, module, line) if part)
        lines = [f"peak {bytes_text(self.peak)}" + (f" at {where}" if where else ""), ""]
        for by in ("category", "module", "operator", "line"):
            rows = [(key or "(none)", value) for key, value in self.at_peak(by).items()]
            lines.append(f"alive at the peak, by {by}" + (f" (the {_ROWS} greatest of {len(rows)})" if len(rows) > _ROWS else ""))
            lines += [f"  {bytes_text(value):>9}  {key}" for key, value in rows[:_ROWS]] + [""]
        return "\n".join([*lines, "not included: " + ", ".join(EXCLUDED)])

    def __repr__(self) -> str:
        return f"Profile(peak={self.peak}, events={len(self._log)})"

    def _repr_html_(self) -> str:
        from html import escape

        from metatensor.analysis.notebook import table

        operator, module, line = self.peak_place
        code = source_text({line}).get(line) if line else None
        where = ", ".join(part for part in (self.peak_phase, operator, module, line) if part)
        made = [f"<p>peak <b>{bytes_text(self.peak)}</b>{escape(' at ' + where) if where else ''}</p>",
                f"<pre>{escape(code)}</pre>" if code else ""]  # fmt: skip
        for by in ("category", "module", "operator", "line"):
            rows = [(key or "(none)", bytes_text(value)) for key, value in self.at_peak(by).items()]
            made.append(table((f"alive at the peak, by {by}", "size"), rows[:_ROWS]))
            if rows[_ROWS:]:
                made.append(f"<p>and {len(rows) - _ROWS} more</p>")
        return "".join(made) + f"<p>not included: {', '.join(EXCLUDED)}</p>"

    # Attribution ------------------------------------------------------------------------------------------

    def _place(self, operator: int) -> tuple[str, str, str | None]:
        found = self._attribution.place(operator)
        if found is None:
            return "", "", None
        name, module, file, number = found
        line = None if file is None else f"{file}:{number}"
        if module in self._labels:
            return name, "", self._labels[module]
        return name, self._paths[module], None if line == self._caller else line

    def _groups(self, by: str) -> dict[int, str]:
        if by not in ("category", "operator", "module", "line"):
            raise ValueError(f"by: expected 'category', 'operator', 'module' or 'line', not {by!r}")
        return {record.number: getattr(record, by) or "" for record in self.storages}

    def _category(self, number: int, born: int, died: int | None) -> str:
        known = self._sorted[0].get(number)
        if known is not None:
            return known
        if number in self._attribution.categories:
            return self._attribution.categories[number]  # type: ignore[no-any-return]
        birth = self.events[born]
        if self._in_collective(birth.operator):
            return "communication"
        death = None if died is None else self.events[died]
        for first, last in self._steps:
            if first < birth.operator <= last:
                return "temporary" if death is not None and death.operator <= last else "optimizer state"
        if birth.walk:
            return "temporary" if death is not None and death.walk == birth.walk else "gradient"
        if death is None:
            return "saved for backward" if self._needs_grad else "temporary"
        return "saved for backward" if death.walk else "temporary"


class _Run:
    """The data collected while a callable is profiled."""

    def __init__(self, fn: Any, args: tuple, kwargs: dict[str, Any]) -> None:
        self.log, self.attribution = MemoryLog(), Attribution()
        self.met = ModulePaths(module for _, module in referenced_modules(fn, args, kwargs))
        self.paths, self.roots, self.modules = self.met.paths, self.met.roots, self.met.modules
        self.labels: dict[int, str] = {}  # number in `paths` -> label of code of metatensor itself, instead of a line
        self.steps: list[tuple[int, int]] = []
        self.inputs = list(tensors_in((args, kwargs)))
        self._optimizers: dict[int, Any] = {}
        self._thread = threading.get_ident()
        self.follower = Follower(self.attribution, self.met)
        self._exits = ExitStack()

    def __enter__(self) -> _Run:
        for register, hook in ((register_optimizer_step_pre_hook, self._begin), (register_optimizer_step_post_hook, self._end)):
            self._exits.callback(register(hook).remove)
        self._exits.enter_context(self.follower)
        token = _current.set(self)
        self._exits.callback(_current.reset, token)
        self._exits.enter_context(self.log)
        self._exits.enter_context(self.attribution)
        return self

    def __exit__(self, *error: Any) -> None:
        self._exits.close()

    # Modules and optimizers -------------------------------------------------------------------------------

    def number_of(self, label: str) -> int:
        """Return the number, among those of modules, for a label of metatensor's own code."""
        for number, known in self.labels.items():
            if known == label:
                return number
        self.labels[len(self.paths)] = label
        self.paths.append("")
        return len(self.paths) - 1

    def _begin(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if threading.get_ident() != self._thread:
            return
        self._optimizers[id(optimizer)] = optimizer
        self.follower.outer.clear()  # checkpointing may have ended a forward pass early, without calling the hook
        self.attribution.module = 0
        self.steps.append((self.log.first_operator + len(self.attribution), 1 << 62))

    def _end(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if threading.get_ident() != self._thread:
            return
        self.steps[-1] = (self.steps[-1][0], self.log.first_operator + len(self.attribution))

    def _parameter_groups(self) -> list[Any]:
        """Return dicts and lists of parameters: those of the modules, and those of the optimizers, which may have others.

        While a module to which `fully_shard` was applied has whole parameters, its shards are not among the module's own.
        """
        groups: list[Any] = [module._parameters for module in self.modules]
        groups += [module._fsdp_state.shards() for module in self.modules if "_fsdp_state" in module.__dict__]
        return groups + [group["params"] for optimizer in self._optimizers.values() for group in optimizer.param_groups]

    def _parameters(self) -> list[Any]:
        groups = (group.values() if isinstance(group, dict) else group for group in self._parameter_groups())
        return list({id(p): p for group in groups for p in group if p is not None}.values())

    # Afterwards ---------------------------------------------------------------------------------------

    def collected(self, result: Any) -> HeldStorages:
        """Return the storages that parameters, gradients, optimizers and others refer to now, by number in `_HELD`."""
        parameters = self._parameter_groups()
        values = {
            "parameter": parameters,
            "buffer": [module._buffers for module in self.modules],
            "gradient": parameters,
            "optimizer state": [list(optimizer.state.values()) for optimizer in self._optimizers.values()],
            "input": self.inputs,
            "output": list(tensors_in(result)),
        }
        held = HeldStorages()
        for number, category in enumerate(_HELD):
            held.add(number, values[category], gradients=category == "gradient")
        sums = [p.main_grad for p in self._parameters() if hasattr(p, "main_grad")]  # sums of gradients, as Megatron-LM keeps them
        held.add(_HELD.index("gradient"), sums)
        return held


def _rows(root: Any, several: bool) -> list[ModuleRow]:
    """Return the rows of one of several modules, or of the only one."""
    rows = Inventory(root).rows
    if several:
        rows[0].path = rows[0].kind
        for row in rows:
            row.depth += 1
    return rows


_current: ContextVar[_Run | None] = ContextVar("run", default=None)


@contextmanager
def labelled(label: str) -> Iterator[None]:
    """Label operators that metatensor itself calls, and their gradients: `profile` shows the label instead of a line of code."""
    run = _current.get()
    if run is None:
        yield
        return
    outer, run.attribution.module = run.attribution.module, run.number_of(label)
    try:
        yield
    finally:
        run.attribution.module = outer


def profiled(fn: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Profile:
    """Profile a callable of metatensor's own: the line that called metatensor is not attributed, and the result is dropped."""
    frame = sys._getframe(1)
    while frame is not None and is_ours(frame):
        frame = frame.f_back  # type: ignore[assignment]
    found = profile(fn, *args, **kwargs)
    found.result = None
    found._caller = None if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
    return found


def profile(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Profile:
    """Run ``fn(*args, **kwargs)`` once, and return a profile of the memory in use.

    It works for any callable, on meta, fake and real devices: a module, or a function with a whole training step. The callable's result is
    the same as without it. On meta, operators that PyTorch computes in several steps have the temporary tensors of these
    steps (see `metatensor.rules.parts`).

    Parameters
    ----------
    fn : callable
        What to run. Parameters and buffers are those of the modules that it calls or refers to.
    *args, **kwargs
        Its arguments. Tensors among them are the inputs.

    Returns
    -------
    Profile
        The events, the peak and what was alive then, by category, module, operator and line.

    Examples
    --------
    >>> import metatensor as mt
    >>> model = mt.nn.Linear(512, 512, device="meta")
    >>> x = mt.empty(64, 512, device="meta")
    >>> report = mt.analysis.profile(lambda: model(x).sum().backward())
    >>> report.at_peak()["parameter"] == 4 * (512 * 512 + 512)
    True
    >>> report.peak_place[0]
    'sum'
    """
    run = _Run(fn, args, kwargs)
    with run:
        result = fn(*args, **kwargs)
    return Profile(run, result)
