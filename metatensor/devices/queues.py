"""Queues of work, which PyTorch calls streams, and marks in them, its events: what every device has.

These are of a device that does its work in order, one thing after another: all its queues are the same one. A backend of
a device with more has subclasses of both (`DeviceBackend.queue`, `DeviceBackend.mark`).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from metatensor.devices.base import DeviceBackend

__all__ = ["Mark", "Queue"]


class Queue:
    """The one queue of device ``index``."""

    handle: int = 0
    """What the device's own library knows the queue by."""

    def __init__(self, backend: DeviceBackend, index: int) -> None:
        self.backend, self.index = backend, index

    def synchronize(self) -> None:
        """Wait until all that was put into the queue is done."""
        self.backend.synchronize(self.index)

    def is_done(self) -> bool:
        """Whether all that was put into the queue is done; it may wait for that."""
        self.synchronize()
        return True

    def wait_for(self, mark: Mark) -> None:
        """Let what is put into the queue from now on wait for a mark in another one."""

    def make_current(self) -> None:
        """Let this thread's work on the device go here."""


class Mark:
    """A mark in a queue of device ``index``; with ``timing`` the time at which it was reached is kept."""

    def __init__(self, backend: DeviceBackend, index: int, timing: bool = False) -> None:
        self.backend, self.index, self.timing = backend, index, timing
        self.at: Any = None

    def record(self, queue: Queue) -> None:
        """Put the mark at the end of a queue."""
        if self.timing:
            queue.synchronize()
        self.at = time.perf_counter()

    def synchronize(self) -> None:
        """Wait until the mark is reached."""
        self.backend.synchronize(self.index)

    def is_done(self) -> bool:
        """Whether the mark is reached; it may wait for that."""
        self.synchronize()
        return True

    def milliseconds_until(self, later: Mark) -> float:
        """The time from this mark to another one; both were recorded, with ``timing``."""
        return float(later.at - self.at) * 1000
