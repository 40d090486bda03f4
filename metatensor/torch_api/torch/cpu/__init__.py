"""The cpu as a device."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

from metatensor._core.lazy import attributes
from metatensor.torch_api.torch import streams

__all__ = ["Stream", "StreamContext", "current_device", "current_stream", "device_count", "is_available", "is_initialized",
           "set_device", "stream", "synchronize"]  # fmt: skip

__getattr__, __dir__ = attributes(__name__, ("amp",))


class Stream:
    """The stream of the cpu, which is always empty, because work on the cpu is synchronous."""

    def __init__(self, priority: int = -1) -> None:
        self.priority = priority

    def wait_stream(self, stream: Any) -> None:
        """Do nothing."""

    def record_event(self) -> None:
        """Do nothing."""

    def wait_event(self, event: Any) -> None:
        """Do nothing."""


class Event(streams.Event):
    """An event on the cpu."""

    def __init__(self, enable_timing: bool = False) -> None:
        super().__init__("cpu", enable_timing)


def is_available() -> bool:
    """Return True."""
    return True


def is_initialized() -> bool:
    """Return True."""
    return True


def device_count() -> int:
    """Return 1."""
    return 1


def current_device() -> str:
    """Return "cpu"."""
    return "cpu"


def set_device(device: Any) -> None:
    """Do nothing, because there is one device."""


def synchronize(device: Any = None) -> None:
    """Do nothing, because work on the cpu is synchronous."""


_current = Stream()


def current_stream(device: Any = None) -> Stream:
    """Return the stream of the cpu."""
    return _current


@contextmanager
def stream(stream: Stream) -> Any:
    """Return a context manager that does nothing."""
    yield


StreamContext = stream
