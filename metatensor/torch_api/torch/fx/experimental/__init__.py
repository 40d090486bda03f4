"""Sizes that are symbols, which metatensor does not have, and questions about them."""

from metatensor.torch_api._lazy import attributes

__getattr__, __dir__ = attributes(__name__, ("proxy_tensor", "symbolic_shapes"))
