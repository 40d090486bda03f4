"""Subscripts by tensors as operators."""

from __future__ import annotations

from typing import Any

__all__ = ["TransformGetItemToIndex"]


class TransformGetItemToIndex:
    """A context in which subscripts by tensors of one element read no values. In `vmap` they never do here, so it has no effect."""

    def __enter__(self) -> TransformGetItemToIndex:
        return self

    def __exit__(self, *_: Any) -> None:
        return None
