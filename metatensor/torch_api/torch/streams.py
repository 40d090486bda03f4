"""Queues of work and marks in them, as the backend of a device has them (`metatensor.devices.queues`).

Most devices have one queue, so that all work is done in order: every stream of theirs is that one.
"""

from __future__ import annotations

from typing import Any

import metatensor as mt

__all__ = ["Event", "Stream"]


def _place(device: Any, default: str = "cpu") -> tuple[Any, int]:
    """The backend and the index of a device; RuntimeError where there is none."""
    from metatensor import plugins

    place = mt.device(default if device is None else device)
    backend = plugins.backend(place.type)
    index = backend.current_index() if place.index is None else place.index
    backend.check_index(index)
    return backend, index


class Stream:
    """A queue of a device for work that is done in order, new where the device has more than one.

    ``with`` makes it the current one of its device, and the device the current one.
    """

    def __init__(self, device: Any = None, priority: int = 0, **_: Any) -> None:
        backend, index = _place(device)
        self._adopt(backend.queue(index, priority), mt.device(device) if device is not None else mt.device(backend.type))
        self.priority = priority

    def _adopt(self, queue: Any, device: Any) -> None:
        self._queue, self.device, self.priority = queue, device, 0
        self._before: list[tuple[int, Any]] = []

    @classmethod
    def _of(cls, queue: Any) -> Any:
        """The stream of a queue that is there already."""
        made = cls.__new__(cls)
        made._adopt(queue, mt.device(f"{queue.backend.type}:{queue.index}"))
        return made

    @property
    def stream_id(self) -> int:
        """What the device's library knows the queue by; 0 for the default one."""
        return int(self._queue.handle)

    @property
    def device_index(self) -> int:
        """The number of the device, or -1."""
        return -1 if self.device.index is None else int(self.device.index)

    @property
    def device_type(self) -> str:
        """The type of the device."""
        return str(self.device.type)

    def query(self) -> bool:
        """Whether what was put into the queue is done. It may wait for that."""
        return bool(self._queue.is_done())

    def synchronize(self) -> None:
        """Wait for what was put into the queue."""
        self._queue.synchronize()

    def wait_event(self, event: Event) -> None:
        """Let what comes into the queue from now on wait for an event."""
        if event._mark is not None:
            self._queue.wait_for(event._mark)

    def wait_stream(self, stream: Stream) -> None:
        """Let what comes into the queue from now on wait for what is in another one now."""
        self.wait_event(stream.record_event())

    def record_event(self, event: Event | None = None) -> Event:
        """Record ``event``, or a new one, and return it."""
        event = Event(self.device) if event is None else event
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        backend, index = self._queue.backend, self._queue.index
        self._before.append((backend.current_index(), backend.current_queue(index)))
        self._use(index, self._queue)
        return self

    def __exit__(self, *_: Any) -> None:
        device, queue = self._before.pop()
        self._use(self._queue.index, queue)
        if device != self._queue.index:
            self._queue.backend.set_current_index(device)

    def _use(self, index: int, queue: Any) -> None:
        if queue.backend.current_index() != index:
            queue.backend.set_current_index(index)
        queue.make_current()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and (other.device, other.stream_id) == (self.device, self.stream_id)

    def __hash__(self) -> int:
        return hash((self.device, self.stream_id))

    def __repr__(self) -> str:
        return f"torch.Stream device_type={self.device_type}, device_index={self.device_index}, stream_id={self.stream_id}"


class Event:
    """A mark in a queue of a device; with ``enable_timing`` the time at which it was reached is kept."""

    def __init__(
        self, device: Any = None, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        self._backend, self._index = _place(device)
        self.device = mt.device(device) if device is not None else mt.device(self._backend.type)
        self.enable_timing = enable_timing
        self._mark: Any = None

    @property
    def event_id(self) -> int:
        """A number of the mark: 0."""
        return 0

    def record(self, stream: Stream | None = None) -> None:
        """Put the mark at the end of a queue: by default of the device's current one."""
        queue = self._backend.current_queue(self._index) if stream is None else stream._queue
        if self._mark is None:
            self._mark = queue.backend.mark(queue.index, self.enable_timing)
        self._mark.record(queue)

    def query(self) -> bool:
        """Whether the mark is reached, or was never recorded. It may wait for that."""
        return self._mark is None or bool(self._mark.is_done())

    def wait(self, stream: Stream | None = None) -> None:
        """Let what comes into a queue, by default the device's current one, wait for the mark."""
        if self._mark is not None:
            (self._backend.current_queue(self._index) if stream is None else stream._queue).wait_for(self._mark)

    def synchronize(self) -> None:
        """Wait for the mark."""
        if self._mark is not None:
            self._mark.synchronize()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this mark to another. RuntimeError where one has no time."""
        for event in (self, end_event):
            if not event.enable_timing:
                raise RuntimeError("Event.elapsed_time: both events need enable_timing=True")
        if self._mark is None or end_event._mark is None:
            raise RuntimeError("Event.elapsed_time: both events have to be recorded")
        return float(self._mark.milliseconds_until(end_event._mark))

    def __repr__(self) -> str:
        return f"torch.Event device_type={self.device.type}, device_index={-1 if self.device.index is None else self.device.index}"
