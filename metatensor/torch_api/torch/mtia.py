"""Meta's accelerators, if a plugin provides the device type mtia."""

from __future__ import annotations

from metatensor.torch_api.torch._devices import DeviceApi, device_context

_api = DeviceApi("mtia", RuntimeError)
is_available, device_count, is_initialized, init = _api.is_available, _api.device_count, _api.is_initialized, _api.init
current_device, set_device, synchronize = _api.current_device, _api.set_device, _api.synchronize
get_device_properties, get_device_capability = _api.get_device_properties, _api.get_device_capability
is_bf16_supported = _api.is_bf16_supported
memory_stats, memory_allocated, memory_reserved = _api.memory_stats, _api.memory_allocated, _api.memory_reserved
max_memory_allocated, max_memory_reserved = _api.max_memory_allocated, _api.max_memory_reserved
reset_peak_memory_stats, empty_cache = _api.reset_peak_memory_stats, _api.empty_cache
manual_seed, manual_seed_all, seed, seed_all = _api.manual_seed, _api.manual_seed_all, _api.seed, _api.seed_all
get_rng_state, set_rng_state = _api.get_rng_state, _api.set_rng_state
device = device_context(_api)
