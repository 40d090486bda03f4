"""CUDA streams and events, based on CuPy's."""

from __future__ import annotations

from typing import Any

from metatensor.devices.streams import Event, Stream

__all__ = ["CudaEvent", "CudaStream"]


class CudaStream(Stream):
    """A CUDA stream. ``native`` is CuPy's stream object."""

    def __init__(self, backend: Any, index: int, stream: Any) -> None:
        super().__init__(backend, index)
        self.native = stream
        self.handle = stream.ptr

    def synchronize(self) -> None:
        with self.backend.on(self.index):
            self.native.synchronize()

    def query(self) -> bool:
        with self.backend.on(self.index):
            return bool(self.native.done)

    def wait_event(self, event: Event) -> None:
        if isinstance(event, CudaEvent):
            with self.backend.on(self.index):
                self.native.wait_event(event.native)
        else:  # an event of another device type: make the host wait
            event.synchronize()

    def make_current(self) -> None:
        with self.backend.on(self.index):
            self.native.use()


class CudaEvent(Event):
    """A CUDA event."""

    def __init__(self, backend: Any, index: int, timing: bool = False) -> None:
        super().__init__(backend, index, timing)
        with backend.on(index):
            self.native = backend.xp.cuda.Event(disable_timing=not timing)

    def record(self, stream: Stream) -> None:
        with self.backend.on(stream.index):
            self.native.record(stream.native)  # type: ignore[attr-defined]

    def synchronize(self) -> None:
        self.native.synchronize()

    def query(self) -> bool:
        return bool(self.native.done)

    def elapsed_time(self, later: Event) -> float:
        if not isinstance(later, CudaEvent):
            raise TypeError(f"cannot measure the time from an event of {self.backend.type} to an event of {later.backend.type}")
        later.native.synchronize()
        return float(self.backend.xp.cuda.get_elapsed_time(self.native, later.native))
