"""The default planners."""

from metatensor.distributed.checkpoint.planner import DefaultLoadPlanner, DefaultSavePlanner

__all__ = ["DefaultLoadPlanner", "DefaultSavePlanner"]
