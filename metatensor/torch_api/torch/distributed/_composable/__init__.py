"""Functions that spread modules over processes."""

from metatensor.torch_api.torch.distributed.fsdp import fully_shard

__all__ = ["fully_shard"]
