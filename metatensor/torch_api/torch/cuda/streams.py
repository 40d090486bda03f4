"""Streams and events of CUDA devices: names for the one queue that each device has."""

from __future__ import annotations

from typing import Any

from metatensor.torch_api.torch import streams
from metatensor.torch_api.torch._devices import DeviceApi

__all__ = ["Event", "ExternalStream", "Stream", "StreamContext"]

_api = DeviceApi("cuda", RuntimeError)


class Stream(streams.Stream):
    """The queue of a CUDA device. RuntimeError where there is none."""

    def __init__(self, device: Any = None, priority: int = 0, **options: Any) -> None:
        super().__init__(f"cuda:{_api.index(device)}", priority)

    @property
    def cuda_stream(self) -> int:
        """The handle of CUDA's default stream: 0."""
        return 0


class ExternalStream(Stream):
    """NotImplementedError: work does not go to streams made elsewhere."""

    def __init__(self, stream_ptr: int, device: Any = None, **options: Any) -> None:
        raise NotImplementedError("torch.cuda.ExternalStream: work does not go to streams made elsewhere in metatensor")


class Event(streams.Event):
    """A mark in the queue of the current CUDA device. RuntimeError where there is none."""

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, external: bool = False
    ) -> None:
        super().__init__(f"cuda:{_api.current_device()}", enable_timing)


class StreamContext:
    """A context in which a stream's device is the current one; None has no effect."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream
        self._before: int | None = None

    def __enter__(self) -> None:
        if self.stream is not None:
            self._before = _api.current_device()
            _api.set_device(self.stream.device)

    def __exit__(self, *_: Any) -> None:
        if self._before is not None:
            _api.set_device(self._before)
