"""Helpers for symbolic sizes and for tracing by execution, neither of which metatensor has."""

from metatensor._core.lazy import attributes

__getattr__, __dir__ = attributes(__name__, ("proxy_tensor", "symbolic_shapes"))
