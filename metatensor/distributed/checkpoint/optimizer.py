"""States of optimizers in sharded checkpoints."""

from metatensor.torch_api.torch._absent import function

__all__ = ["load_sharded_optimizer_state_dict"]

load_sharded_optimizer_state_dict = function(
    "distributed.checkpoint.load_sharded_optimizer_state_dict", "metatensor writes no sharded checkpoints"
)
