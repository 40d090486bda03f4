"""Base classes of passes, and their management."""

from metatensor._core.lazy import attributes

__getattr__, __dir__ = attributes(__name__, ("partitioner", "pass_base", "pass_manager"))
