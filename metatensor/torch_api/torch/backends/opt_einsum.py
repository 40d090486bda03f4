"""The order of contractions in `einsum`. It is from left to right, as in PyTorch without the library opt_einsum."""

from __future__ import annotations

from typing import Any

from metatensor.torch_api.torch.backends import _settings

__all__ = ["enabled", "flags", "get_opt_einsum", "is_available", "set_flags", "strategy"]

enabled = False
strategy: str | None = None


def is_available() -> bool:
    """Return False, because the library is not used."""
    return False


def get_opt_einsum() -> None:
    """Return None."""


def set_flags(_enabled: bool | None = None, _strategy: str | None = None) -> tuple[Any, ...]:
    """Change the given settings, and return the previous values of both. Raise ValueError if `_enabled` is true."""
    if _enabled:
        raise ValueError("torch.backends.opt_einsum: einsum contracts from left to right in metatensor")
    before = (enabled, strategy)
    _settings.replace(__name__, enabled=_enabled, strategy=_strategy)
    return before


def flags(enabled: bool | None = None, strategy: str | None = None) -> Any:
    """Return a context manager that changes the settings. Raise ValueError if `enabled` is true."""
    if enabled:
        raise ValueError("torch.backends.opt_einsum: einsum contracts from left to right in metatensor")
    return _settings.changed(__name__, enabled=enabled, strategy=strategy)
