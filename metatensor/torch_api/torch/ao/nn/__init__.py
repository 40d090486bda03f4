"""Layers of quantized models."""

from metatensor.torch_api._lazy import attributes

__getattr__, __dir__ = attributes(__name__, ("quantized",))
