"""PyTorch settings. All but the number of threads and the deterministic mode are stored and have no effect: they select among
algorithms that metatensor does not have."""

from __future__ import annotations

import os
from typing import Any

from metatensor.devices import basics
from metatensor.devices.threads import get_num_threads, set_num_threads

__all__ = [
    "are_deterministic_algorithms_enabled", "compiled_with_cxx11_abi", "get_deterministic_debug_mode",
    "get_float32_matmul_precision", "get_num_interop_threads", "get_num_threads",
    "is_deterministic_algorithms_warn_only_enabled", "is_warn_always_enabled", "set_deterministic_debug_mode",
    "set_float32_matmul_precision", "set_flush_denormal", "set_num_interop_threads", "set_num_threads", "set_warn_always",
    "use_deterministic_algorithms",
]  # fmt: skip

_kept: dict[str, Any] = {
    "interop_threads": os.cpu_count() or 1,
    "warn_only": False,
    "warn_always": False,
    "precision": "highest",
}


def get_num_interop_threads() -> int:
    """Return the number set by `set_num_interop_threads`."""
    return int(_kept["interop_threads"])


def set_num_interop_threads(n: int) -> None:
    """Store the positive int `n`. Raise RuntimeError if it is not positive and TypeError if it is not an int."""
    _kept["interop_threads"] = _positive("set_num_interop_threads", n)


def _positive(name: str, n: Any) -> int:
    if not isinstance(n, int) or isinstance(n, bool):
        raise TypeError(f"{name}: expected an int, got {type(n).__name__}")
    if not 1 <= n < 2**31:
        raise RuntimeError(f"{name}: expected a positive number of threads below 2**31, got {n}")
    return n


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Set the deterministic mode.

    It does not choose among algorithms. In this mode, `empty` and `resize_` fill new memory, unless
    `torch.utils.deterministic.fill_uninitialized_memory` is False. Raise TypeError unless the arguments are bools.
    """
    for value in (mode, warn_only):
        if not isinstance(value, bool):
            raise TypeError(f"use_deterministic_algorithms: expected a bool, got {type(value).__name__}")
    basics.settings["deterministic"], _kept["warn_only"] = mode, warn_only


def are_deterministic_algorithms_enabled() -> bool:
    """Return the mode set by `use_deterministic_algorithms`."""
    return basics.settings["deterministic"]


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Return `warn_only` as set by `use_deterministic_algorithms`."""
    return bool(_kept["warn_only"])


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Store a mode: 0 or "default", 1 or "warn", 2 or "error". Raise RuntimeError for any other."""
    modes: dict[Any, int] = {"default": 0, "warn": 1, "error": 2, 0: 0, 1: 1, 2: 2}
    if not isinstance(debug_mode, (int, str)):
        raise TypeError(f"set_deterministic_debug_mode: expected an int or a str, got {type(debug_mode).__name__}")
    if debug_mode not in modes:
        raise RuntimeError(f"set_deterministic_debug_mode: expected default, warn or error, or 0, 1 or 2, got {debug_mode!r}")
    use_deterministic_algorithms(modes[debug_mode] > 0, warn_only=modes[debug_mode] == 1)


def get_deterministic_debug_mode() -> int:
    """Return 0 if the mode is "default", 1 for "warn" and 2 for "error"."""
    return 0 if not basics.settings["deterministic"] else 1 if _kept["warn_only"] else 2


def set_float32_matmul_precision(precision: str) -> None:
    """Store "highest", "high" or "medium". float32 products are always computed in float32."""
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError(f"set_float32_matmul_precision: expected highest, high or medium, got {precision!r}")
    _kept["precision"] = precision


def get_float32_matmul_precision() -> str:
    """Return the value set by `set_float32_matmul_precision`."""
    return str(_kept["precision"])


def set_warn_always(b: bool) -> None:
    """Store the setting."""
    _kept["warn_always"] = bool(b)


def is_warn_always_enabled() -> bool:
    """Return the value set by `set_warn_always`."""
    return bool(_kept["warn_always"])


def set_flush_denormal(mode: bool) -> bool:
    """Return False: the mode of the processor is not changed."""
    return False


def compiled_with_cxx11_abi() -> bool:
    """Return True, as PyTorch does since version 2.6. There is no C++ library to link with."""
    return True
