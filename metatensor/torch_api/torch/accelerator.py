"""The accelerator: the first of PyTorch's accelerator types for which a plugin provides a device.

Most functions raise RuntimeError if there is no accelerator.
"""

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
"""PyTorch's accelerator types in order of preference. Other device types, such as disk, are never the accelerator."""


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
    """Return the accelerator as a device without an index, or None if no device is available."""
    kind = _found()
    return None if kind is None else mt.device(kind)


def is_available() -> bool:
    """Return whether there is an accelerator."""
    return _found() is not None


def device_count() -> int:
    """Return the number of devices of the accelerator, or 0."""
    kind = _found()
    return 0 if kind is None else DeviceApi(kind).device_count()


def current_device_index() -> int:
    """Return the index of the current device."""
    return _api().current_device()


def set_device_index(device: Any, /) -> None:
    """Set the current device."""
    _api().set_device(device)


current_device_idx, set_device_idx = current_device_index, set_device_index


class device_index:
    """Context manager that sets the current device. None has no effect."""

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
    """Return the properties of a device by name."""
    return dict(vars(_api().get_device_properties(device)))


def synchronize(device: Any = None, /) -> None:
    """Wait until a device has finished all its work."""
    _api().synchronize(device)


def current_stream(device: Any = None, /) -> streams.Stream:
    """Return the current stream of a device."""
    api = _api()
    return streams.Stream._of(api.require().current_stream(api.index(device)))  # type: ignore[no-any-return]


def set_stream(stream: streams.Stream) -> None:
    """Make a stream and its device the current ones."""
    _api()
    stream._use(stream._stream.index, stream._stream)


def empty_cache() -> None:
    """Release cached memory."""
    _api().empty_cache()


def memory_stats(device_index: Any = None, /) -> Any:
    """Return the memory statistics of the backend by name."""
    return _api().memory_stats(device_index)


def memory_allocated(device_index: Any = None, /) -> int:
    """Return the number of bytes in use by tensors."""
    return _api().memory_allocated(device_index)


def max_memory_allocated(device_index: Any = None, /) -> int:
    """Return the peak of `memory_allocated`."""
    return _api().max_memory_allocated(device_index)


def memory_reserved(device_index: Any = None, /) -> int:
    """Return the number of bytes reserved from the device."""
    return _api().memory_reserved(device_index)


def max_memory_reserved(device_index: Any = None, /) -> int:
    """Return the peak of `memory_reserved`."""
    return _api().max_memory_reserved(device_index)


def reset_peak_memory_stats(device_index: Any = None, /) -> None:
    """Reset the peaks to the current values."""
    _api().reset_peak_memory_stats(device_index)


def reset_accumulated_memory_stats(device_index: Any = None, /) -> None:
    """Do nothing, because there are no accumulated statistics."""
    _api()


def get_memory_info(device_index: Any = None, /) -> tuple[int, int]:
    """Return the free and the total memory of a device in bytes."""
    return _api().mem_get_info(device_index)
