"""Marks for NVIDIA's profilers. They have no effect."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


def range_push(msg: str) -> int:
    """No effect: 0."""
    return 0


def range_pop() -> int:
    """No effect: 0."""
    return 0


def range_start(msg: str) -> int:
    """No effect: 0."""
    return 0


def range_end(range_id: int) -> None:
    """No effect."""


def mark(msg: str) -> None:
    """No effect."""


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Any:
    """A context manager, or a decorator, without effect."""
    yield
