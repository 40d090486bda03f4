"""Settings of cuDNN, which metatensor does not use."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.torch_api.torch.backends import _settings

__all__ = ["allow_tf32", "benchmark", "benchmark_limit", "conv", "deterministic", "enabled", "flags", "fp32_precision", "is_acceptable",
           "is_available", "rnn", "set_flags", "version"]  # fmt: skip

enabled = True
benchmark = False
benchmark_limit: int | None = None
deterministic = False
allow_tf32 = True
fp32_precision = "none"
depthwise_kernel = "auto"
conv = _settings.Precision("tf32")
rnn = _settings.Precision("tf32")

CUDNN_TENSOR_DTYPES = {mt.float16, mt.float32, mt.float64}


def is_available() -> bool:
    """Return False, because metatensor does not use cuDNN."""
    return False


def version() -> int | None:
    """Return None."""
    return None


def is_acceptable(tensor: Any) -> bool:
    """Return False."""
    return False


def set_flags(
    _enabled: bool | None = None, _benchmark: bool | None = None, _benchmark_limit: int | None = None,
    _deterministic: bool | None = None, _allow_tf32: bool | None = None, _fp32_precision: str = "none",
    _depthwise_kernel: str | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    """Change the given settings, and return the previous values of all."""
    before = (enabled, benchmark, benchmark_limit, deterministic, allow_tf32, fp32_precision, depthwise_kernel)
    _settings.replace(
        __name__, enabled=_enabled, benchmark=_benchmark, benchmark_limit=_benchmark_limit, deterministic=_deterministic,
        allow_tf32=_allow_tf32, fp32_precision=_fp32_precision, depthwise_kernel=_depthwise_kernel,
    )  # fmt: skip
    return before


def flags(
    enabled: bool = False, benchmark: bool = False, benchmark_limit: int = 10, deterministic: bool = False, allow_tf32: bool = True,
    fp32_precision: str = "none", depthwise_kernel: str = "auto",
) -> Any:  # fmt: skip
    """Return a context manager that changes the settings."""
    return _settings.changed(
        __name__, enabled=enabled, benchmark=benchmark, benchmark_limit=benchmark_limit, deterministic=deterministic,
        allow_tf32=allow_tf32, fp32_precision=fp32_precision, depthwise_kernel=depthwise_kernel,
    )  # fmt: skip
