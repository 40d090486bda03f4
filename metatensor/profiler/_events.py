"""Recorded events: one for each operator call, with averages, tables and Chrome traces."""

from __future__ import annotations

import json
from collections.abc import Iterator
from time import perf_counter_ns
from typing import Any

import metatensor as mt
from metatensor._core.memory import MemoryTracker
from metatensor._core.modes import DispatchMode

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "EventTracer"]


class FunctionEvent:
    """A call of an operator or a `record_function` block: its name, start and end in microseconds, and memory use."""

    def __init__(self, id: int, name: str, start: float, end: float, shapes: list[Any] | None, memory: int, thread: int = 0) -> None:
        self.id, self.name, self.key, self.thread = id, name, name, thread
        self.time_range = (start, end)
        self.input_shapes = shapes or []
        self.cpu_memory_usage = memory
        self.count = 1
        self.cpu_children: list[FunctionEvent] = []

    @property
    def cpu_time_total(self) -> float:
        """Duration in microseconds, including nested events."""
        return self.time_range[1] - self.time_range[0]

    cpu_time = cpu_time_total

    @property
    def self_cpu_time_total(self) -> float:
        """Duration in microseconds, without nested events."""
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    def __repr__(self) -> str:
        return f"<FunctionEvent {self.name}: {self.cpu_time_total:.3f} us, input_shapes={self.input_shapes}>"


class FunctionEventAvg:
    """Totals and averages of several calls of an operator."""

    def __init__(self, events: list[FunctionEvent]) -> None:
        self.key = events[0].name
        self.count = len(events)
        self.input_shapes = events[0].input_shapes
        self.cpu_time_total = sum(event.cpu_time_total for event in events)
        self.self_cpu_time_total = sum(event.self_cpu_time_total for event in events)
        self.cpu_memory_usage = sum(event.cpu_memory_usage for event in events)
        self.cpu_time = self.cpu_time_total / self.count

    def __repr__(self) -> str:
        return f"<FunctionEventAvg {self.key}: {self.count} calls, {self.self_cpu_time_total:.3f} us>"


class EventList(list):
    """Events in order of their start, or averages of events."""

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        """Return a `FunctionEventAvg` for each name, or for each combination of a name and input shapes."""
        if group_by_stack_n:
            raise NotImplementedError("key_averages: call stacks are not recorded, so that group_by_stack_n cannot be used")
        groups: dict[Any, list[FunctionEvent]] = {}
        for event in self:
            groups.setdefault((event.name, str(event.input_shapes) if group_by_input_shape else ""), []).append(event)
        return EventList(FunctionEventAvg(group) for group in groups.values())

    def total_average(self) -> FunctionEventAvg:
        """Return the average of all events."""
        return FunctionEventAvg(list(self))

    def table(self, sort_by: str | None = None, row_limit: int = 100, header: str | None = None, **_: Any) -> str:
        """Return a text table with the name, own time and total time in microseconds, and the number of calls.

        `sort_by` is an attribute of `FunctionEventAvg`. A negative `row_limit` means no limit.
        """
        rows = list(self)
        if sort_by is not None:
            rows.sort(key=lambda row: getattr(row, sort_by), reverse=True)
        rows = rows if row_limit < 0 else rows[:row_limit]
        width = max([len(row.key) for row in rows] + [4])
        title = f"{'Name':<{width}}  {'Self CPU us':>14}  {'CPU total us':>14}  {'# of Calls':>10}"
        lines = [f"{row.key:<{width}}  {row.self_cpu_time_total:>14.3f}  {row.cpu_time_total:>14.3f}  {row.count:>10}" for row in rows]
        rule = "-" * len(title)
        return "\n".join([*([header] if header else []), rule, title, rule, *lines, rule])

    def export_chrome_trace(self, path: str) -> None:
        """Write the events as a trace file for chrome://tracing and Perfetto."""
        trace = [
            {"name": event.name, "ph": "X", "ts": event.time_range[0], "dur": event.cpu_time_total, "pid": 0, "tid": event.thread,
             "cat": "cpu_op", "args": {"Input Dims": event.input_shapes}}
            for event in self
        ]  # fmt: skip
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": trace}, file)

    def __str__(self) -> str:
        return self.table()


class EventTracer(DispatchMode):
    """Dispatch mode that records the operators of this thread and its `record_function` blocks."""

    active: list[EventTracer] = []

    def __init__(self, shapes: bool, memory: bool) -> None:
        self.events = EventList()
        self._shapes = shapes
        self._memory = MemoryTracker() if memory else None
        self._open: list[FunctionEvent] = []

    def __enter__(self) -> EventTracer:
        super().__enter__()
        if self._memory is not None:
            self._memory.__enter__()
        EventTracer.active.append(self)
        return self

    def __exit__(self, *error: Any) -> None:
        EventTracer.active.remove(self)
        if self._memory is not None:
            self._memory.__exit__(*error)
        super().__exit__(*error)

    def begin(self, name: str, shapes: list[Any] | None = None) -> FunctionEvent:
        """Start an event."""
        now = perf_counter_ns() / 1000
        event = FunctionEvent(len(self.events), name, now, now, shapes, self._bytes())
        if self._open:
            self._open[-1].cpu_children.append(event)
        self._open.append(event)
        self.events.append(event)
        return event

    def end(self, event: FunctionEvent) -> None:
        """End an event."""
        event.time_range = (event.time_range[0], perf_counter_ns() / 1000)
        event.cpu_memory_usage = self._bytes() - event.cpu_memory_usage
        if event in self._open:
            del self._open[self._open.index(event) :]

    def _bytes(self) -> int:
        return 0 if self._memory is None else self._memory.current

    def dispatch(self, op: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Run an operator and record it as an event."""
        shapes = list(_shapes([*args, *kwargs.values()])) if self._shapes else None
        event = self.begin(f"aten::{op.__name__}" if "::" not in op.name else op.name, shapes)
        try:
            return op(*args, **kwargs)
        finally:
            self.end(event)


def _shapes(values: list[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, mt.Tensor):
            yield list(value.shape)
        elif isinstance(value, (list, tuple)) and any(isinstance(part, mt.Tensor) for part in value):
            yield list(_shapes(list(value)))
        else:
            yield []
