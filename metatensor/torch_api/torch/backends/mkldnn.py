"""Settings of oneDNN, which metatensor does not use."""

from __future__ import annotations

from typing import Any

from metatensor.torch_api.torch.backends import _settings

__all__ = ["allow_tf32", "conv", "deterministic", "enabled", "flags", "fp32_precision", "is_available", "matmul", "rnn", "set_flags",
           "verbose"]  # fmt: skip

VERBOSE_OFF, VERBOSE_ON, VERBOSE_ON_CREATION = 0, 1, 2

enabled = True
deterministic = False
allow_tf32: bool | None = None
fp32_precision = "none"
matmul, conv, rnn = _settings.Precision(), _settings.Precision(), _settings.Precision()


def is_available() -> bool:
    """Return False, because metatensor does not use oneDNN."""
    return False


def is_acl_available() -> bool:
    """Return False."""
    return False


def set_flags(
    _enabled: bool | None = None, _deterministic: bool | None = None, _allow_tf32: bool | None = None, _fp32_precision: str = "none"
) -> tuple[Any, ...]:
    """Change the given settings, and return the previous values of all settings."""
    before = (enabled, deterministic, allow_tf32, fp32_precision)
    _settings.replace(
        __name__, enabled=_enabled, deterministic=_deterministic, allow_tf32=_allow_tf32, fp32_precision=_fp32_precision
    )
    return before


def flags(enabled: bool = False, deterministic: bool = False, allow_tf32: bool = True, fp32_precision: str = "none") -> Any:
    """Return a context manager that changes the settings."""
    return _settings.changed(
        __name__, enabled=enabled, deterministic=deterministic, allow_tf32=allow_tf32, fp32_precision=fp32_precision
    )


class verbose:
    """A context manager that does nothing, because there are no messages from oneDNN."""

    def __init__(self, level: int) -> None:
        self.level = level

    def __enter__(self) -> verbose:
        return self

    def __exit__(self, *_: Any) -> None:
        return None
