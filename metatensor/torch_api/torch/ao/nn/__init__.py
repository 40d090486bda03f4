"""Layers of quantized models."""

from metatensor._core.lazy import attributes

__getattr__, __dir__ = attributes(__name__, ("quantized",))
