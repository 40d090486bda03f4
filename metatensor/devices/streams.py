"""Default streams and events, for devices that execute all work in order.

On such a device all streams are the same stream. A backend with real streams returns subclasses of both classes from
`DeviceBackend.stream` and `DeviceBackend.event`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from metatensor.devices.base import DeviceBackend

__all__ = ["Event", "Stream"]


class Stream:
    """The only stream of device ``index``."""

    handle: int = 0
    """The stream's identifier in the device's own library."""

    def __init__(self, backend: DeviceBackend, index: int) -> None:
        self.backend, self.index = backend, index

    def synchronize(self) -> None:
        """Wait until all work in the stream has finished."""
        self.backend.synchronize(self.index)

    def query(self) -> bool:
        """Return True if all work in the stream has finished. This implementation waits for it first."""
        self.synchronize()
        return True

    def wait_event(self, event: Event) -> None:
        """Make all later work in this stream wait for ``event``. With only one stream, this does nothing."""

    def make_current(self) -> None:
        """Direct this thread's work on the device to this stream."""


class Event:
    """A marker in a stream of device ``index``. With ``timing`` it stores the time at which it was reached."""

    def __init__(self, backend: DeviceBackend, index: int, timing: bool = False) -> None:
        self.backend, self.index, self.timing = backend, index, timing
        self.at: Any = None

    def record(self, stream: Stream) -> None:
        """Append the event to ``stream``."""
        if self.timing:
            stream.synchronize()
        self.at = time.perf_counter()

    def synchronize(self) -> None:
        """Wait until the event has been reached."""
        self.backend.synchronize(self.index)

    def query(self) -> bool:
        """Return True if the event has been reached. This implementation waits for it first."""
        self.synchronize()
        return True

    def elapsed_time(self, later: Event) -> float:
        """Return the milliseconds from this event to ``later``. Both must have been recorded with ``timing``."""
        return float(later.at - self.at) * 1000
