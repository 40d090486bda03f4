"""Functions that select attention kernels, for compatibility with programs that call them.

Each device has a single attention kernel, so the selection does not change results. The submodule `bias` has causal
masks that need no memory, `flex_attention` has attention whose scores and masks are computed by functions, and `varlen` attention of
sequences of different lengths.
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
    if name in ("bias", "flex_attention", "varlen"):
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class SDPBackend(IntEnum):
    """PyTorch's kernels for `scaled_dot_product_attention`, with PyTorch's enum values."""

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
    """Return the kernels that this thread's innermost `sdpa_kernel` context allows, or all if there is none."""
    return list(_chosen.backends)


def _backend_from_string(name: str) -> SDPBackend:
    return SDPBackend[name]


@contextmanager
def sdpa_kernel(backends: list[SDPBackend] | SDPBackend, set_priority: bool = False) -> Iterator[dict[str, Any]]:
    """Context manager that records which attention kernels a program allows. Results do not depend on it.

    Parameters
    ----------
    backends : SDPBackend or list of SDPBackend
        Allowed kernels.
    set_priority : bool
        Keep the order of ``backends`` instead of the default order. Default False.

    Raises
    ------
    AssertionError
        If ``backends`` is neither an `SDPBackend` nor a list.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.nn.attention import SDPBackend, sdpa_kernel
    >>> q = mt.empty(1, 2, 5, 8)
    >>> with sdpa_kernel(SDPBackend.MATH):
    ...     out = mt.nn.functional.scaled_dot_product_attention(q, q, q)
    >>> out.shape
    metatensor.Size([1, 2, 5, 8])
    """
    if not isinstance(backends, (list, SDPBackend)):
        raise AssertionError(f"sdpa_kernel: expected an SDPBackend or a list of them, got {type(backends).__name__}")
    named = list(dict.fromkeys([backends] if isinstance(backends, SDPBackend) else backends))
    before = _chosen.backends
    _chosen.backends = tuple(named if set_priority else [kernel for kernel in _ORDER if kernel in named])
    try:
        yield {}
    finally:
        _chosen.backends = before


# Other implementations of flash attention -------------------------------------------------------------------------------


def register_flash_attention_impl(impl: str, *, register_fn: Callable[..., Any]) -> None:
    """Raise NotImplementedError: each device has its own attention kernel."""
    raise NotImplementedError(f"register_flash_attention_impl({impl!r}): attention is computed by the kernels of devices")


def activate_flash_attention_impl(impl: str) -> None:
    """Raise ValueError: there are no implementations to choose from."""
    raise ValueError(f"activate_flash_attention_impl: there is no implementation {impl!r}; attention is computed by devices")


def list_flash_attention_impls() -> list[str]:
    """Return an empty list: there are no implementations to choose from."""
    return []


def current_flash_attention_impl() -> str | None:
    """Return None: there are no implementations to choose from."""
    return None


def restore_flash_attention_impl(_raise_warn: bool = True) -> None:
    """Do nothing: there are no implementations to choose from."""
