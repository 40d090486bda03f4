"""Apple GPUs, if a plugin provides the device type mps."""

from __future__ import annotations

from metatensor.torch_api.torch._devices import DeviceApi

__all__ = ["current_allocated_memory", "device_count", "driver_allocated_memory", "empty_cache", "get_rng_state", "is_available",
           "manual_seed", "recommended_max_memory", "seed", "set_per_process_memory_fraction", "set_rng_state",
           "synchronize"]  # fmt: skip

_api = DeviceApi("mps", RuntimeError)
is_available, device_count, synchronize = _api.is_available, _api.device_count, _api.synchronize
manual_seed, seed = _api.manual_seed, _api.seed
get_rng_state, set_rng_state = _api.get_rng_state, _api.set_rng_state


def empty_cache() -> None:
    """Release cached memory. Raise RuntimeError if there is no device."""
    _api.require().empty_cache()


def current_allocated_memory() -> int:
    """Return the number of bytes in use by tensors. Raise RuntimeError if there is no device."""
    _api.require()
    return _api.memory_allocated()


def driver_allocated_memory() -> int:
    """Return the number of bytes reserved from the device. Raise RuntimeError if there is no device."""
    _api.require()
    return _api.memory_reserved()


def recommended_max_memory() -> int:
    """Return the total memory of the device in bytes. Raise RuntimeError if there is no device."""
    return _api.mem_get_info()[1]


def set_per_process_memory_fraction(fraction: float) -> None:
    """Raise NotImplementedError: backends do not limit memory.

    Raise TypeError if `fraction` is not a float, and RuntimeError if there is no device.
    """
    if not isinstance(fraction, float):
        raise TypeError(f"set_per_process_memory_fraction: expected a float, got {type(fraction).__name__}")
    _api.require()
    raise NotImplementedError("torch.mps.set_per_process_memory_fraction: metatensor's backends do not limit memory")
