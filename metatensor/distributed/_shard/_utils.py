"""Views of parts of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["narrow_tensor", "narrow_tensor_by_index"]


def narrow_tensor_by_index(tensor: Any, offsets: Sequence[int], sizes: Sequence[int]) -> Any:
    """Return the view of a tensor that begins at ``offsets`` and has the given sizes."""
    for dim, (offset, size) in enumerate(zip(offsets, sizes)):
        if size < tensor.size(dim):
            tensor = tensor.narrow(dim, offset, size)
    return tensor


def narrow_tensor(tensor: Any, metadata: Any) -> Any:
    """Return the view of a tensor that a `ShardMetadata` describes."""
    return narrow_tensor_by_index(tensor, metadata.shard_offsets, metadata.shard_sizes)
