"""Functions that distribute modules over processes."""

from metatensor.distributed._composable.replicate import replicate
from metatensor.distributed.fsdp import fully_shard

__all__ = ["fully_shard", "replicate"]
