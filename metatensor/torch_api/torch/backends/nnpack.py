"""Settings of NNPACK, which metatensor does not use."""

from __future__ import annotations

from typing import Any

from metatensor.torch_api.torch.backends import _settings

__all__ = ["flags", "is_available", "set_flags"]

enabled = True


def is_available() -> bool:
    """Return False."""
    return False


def set_flags(_enabled: bool) -> tuple[bool]:
    """Store the setting, and return its previous value in a tuple."""
    before = enabled
    _settings.replace(__name__, enabled=_enabled)
    return (before,)


def flags(enabled: bool = False) -> Any:
    """Return a context manager that changes the setting."""
    return _settings.changed(__name__, enabled=enabled)
