"""The host as a device."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

from metatensor._core.lazy import attributes
from metatensor.torch_api.torch import streams

__all__ = ["Stream", "StreamContext", "current_device", "current_stream", "device_count", "is_available", "is_initialized",
           "set_device", "stream", "synchronize"]  # fmt: skip

__getattr__, __dir__ = attributes(__name__, ("amp",))


class Stream:
    """The queue of the host, which is always empty."""

    def __init__(self, priority: int = -1) -> None:
        self.priority = priority

    def wait_stream(self, stream: Any) -> None:
        """Nothing to wait for."""

    def record_event(self) -> None:
        """Nothing to mark."""

    def wait_event(self, event: Any) -> None:
        """Nothing to wait for."""


class Event(streams.Event):
    """A mark in the queue of the host."""

    def __init__(self, enable_timing: bool = False) -> None:
        super().__init__("cpu", enable_timing)


def is_available() -> bool:
    """True."""
    return True


def is_initialized() -> bool:
    """True."""
    return True


def device_count() -> int:
    """1."""
    return 1


def current_device() -> str:
    """``"cpu"``."""
    return "cpu"


def set_device(device: Any) -> None:
    """There is one."""


def synchronize(device: Any = None) -> None:
    """Nothing to wait for."""


_current = Stream()


def current_stream(device: Any = None) -> Stream:
    """The queue of the host."""
    return _current


@contextmanager
def stream(stream: Stream) -> Any:
    """A context without effect."""
    yield


StreamContext = stream
