"""Streams and events of CUDA devices, by way of the backend's."""

from __future__ import annotations

from typing import Any

from metatensor.torch_api.torch import streams
from metatensor.torch_api.torch._devices import DeviceApi

__all__ = ["Event", "ExternalStream", "Stream", "StreamContext"]

_api = DeviceApi("cuda", RuntimeError)


class Stream(streams.Stream):
    """A stream of a CUDA device, a new one. RuntimeError where there is no device."""

    def __init__(self, device: Any = None, priority: int = 0, **options: Any) -> None:
        super().__init__(f"cuda:{_api.index(device)}", priority)

    @property
    def cuda_stream(self) -> int:
        """CUDA's handle: 0 is the default stream."""
        return self.stream_id


class ExternalStream(Stream):
    """A CUDA stream made elsewhere, by its handle, which has to outlive this. RuntimeError where there is no device."""

    def __init__(self, stream_ptr: int, device: Any = None, **options: Any) -> None:
        index = _api.index(device)
        self._adopt(_api.require().external_stream(stream_ptr, index), streams.mt.device(f"cuda:{index}"))


class Event(streams.Event):
    """An event in a stream of the current CUDA device. RuntimeError where there is none."""

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, external: bool = False
    ) -> None:
        super().__init__(f"cuda:{_api.current_device()}", enable_timing)


class StreamContext:
    """A context in which a stream, and its device, are the current ones; None has no effect."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            self.stream.__enter__()

    def __exit__(self, *_: Any) -> None:
        if self.stream is not None:
            self.stream.__exit__()
