"""Queues of work and marks in them. Each device of metatensor has one queue, so that all work is done in order."""

from __future__ import annotations

import time
from typing import Any

import metatensor as mt

__all__ = ["Event", "Stream"]


def _wait(device: Any) -> None:
    from metatensor import plugins

    plugins.backend(device.type).synchronize(device.index)


def _place(device: Any, default: str = "cpu") -> Any:
    from metatensor import plugins

    place = mt.device(default if device is None else device)
    plugins.backend(place.type).check_index(place.index or 0)
    return place


class Stream:
    """A name for the queue of a device. Every stream of a device is the same queue, whatever its priority."""

    stream_id = 0

    def __init__(self, device: Any = None, priority: int = 0, **_: Any) -> None:
        self.device = _place(device)
        self.priority = priority

    @property
    def device_index(self) -> int:
        """The number of the device, or -1."""
        return -1 if self.device.index is None else int(self.device.index)

    @property
    def device_type(self) -> str:
        """The type of the device."""
        return str(self.device.type)

    def query(self) -> bool:
        """True, after waiting for what was asked of the device."""
        _wait(self.device)
        return True

    def synchronize(self) -> None:
        """Wait for what was asked of the device."""
        _wait(self.device)

    def wait_event(self, event: Event) -> None:
        """Nothing to wait for: work is done in order."""

    def wait_stream(self, stream: Stream) -> None:
        """Nothing to wait for: work is done in order."""

    def record_event(self, event: Event | None = None) -> Event:
        """Record ``event``, or a new one, and return it."""
        event = Event(self.device) if event is None else event
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: Any) -> None:
        """Work goes on in the same queue."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other.device == self.device

    def __hash__(self) -> int:
        return hash(self.device)

    def __repr__(self) -> str:
        return f"torch.Stream device_type={self.device_type}, device_index={self.device_index}, stream_id={self.stream_id}"


class Event:
    """A mark in the queue of a device. With ``enable_timing``, recording waits, and notes the time."""

    def __init__(
        self, device: Any = None, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        self.device = _place(device)
        self.enable_timing = enable_timing
        self._at: float | None = None

    @property
    def event_id(self) -> int:
        """A number of the mark: 0."""
        return 0

    def record(self, stream: Stream | None = None) -> None:
        """Put the mark at the end of the queue."""
        if self.enable_timing:
            _wait(self.device)
        self._at = time.perf_counter()

    def query(self) -> bool:
        """True, after waiting for what was asked of the device."""
        _wait(self.device)
        return True

    def wait(self, stream: Stream | None = None) -> None:
        """Nothing to wait for: work is done in order."""

    def synchronize(self) -> None:
        """Wait for what was asked of the device."""
        _wait(self.device)

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this mark to another. RuntimeError where one has no time."""
        for event in (self, end_event):
            if not event.enable_timing:
                raise RuntimeError("Event.elapsed_time: both events need enable_timing=True")
        if self._at is None or end_event._at is None:
            raise RuntimeError("Event.elapsed_time: both events have to be recorded")
        return (end_event._at - self._at) * 1000

    def __repr__(self) -> str:
        return f"torch.Event device_type={self.device.type}, device_index={-1 if self.device.index is None else self.device.index}"
