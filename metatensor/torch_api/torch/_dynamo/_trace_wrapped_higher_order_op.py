"""A context manager for indexing with 0-d tensors."""

from __future__ import annotations

from typing import Any

__all__ = ["TransformGetItemToIndex"]


class TransformGetItemToIndex:
    """Context manager inside which indexing with a 0-d tensor reads no values.

    It does nothing, because in metatensor such an index never reads values inside `vmap`.
    """

    def __enter__(self) -> TransformGetItemToIndex:
        return self

    def __exit__(self, *_: Any) -> None:
        return None
