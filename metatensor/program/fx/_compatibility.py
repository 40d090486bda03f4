"""The decorator that marks how stable a function of PyTorch is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["compatibility"]


def compatibility(is_backward_compatible: bool) -> Callable[[Any], Any]:
    """Return a decorator that returns what it decorates."""
    return lambda decorated: decorated
