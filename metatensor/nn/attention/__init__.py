"""Which kernel computes attention: PyTorch's switch, for programs that set it. There is one kernel for each device.

`metatensor.nn.attention.bias` has causal masks that are not tensors yet, `metatensor.nn.attention.flex_attention`
attention with scores and masks that are functions.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from importlib import import_module
from typing import Any

__all__ = [
    "SDPBackend",
    "WARN_FOR_UNFUSED_KERNELS",
    "activate_flash_attention_impl",
    "current_flash_attention_impl",
    "list_flash_attention_impls",
    "register_flash_attention_impl",
    "restore_flash_attention_impl",
    "sdpa_kernel",
]

WARN_FOR_UNFUSED_KERNELS = False


def __getattr__(name: str) -> Any:
    if name in ("bias", "flex_attention"):
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class SDPBackend(IntEnum):
    """PyTorch's kernels of `scaled_dot_product_attention`, with its numbers."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4

    def __str__(self) -> str:
        return f"SDPBackend.{self.name}"


_ORDER = (
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
    SDPBackend.CUDNN_ATTENTION,
    SDPBackend.OVERRIDEABLE,
)


class _Chosen(threading.local):
    backends: tuple[SDPBackend, ...] = _ORDER


_chosen = _Chosen()


def _cur_sdpa_kernel_backends(with_priority: bool = False) -> list[SDPBackend]:
    """The kernels that this thread's innermost `sdpa_kernel` names; all of them outside of any."""
    return list(_chosen.backends)


def _backend_from_string(name: str) -> SDPBackend:
    return SDPBackend[name]


@contextmanager
def sdpa_kernel(backends: list[SDPBackend] | SDPBackend, set_priority: bool = False) -> Iterator[dict[str, Any]]:
    """A context in which attention is to be computed by one of these kernels; it gives the same results.

    AssertionError for anything but a `SDPBackend` or a list.
    """
    if not isinstance(backends, (list, SDPBackend)):
        raise AssertionError(f"sdpa_kernel: expected a SDPBackend or a list of them, got {type(backends).__name__}")
    named = list(dict.fromkeys([backends] if isinstance(backends, SDPBackend) else backends))
    before = _chosen.backends
    _chosen.backends = tuple(named if set_priority else [kernel for kernel in _ORDER if kernel in named])
    try:
        yield {}
    finally:
        _chosen.backends = before


# Other implementations of flash attention -------------------------------------------------------------------------------


def register_flash_attention_impl(impl: str, *, register_fn: Callable[..., Any]) -> None:
    """NotImplementedError: the kernels of attention are the devices' own."""
    raise NotImplementedError(f"register_flash_attention_impl({impl!r}): attention is computed by the kernels of devices")


def activate_flash_attention_impl(impl: str) -> None:
    """ValueError: there is none to choose."""
    raise ValueError(f"activate_flash_attention_impl: there is no implementation {impl!r}; attention is computed by devices")


def list_flash_attention_impls() -> list[str]:
    """There are none."""
    return []


def current_flash_attention_impl() -> str | None:
    """None: there are none."""
    return None


def restore_flash_attention_impl(_raise_warn: bool = True) -> None:
    """No effect."""
