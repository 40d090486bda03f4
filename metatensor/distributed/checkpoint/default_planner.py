"""The planners that are used where none is given."""

from metatensor.distributed.checkpoint.planner import DefaultLoadPlanner, DefaultSavePlanner

__all__ = ["DefaultLoadPlanner", "DefaultSavePlanner"]
