"""Optimizers whose state is sharded over processes."""

from metatensor._core.absent import kind

__all__ = ["ZeroRedundancyOptimizer"]

ZeroRedundancyOptimizer = kind("distributed.optim.ZeroRedundancyOptimizer", "metatensor has no communication between processes")
