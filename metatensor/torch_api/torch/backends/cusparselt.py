"""cuSPARSELt, which metatensor does not use."""

from __future__ import annotations

__all__ = ["is_available", "version"]


def is_available() -> bool:
    """Return False."""
    return False


def version() -> int | None:
    """Return None."""
    return None
