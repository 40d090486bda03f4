"""The older interface to sharded tensors."""

from metatensor._core.lazy import attributes

__getattr__, __dir__ = attributes(__name__, ("_utils", "metadata", "sharded_tensor"))
