"""The result type of passes."""

from metatensor._core.lazy import attributes

__getattr__, __dir__ = attributes(__name__, ("pass_base",))
