"""Hooks that replace how `DistributedDataParallel` averages a bucket."""

from metatensor._core.lazy import attributes

__getattr__, __dir__ = attributes(__name__, ("default_hooks",))
