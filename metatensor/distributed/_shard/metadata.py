"""Metadata of shards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["ShardMetadata"]


@dataclass
class ShardMetadata:
    """Offsets, sizes and placement of a shard. Raises ValueError if they are negative or differ in length."""

    shard_offsets: list[int]
    shard_sizes: list[int]
    placement: Any = None

    def __post_init__(self) -> None:
        if len(self.shard_offsets) != len(self.shard_sizes):
            raise ValueError(f"ShardMetadata: got {len(self.shard_offsets)} offsets, but {len(self.shard_sizes)} sizes")
        if any(value < 0 for value in (*self.shard_offsets, *self.shard_sizes)):
            raise ValueError(f"ShardMetadata: offsets and sizes must not be negative, got {self.shard_offsets} and {self.shard_sizes}")
