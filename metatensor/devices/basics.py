"""The kernels that every device has by its five methods: memory as it comes, from the host, filled with one value, or random.

A device's own kernel of the same name comes first.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from metatensor.devices.base import DeviceBackend

__all__ = ["NAMES", "basic_kernel", "host"]

_ALLOCATIONS = ("empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted")
_CONSTANTS = {
    **dict.fromkeys(("zeros", "zeros_like", "new_zeros", "zero"), 0),
    **dict.fromkeys(("ones", "ones_like", "new_ones"), 1),
}
# Ops that fill with one of their arguments, and its place.
_FILLS = {"full": 1, "full_like": 1, "new_full": 2, "fill": 1, "scalar_tensor": 0}

# Drawn on the host, by the counters that every device draws by, and sent: a seed means the same everywhere.
_RANDOM = (
    "rand", "randn", "rand_like", "randn_like", "randint", "randint.low", "randint_like", "randint_like.low", "randperm", "uniform_",
    "normal_", "normal.float_float", "random_.from", "random_.to", "bernoulli_", "exponential_", "geometric_", "cauchy_",
    "log_normal_", "bernoulli", "bernoulli.p", "multinomial", "poisson", "binomial",
)  # fmt: skip

NAMES = frozenset({*_ALLOCATIONS, "_from_host", *_CONSTANTS, *_FILLS, *_RANDOM})


def basic_kernel(backend: DeviceBackend, name: str) -> Callable[..., None] | None:
    """The kernel of op `name` by means of the methods of `backend` alone, or None."""
    if name in _ALLOCATIONS:
        return lambda out, *_: None
    if name == "_from_host":
        return lambda out, data, *_: backend.from_host(out, data) if out.numel() else None
    if name in _CONSTANTS:
        value = _CONSTANTS[name]
        return lambda out, *_: _fill(backend, out, value)
    if name in _FILLS:
        place = _FILLS[name]
        return lambda out, *args: _fill(backend, out, args[place])
    if name in _RANDOM:
        return _random(backend, name)
    return None


def _random(backend: DeviceBackend, name: str) -> Callable[..., None] | None:
    from metatensor.devices.fallback import host_kernel

    return host_kernel(name, backend, host()) if backend.type != "cpu" else None


@lru_cache(maxsize=1)
def host() -> Any:
    """The array kit over NumPy, which need not be installed as the cpu device."""
    import numpy as np

    from metatensor.devices.array_kit import ArrayBackend

    return ArrayBackend("cpu", np, special="scipy.special")


def _fill(backend: DeviceBackend, out: Any, value: Any) -> None:
    """One element, sent from the host, copied everywhere."""
    import metatensor

    if not isinstance(value, metatensor.Tensor):
        value = metatensor.tensor(value, dtype=out.dtype, device=out.device)
    elif value.device != out.device:
        value = value.to(out.device)
    if out.numel():
        backend.copy(out, value.expand(out.shape))
