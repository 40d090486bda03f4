"""Streams and events of CUDA devices, on top of those of the backend."""

from __future__ import annotations

from typing import Any

from metatensor.torch_api.torch import streams
from metatensor.torch_api.torch._devices import DeviceApi

__all__ = ["Event", "ExternalStream", "Stream", "StreamContext"]

_api = DeviceApi("cuda", RuntimeError)


class Stream(streams.Stream):
    """A new stream of a CUDA device. The constructor raises RuntimeError if there is no device."""

    def __init__(self, device: Any = None, priority: int = 0, **options: Any) -> None:
        super().__init__(f"cuda:{_api.index(device)}", priority)

    @property
    def cuda_stream(self) -> int:
        """CUDA's handle of the stream; 0 is the default stream."""
        return self.stream_id


class ExternalStream(Stream):
    """An existing CUDA stream, given by its handle, which must remain valid as long as this object is used.

    The constructor raises RuntimeError if there is no device.
    """

    def __init__(self, stream_ptr: int, device: Any = None, **options: Any) -> None:
        index = _api.index(device)
        self._adopt(_api.require().external_stream(stream_ptr, index), streams.mt.device(f"cuda:{index}"))


class Event(streams.Event):
    """An event on the current CUDA device. The constructor raises RuntimeError if there is no device."""

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, external: bool = False
    ) -> None:
        super().__init__(f"cuda:{_api.current_device()}", enable_timing)


class StreamContext:
    """Context manager that makes a stream and its device the current ones. None has no effect."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            self.stream.__enter__()

    def __exit__(self, *_: Any) -> None:
        if self.stream is not None:
            self.stream.__exit__()
