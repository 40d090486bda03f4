"""Streams and events, on top of the streams of a device's backend (`metatensor.devices.streams`).

Most devices have a single stream, on which all work runs in order. Every `Stream` of such a device refers to it.
"""

from __future__ import annotations

from typing import Any

import metatensor as mt

__all__ = ["Event", "Stream"]


def _place(device: Any, default: str = "cpu") -> tuple[Any, int]:
    """Return the backend and the index of a device. Raise RuntimeError if there is no such device."""
    from metatensor import plugins

    place = mt.device(default if device is None else device)
    backend = plugins.backend(place.type)
    index = backend.current_index() if place.index is None else place.index
    backend.check_index(index)
    return backend, index


class Stream:
    """A queue of work that a device executes in order.

    If the device supports several streams, the constructor creates a new one. As a context manager, a stream makes
    itself the current stream of its device, and its device the current device.

    Parameters
    ----------
    device : device, optional
        Default: cpu.
    priority : int
        Passed to the backend.
    """

    def __init__(self, device: Any = None, priority: int = 0, **_: Any) -> None:
        backend, index = _place(device)
        self._adopt(backend.stream(index, priority), mt.device(device) if device is not None else mt.device(backend.type))
        self.priority = priority

    def _adopt(self, stream: Any, device: Any) -> None:
        self._stream, self.device, self.priority = stream, device, 0
        self._before: list[tuple[int, Any]] = []

    @classmethod
    def _of(cls, stream: Any) -> Any:
        """Return the object for an existing stream of a backend."""
        made = cls.__new__(cls)
        made._adopt(stream, mt.device(f"{stream.backend.type}:{stream.index}"))
        return made

    @property
    def stream_id(self) -> int:
        """The handle of the stream in the device's library; 0 for the default stream."""
        return int(self._stream.handle)

    @property
    def device_index(self) -> int:
        """The index of the device, or -1 if it has none."""
        return -1 if self.device.index is None else int(self.device.index)

    @property
    def device_type(self) -> str:
        """The type of the device."""
        return str(self.device.type)

    def query(self) -> bool:
        """Return whether all work in the stream is finished. On some devices this waits until it is."""
        return bool(self._stream.query())

    def synchronize(self) -> None:
        """Wait until all work in the stream is finished."""
        self._stream.synchronize()

    def wait_event(self, event: Event) -> None:
        """Make all work that is submitted later wait for an event."""
        if event._event is not None:
            self._stream.wait_event(event._event)

    def wait_stream(self, stream: Stream) -> None:
        """Make all work that is submitted later wait for the work that another stream holds now."""
        self.wait_event(stream.record_event())

    def record_event(self, event: Event | None = None) -> Event:
        """Record `event`, or a new event, in this stream and return it."""
        event = Event(self.device) if event is None else event
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        backend, index = self._stream.backend, self._stream.index
        self._before.append((backend.current_index(), backend.current_stream(index)))
        self._use(index, self._stream)
        return self

    def __exit__(self, *_: Any) -> None:
        device, stream = self._before.pop()
        self._use(self._stream.index, stream)
        if device != self._stream.index:
            self._stream.backend.set_current_index(device)

    def _use(self, index: int, stream: Any) -> None:
        if stream.backend.current_index() != index:
            stream.backend.set_current_index(index)
        stream.make_current()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and (other.device, other.stream_id) == (self.device, self.stream_id)

    def __hash__(self) -> int:
        return hash((self.device, self.stream_id))

    def __repr__(self) -> str:
        return f"torch.Stream device_type={self.device_type}, device_index={self.device_index}, stream_id={self.stream_id}"


class Event:
    """A marker in a stream.

    Parameters
    ----------
    device : device, optional
        Default: cpu.
    enable_timing : bool
        If True, the time at which the device reaches the event is recorded. Default: False.
    blocking, interprocess : bool
        Ignored.
    """

    def __init__(
        self, device: Any = None, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        self._backend, self._index = _place(device)
        self.device = mt.device(device) if device is not None else mt.device(self._backend.type)
        self.enable_timing = enable_timing
        self._event: Any = None

    @property
    def event_id(self) -> int:
        """Always 0."""
        return 0

    def record(self, stream: Stream | None = None) -> None:
        """Record the event at the end of a stream. The default is the current stream of the device."""
        where = self._backend.current_stream(self._index) if stream is None else stream._stream
        if self._event is None:
            self._event = where.backend.event(where.index, self.enable_timing)
        self._event.record(where)

    def query(self) -> bool:
        """Return whether the event was reached or never recorded. On some devices this waits until it is reached."""
        return self._event is None or bool(self._event.query())

    def wait(self, stream: Stream | None = None) -> None:
        """Make later work in a stream wait for the event. The default is the current stream of the device."""
        if self._event is not None:
            (self._backend.current_stream(self._index) if stream is None else stream._stream).wait_event(self._event)

    def synchronize(self) -> None:
        """Wait until the event is reached."""
        if self._event is not None:
            self._event.synchronize()

    def elapsed_time(self, end_event: Event) -> float:
        """Return the milliseconds from this event to another. Raise RuntimeError if one was not recorded with timing.
        """
        for event in (self, end_event):
            if not event.enable_timing:
                raise RuntimeError("Event.elapsed_time: both events need enable_timing=True")
        if self._event is None or end_event._event is None:
            raise RuntimeError("Event.elapsed_time: both events have to be recorded")
        return float(self._event.elapsed_time(end_event._event))

    def __repr__(self) -> str:
        return f"torch.Event device_type={self.device.type}, device_index={-1 if self.device.index is None else self.device.index}"
