"""Automatic mixed precision: `metatensor.amp`, older names of its functions, and gradient scaling."""

from typing import Any

from metatensor import amp as _amp
from metatensor._core.lazy import attributes
from metatensor.amp import (
    autocast_decrement_nesting,
    autocast_increment_nesting,
    clear_autocast_cache,
    get_autocast_dtype,
    is_autocast_cache_enabled,
    is_autocast_enabled,
    set_autocast_cache_enabled,
    set_autocast_dtype,
)
from metatensor.torch_api.torch.amp.autocast_mode import (
    _enter_autocast,
    _exit_autocast,
    autocast,
    custom_bwd,
    custom_fwd,
    is_autocast_available,
)
from metatensor.torch_api.torch.amp.grad_scaler import GradScaler

__all__ = [
    "GradScaler", "_enter_autocast", "_exit_autocast", "autocast", "autocast_decrement_nesting", "autocast_increment_nesting",
    "clear_autocast_cache", "custom_bwd", "custom_fwd", "get_autocast_cpu_dtype", "get_autocast_dtype", "get_autocast_gpu_dtype",
    "is_autocast_available", "is_autocast_cache_enabled", "is_autocast_cpu_enabled", "is_autocast_enabled",
    "set_autocast_cache_enabled", "set_autocast_cpu_dtype", "set_autocast_cpu_enabled", "set_autocast_dtype",
    "set_autocast_enabled", "set_autocast_gpu_dtype",
]  # fmt: skip

__getattr__, __dir__ = attributes(__name__, ("autocast_mode", "grad_scaler"))


def set_autocast_enabled(device_type: Any, enabled: Any = None) -> None:
    """Enable or disable autocast for a device type. ``set_autocast_enabled(True)`` means cuda."""
    if enabled is None:
        device_type, enabled = "cuda", device_type
    _amp.set_autocast_enabled(device_type, enabled)


def is_autocast_cpu_enabled() -> bool:
    """Return whether autocast is enabled for cpu."""
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """Enable or disable autocast for cpu."""
    _amp.set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype() -> Any:
    """Return the dtype of autocast for cpu."""
    return get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype: Any) -> None:
    """Set the dtype of autocast for cpu."""
    set_autocast_dtype("cpu", dtype)


def get_autocast_gpu_dtype() -> Any:
    """Return the dtype of autocast for cuda."""
    return get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype: Any) -> None:
    """Set the dtype of autocast for cuda."""
    set_autocast_dtype("cuda", dtype)
