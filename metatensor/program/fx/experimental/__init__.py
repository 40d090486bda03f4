"""Sizes that are symbols, which metatensor does not have, and questions about them."""

from metatensor._core.lazy import attributes

__getattr__, __dir__ = attributes(__name__, ("proxy_tensor", "symbolic_shapes"))
