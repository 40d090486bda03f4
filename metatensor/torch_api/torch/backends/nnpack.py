"""Settings of NNPACK, which metatensor does not call."""

from __future__ import annotations

from typing import Any

from metatensor.torch_api.torch.backends import _settings

__all__ = ["flags", "is_available", "set_flags"]

enabled = True


def is_available() -> bool:
    """False."""
    return False


def set_flags(_enabled: bool) -> tuple[bool]:
    """Keep the choice, and return what it was."""
    before = enabled
    _settings.replace(__name__, enabled=_enabled)
    return (before,)


def flags(enabled: bool = False) -> Any:
    """A context in which the choice is this."""
    return _settings.changed(__name__, enabled=enabled)
