"""Optimizers whose state is divided between ranks."""

from metatensor.distributed.zero_optimizer import ZeroRedundancyOptimizer

__all__ = ["ZeroRedundancyOptimizer"]
