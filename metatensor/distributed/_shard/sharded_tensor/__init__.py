"""The older class of sharded tensors, which cannot be created."""

from metatensor._core.absent import kind
from metatensor.distributed._shard.metadata import ShardMetadata

__all__ = ["Shard", "ShardMetadata", "ShardedTensor"]

_WHY = "metatensor has no communication between processes"
ShardedTensor = kind("distributed._shard.sharded_tensor.ShardedTensor", _WHY)
Shard = kind("distributed._shard.sharded_tensor.Shard", _WHY)
