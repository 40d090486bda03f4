"""The accelerator: the first device type besides cpu and meta that a plugin provides and that has a device."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.torch_api.torch import streams
from metatensor.torch_api.torch._devices import DeviceApi, backend

__all__ = ["current_accelerator", "current_device_idx", "current_device_index", "current_stream", "device_count", "device_index",
           "empty_cache", "get_device_capability", "get_memory_info", "is_available", "max_memory_allocated",
           "max_memory_reserved", "memory_allocated", "memory_reserved", "memory_stats", "reset_accumulated_memory_stats",
           "reset_peak_memory_stats", "set_device_idx", "set_device_index", "set_stream", "synchronize"]  # fmt: skip

_KNOWN = ("cuda", "xpu", "mps", "mtia", "hpu", "npu", "privateuseone")
"""The accelerators of PyTorch; the first that is here is used. Other plugins' devices may be no place to compute."""


def _found() -> str | None:
    from metatensor import plugins

    there = plugins.device_types()
    for kind in _KNOWN:
        if kind in there:
            known = backend(kind)
            if known is not None and known.is_available():
                return kind
    return None


def _api() -> DeviceApi:
    kind = _found()
    if kind is None:
        raise RuntimeError("torch.accelerator: no accelerator is available")
    return DeviceApi(kind, RuntimeError)


def current_accelerator(check_available: bool = False) -> Any:
    """The device, without a number, or None. It is always one that is available."""
    kind = _found()
    return None if kind is None else mt.device(kind)


def is_available() -> bool:
    """Whether there is an accelerator."""
    return _found() is not None


def device_count() -> int:
    """How many devices the accelerator has, or 0."""
    kind = _found()
    return 0 if kind is None else DeviceApi(kind).device_count()


def current_device_index() -> int:
    """The number of the current device. RuntimeError where there is no accelerator."""
    return _api().current_device()


def set_device_index(device: Any, /) -> None:
    """Make a device the current one. RuntimeError where there is no accelerator."""
    _api().set_device(device)


current_device_idx, set_device_idx = current_device_index, set_device_index


class device_index:
    """A context in which a device is the current one; None has no effect."""

    def __init__(self, device: int | None, /) -> None:
        self.idx = device
        self.prev_idx: int | None = None

    def __enter__(self) -> None:
        if self.idx is not None:
            self.prev_idx = current_device_index()
            set_device_index(self.idx)

    def __exit__(self, *_: Any) -> None:
        if self.prev_idx is not None:
            set_device_index(self.prev_idx)


def get_device_capability(device: Any = None, /) -> dict[str, Any]:
    """What is known of a device, by name. RuntimeError where there is no accelerator."""
    return dict(vars(_api().get_device_properties(device)))


def synchronize(device: Any = None, /) -> None:
    """Wait for what was asked of a device. RuntimeError where there is no accelerator."""
    _api().synchronize(device)


def current_stream(device: Any = None, /) -> streams.Stream:
    """The stream that work on a device goes into. RuntimeError where there is no accelerator."""
    api = _api()
    return streams.Stream._of(api.require().current_stream(api.index(device)))  # type: ignore[no-any-return]


def set_stream(stream: streams.Stream) -> None:
    """Make a stream, and its device, the current ones. RuntimeError where there is no accelerator."""
    _api()
    stream._use(stream._stream.index, stream._stream)


def empty_cache() -> None:
    """Give back memory that is kept for later. RuntimeError where there is no accelerator."""
    _api().empty_cache()


def memory_stats(device_index: Any = None, /) -> Any:
    """The backend's figures by name. RuntimeError where there is no accelerator."""
    return _api().memory_stats(device_index)


def memory_allocated(device_index: Any = None, /) -> int:
    """The bytes of all tensors. RuntimeError where there is no accelerator."""
    return _api().memory_allocated(device_index)


def max_memory_allocated(device_index: Any = None, /) -> int:
    """The largest that `memory_allocated` has been. RuntimeError where there is no accelerator."""
    return _api().max_memory_allocated(device_index)


def memory_reserved(device_index: Any = None, /) -> int:
    """The bytes taken from the device. RuntimeError where there is no accelerator."""
    return _api().memory_reserved(device_index)


def max_memory_reserved(device_index: Any = None, /) -> int:
    """The largest that `memory_reserved` has been. RuntimeError where there is no accelerator."""
    return _api().max_memory_reserved(device_index)


def reset_peak_memory_stats(device_index: Any = None, /) -> None:
    """Let the peaks start again. RuntimeError where there is no accelerator."""
    _api().reset_peak_memory_stats(device_index)


def reset_accumulated_memory_stats(device_index: Any = None, /) -> None:
    """No sums over time are kept. RuntimeError where there is no accelerator."""
    _api()


def get_memory_info(device_index: Any = None, /) -> tuple[int, int]:
    """The free and all bytes of a device. RuntimeError where there is no accelerator."""
    return _api().mem_get_info(device_index)
