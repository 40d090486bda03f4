"""Compiled code, which does not exist. `OptimizedModule` has no instances."""

from __future__ import annotations

from typing import Any

from metatensor._core.absent import kind

__all__ = ["OptimizedModule", "is_dynamo_supported"]

OptimizedModule: Any = kind("_dynamo.eval_frame.OptimizedModule", "nothing is compiled in metatensor")


def is_dynamo_supported() -> bool:
    """Return False."""
    return False
