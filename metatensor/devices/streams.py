"""Streams of work and events in them: what every device has.

These are of a device that does its work in order, one thing after another: all its streams are the same one. A backend of
a device with more has subclasses of both (`DeviceBackend.stream`, `DeviceBackend.event`).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from metatensor.devices.base import DeviceBackend

__all__ = ["Event", "Stream"]


class Stream:
    """The one stream of device ``index``."""

    handle: int = 0
    """What the device's own library knows the stream by."""

    def __init__(self, backend: DeviceBackend, index: int) -> None:
        self.backend, self.index = backend, index

    def synchronize(self) -> None:
        """Wait until all that was put into the stream is done."""
        self.backend.synchronize(self.index)

    def query(self) -> bool:
        """Whether all that was put into the stream is done; it may wait for that."""
        self.synchronize()
        return True

    def wait_event(self, event: Event) -> None:
        """Let what is put into the stream from now on wait for an event in another one."""

    def make_current(self) -> None:
        """Let this thread's work on the device go here."""


class Event:
    """An event in a stream of device ``index``; with ``timing`` the time at which it was reached is kept."""

    def __init__(self, backend: DeviceBackend, index: int, timing: bool = False) -> None:
        self.backend, self.index, self.timing = backend, index, timing
        self.at: Any = None

    def record(self, stream: Stream) -> None:
        """Put the event at the end of a stream."""
        if self.timing:
            stream.synchronize()
        self.at = time.perf_counter()

    def synchronize(self) -> None:
        """Wait until the event is reached."""
        self.backend.synchronize(self.index)

    def query(self) -> bool:
        """Whether the event is reached; it may wait for that."""
        self.synchronize()
        return True

    def elapsed_time(self, later: Event) -> float:
        """The time from this event to another one; both were recorded, with ``timing``."""
        return float(later.at - self.at) * 1000
