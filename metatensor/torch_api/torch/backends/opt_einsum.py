"""The order in which `einsum` contracts: from left to right, as PyTorch does without the library opt_einsum."""

from __future__ import annotations

from typing import Any

from metatensor.torch_api.torch.backends import _settings

__all__ = ["enabled", "flags", "get_opt_einsum", "is_available", "set_flags", "strategy"]

enabled = False
strategy: str | None = None


def is_available() -> bool:
    """False: the library is not asked."""
    return False


def get_opt_einsum() -> None:
    """None."""


def set_flags(_enabled: bool | None = None, _strategy: str | None = None) -> tuple[Any, ...]:
    """Set those that are given, and return what both were. ValueError where it is to be enabled."""
    if _enabled:
        raise ValueError("torch.backends.opt_einsum: einsum contracts from left to right in metatensor")
    before = (enabled, strategy)
    _settings.replace(__name__, enabled=_enabled, strategy=_strategy)
    return before


def flags(enabled: bool | None = None, strategy: str | None = None) -> Any:
    """A context in which the settings are these."""
    if enabled:
        raise ValueError("torch.backends.opt_einsum: einsum contracts from left to right in metatensor")
    return _settings.changed(__name__, enabled=enabled, strategy=strategy)
