"""Passes over graphs."""

from metatensor._core.lazy import attributes

__getattr__, __dir__ = attributes(__name__, ("infra", "shape_prop", "split_module"))
