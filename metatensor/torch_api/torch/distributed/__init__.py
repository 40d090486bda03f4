"""Processes that work together."""

from __future__ import annotations

__all__ = ["is_available", "is_initialized"]


def is_available() -> bool:
    """False: metatensor has no communication between processes."""
    return False


def is_initialized() -> bool:
    """Whether `init_process_group` was called."""
    return False
