"""Intel GPUs, if a plugin provides the device type xpu."""

from __future__ import annotations

from typing import Any

from metatensor.torch_api.torch import streams
from metatensor.torch_api.torch._devices import DeviceApi, device_context

_api = DeviceApi("xpu")
is_available, device_count, is_initialized, init = _api.is_available, _api.device_count, _api.is_initialized, _api.init
current_device, set_device, synchronize = _api.current_device, _api.set_device, _api.synchronize
get_device_properties, get_device_name = _api.get_device_properties, _api.get_device_name
is_bf16_supported = _api.is_bf16_supported
is_current_stream_capturing = _api.is_current_stream_capturing
memory_stats, memory_allocated, memory_reserved = _api.memory_stats, _api.memory_allocated, _api.memory_reserved
max_memory_allocated, max_memory_reserved = _api.max_memory_allocated, _api.max_memory_reserved
reset_peak_memory_stats, mem_get_info, empty_cache = _api.reset_peak_memory_stats, _api.mem_get_info, _api.empty_cache
manual_seed, manual_seed_all, seed, seed_all = _api.manual_seed, _api.manual_seed_all, _api.seed, _api.seed_all
initial_seed, get_rng_state, set_rng_state = _api.initial_seed, _api.get_rng_state, _api.set_rng_state
get_rng_state_all, set_rng_state_all = _api.get_rng_state_all, _api.set_rng_state_all
device = device_context(_api)


def get_device_capability(device: Any = None) -> dict[str, Any]:
    """Return the properties of a device by name."""
    return dict(vars(get_device_properties(device)))


class Stream(streams.Stream):
    """A stream of an xpu device. The constructor raises AssertionError if there is no device."""

    def __init__(self, device: Any = None, priority: int = 0, **options: Any) -> None:
        super().__init__(f"xpu:{_api.index(device)}", priority)


class Event(streams.Event):
    """An event on the current xpu device. The constructor raises AssertionError if there is no device."""

    def __init__(self, enable_timing: bool = False, **options: Any) -> None:
        super().__init__(f"xpu:{_api.current_device()}", enable_timing)


def current_stream(device: Any = None) -> Stream:
    """Return a stream of a device."""
    return Stream(device)
