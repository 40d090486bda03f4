"""Monitoring of a program: events with handlers, and statistics over time windows."""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

__all__ = [
    "Aggregation", "Event", "EventHandlerHandle", "STAT_EVENT", "Stat", "TensorboardEventHandler", "data_value_t", "log_event",
    "register_event_handler", "unregister_event_handler",
]  # fmt: skip

STAT_EVENT = "torch.monitor.Stat"
data_value_t = str | float | int | bool


class Aggregation(enum.Enum):
    """A statistic that a `Stat` computes over a window."""

    NONE = 0
    VALUE = 1
    MEAN = 2
    COUNT = 3
    SUM = 4
    MAX = 5
    MIN = 6


VALUE, MEAN, COUNT = Aggregation.VALUE, Aggregation.MEAN, Aggregation.COUNT
SUM, MAX, MIN = Aggregation.SUM, Aggregation.MAX, Aggregation.MIN


@dataclass
class Event:
    """An event with a name, a time and values by name."""

    name: str
    timestamp: datetime
    data: Mapping[str, data_value_t]


class EventHandlerHandle:
    """The result of `register_event_handler`. Pass it to `unregister_event_handler`."""

    def __init__(self, callback: Callable[[Event], Any]) -> None:
        self._callback = callback


_handlers: list[EventHandlerHandle] = []


def register_event_handler(callback: Callable[[Event], Any]) -> EventHandlerHandle:
    """Register a function to be called with each event."""
    handle = EventHandlerHandle(callback)
    _handlers.append(handle)
    return handle


def unregister_event_handler(handler: EventHandlerHandle) -> None:
    """Unregister a handler. Do nothing if it is not registered."""
    if handler in _handlers:
        _handlers.remove(handler)


def log_event(event: Event) -> None:
    """Pass an event to all handlers."""
    for handler in list(_handlers):
        handler._callback(event)


class Stat:
    """Statistics over time windows. At the end of a window they are logged as an event.

    Parameters
    ----------
    name : str
    aggregations : sequence of Aggregation
        The statistics to compute.
    window_size : timedelta
        Length of a window. A window ends when the first value after that time is added.
    max_samples : int
        Number of values after which a window ends early.
    """

    def __init__(self, name: str, aggregations: Sequence[Aggregation], window_size: timedelta, max_samples: int = 2**63 - 1) -> None:
        self.name = name
        self._aggregations, self._window, self._most = tuple(aggregations), window_size.total_seconds(), max_samples
        self._values: list[float] = []
        self._since = time.monotonic()

    @property
    def count(self) -> int:
        """The number of values in the current window."""
        return len(self._values)

    def add(self, v: float) -> None:
        """Add a value."""
        if self._values and time.monotonic() - self._since >= self._window:
            self._send()
        self._values.append(float(v))
        if len(self._values) >= self._most:
            self._send()

    def get(self) -> dict[Aggregation, float]:
        """Return the statistics of the current window."""
        values = self._values
        if not values:
            return dict.fromkeys(self._aggregations, 0.0)
        known = {
            VALUE: values[-1], MEAN: sum(values) / len(values), COUNT: float(len(values)), SUM: sum(values), MAX: max(values),
            MIN: min(values),
        }  # fmt: skip
        return {one: known[one] for one in self._aggregations}

    def _send(self) -> None:
        data = {f"{self.name}.{one.name.lower()}": value for one, value in self.get().items()}
        self._values = []
        self._since = time.monotonic()
        log_event(Event(STAT_EVENT, datetime.now(), data))


class TensorboardEventHandler:
    """An event handler that writes the values of `Stat` events with a ``SummaryWriter``."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def __call__(self, event: Event) -> None:
        values = event.data if event.name == STAT_EVENT else {}
        at = event.timestamp.timestamp()
        for tag in values:
            self._writer.add_scalar(tag, values[tag], walltime=at)
