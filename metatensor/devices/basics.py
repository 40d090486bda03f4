"""Kernels that every device gets without writing any: allocation, upload, filling with one value, ranges, and random numbers.

They use only the methods that a backend must implement. A device's own kernel of the same name takes precedence.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from metatensor.devices.base import DeviceBackend

__all__ = ["NAMES", "basic_kernel", "drawn_on_host", "fill_new_memory", "host", "settings"]

# torch.use_deterministic_algorithms sets the first, torch.utils.deterministic the second.
settings = {"deterministic": False, "fill": True}

_ALLOCATIONS = ("empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted")
_CONSTANTS = {
    **dict.fromkeys(("zeros", "zeros_like", "new_zeros", "zero"), 0),
    **dict.fromkeys(("ones", "ones_like", "new_ones"), 1),
}
# Operators that fill with one of their arguments, and the position of that argument.
_FILLS = {"full": 1, "full_like": 1, "new_full": 2, "fill": 1, "scalar_tensor": 0}

# These are made on the host and then copied to the device.
_RANGES = ("arange",)
# Random numbers are also made on the host, by the generator that all devices share, so a seed gives the same values everywhere.
_RANDOM = (
    "rand", "randn", "rand_like", "randn_like", "randint", "randint.low", "randint_like", "randint_like.low", "randperm", "uniform_",
    "normal_", "normal.float_float", "random_.from", "random_.to", "bernoulli_", "exponential_", "geometric_", "cauchy_",
    "log_normal_", "bernoulli", "bernoulli.p", "multinomial", "poisson", "binomial",
)  # fmt: skip

NAMES = frozenset({*_ALLOCATIONS, "_from_host", *_CONSTANTS, *_FILLS, *_RANGES, *_RANDOM})


def basic_kernel(backend: DeviceBackend, name: str) -> Callable[..., None] | None:
    """Return a kernel for operator `name` that uses only the required methods of `backend`, or None."""
    if name in _ALLOCATIONS:
        return lambda out, *_: fill_new_memory(out) if settings["deterministic"] else None
    if name == "_from_host":
        return lambda out, data, *_: backend.from_host(out, data) if out.numel() else None
    if name in _CONSTANTS:
        value = _CONSTANTS[name]
        return lambda out, *_: _fill(backend, out, value)
    if name in _FILLS:
        place = _FILLS[name]
        return lambda out, *args: _fill(backend, out, args[place])
    if name in _RANGES or name in _RANDOM:
        return _from_host(backend, name)
    return None


def fill_new_memory(out: Any) -> None:
    """Fill memory that nothing has written to: with NaN, True or the largest integer, if the settings say so."""
    if not (settings["deterministic"] and settings["fill"]) or not out.numel():
        return
    from metatensor import iinfo
    from metatensor._core.device import backend_for

    if out.dtype.is_floating_point or out.dtype.is_complex:
        value: Any = float("nan")
    else:
        value = True if out.dtype.name == "bool" else iinfo(out.dtype).max
    _fill(backend_for(out.device.type), out, value)


def _from_host(backend: DeviceBackend, name: str) -> Callable[..., None] | None:
    from metatensor.devices.fallback import host_kernel

    return host_kernel(name, backend, host()) if backend.type != "cpu" else None


def drawn_on_host(name: str, device: Any) -> Callable[..., None] | None:
    """Return the host's kernel of the random operator `name` for tensors of `device`, or None."""
    from metatensor._core.device import backend_for
    from metatensor.devices.fallback import host_kernel

    return host_kernel(name, backend_for(device.type), host())


@lru_cache(maxsize=1)
def host() -> Any:
    """Return the array kit over NumPy. It works even if the cpu device is not installed."""
    import numpy as np

    from metatensor.devices.array_kit import ArrayBackend

    return ArrayBackend("cpu", np, special="scipy.special")


def _fill(backend: DeviceBackend, out: Any, value: Any) -> None:
    """Fill `out` with `value`. Only one element is sent from the host, then it is copied to all places."""
    import metatensor

    if not isinstance(value, metatensor.Tensor):
        value = metatensor.tensor(value, dtype=out.dtype, device=out.device)
    elif value.device != out.device:
        value = value.to(out.device)
    if out.numel():
        backend.copy(out, value.expand(out.shape))
