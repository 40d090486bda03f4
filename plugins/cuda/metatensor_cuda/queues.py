"""Streams and events of CUDA, through CuPy's."""

from __future__ import annotations

from typing import Any

from metatensor.devices.queues import Mark, Queue

__all__ = ["CudaMark", "CudaQueue"]


class CudaQueue(Queue):
    """A CUDA stream; ``stream`` is CuPy's."""

    def __init__(self, backend: Any, index: int, stream: Any) -> None:
        super().__init__(backend, index)
        self.stream = stream
        self.handle = stream.ptr

    def synchronize(self) -> None:
        with self.backend.on(self.index):
            self.stream.synchronize()

    def is_done(self) -> bool:
        with self.backend.on(self.index):
            return bool(self.stream.done)

    def wait_for(self, mark: Mark) -> None:
        if isinstance(mark, CudaMark):  # another device's is waited for by the host
            with self.backend.on(self.index):
                self.stream.wait_event(mark.event)
        else:
            mark.synchronize()

    def make_current(self) -> None:
        with self.backend.on(self.index):
            self.stream.use()


class CudaMark(Mark):
    """A CUDA event."""

    def __init__(self, backend: Any, index: int, timing: bool = False) -> None:
        super().__init__(backend, index, timing)
        with backend.on(index):
            self.event = backend.xp.cuda.Event(disable_timing=not timing)

    def record(self, queue: Queue) -> None:
        with self.backend.on(queue.index):
            self.event.record(queue.stream)  # type: ignore[attr-defined]

    def synchronize(self) -> None:
        self.event.synchronize()

    def is_done(self) -> bool:
        return bool(self.event.done)

    def milliseconds_until(self, later: Mark) -> float:
        if not isinstance(later, CudaMark):
            raise TypeError(f"an event of {self.backend.type} is timed against one of {later.backend.type}")
        later.event.synchronize()
        return float(self.backend.xp.cuda.get_elapsed_time(self.event, later.event))
