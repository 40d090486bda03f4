"""Tracing by execution (`proxy_tensor`), transformations for inference, and queries about symbolic sizes.

metatensor has no symbolic sizes, so each query has a definite answer.
"""

from metatensor._core.lazy import attributes

__getattr__, __dir__ = attributes(__name__, ("normalize", "optimization", "proxy_tensor", "symbolic_shapes"))
