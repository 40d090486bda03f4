"""Optimizer states in sharded checkpoints."""

from metatensor._core.absent import function

__all__ = ["load_sharded_optimizer_state_dict"]

load_sharded_optimizer_state_dict = function(
    "distributed.checkpoint.load_sharded_optimizer_state_dict", "metatensor does not support sharded optimizer states"
)
