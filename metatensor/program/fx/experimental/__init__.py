"""Tracing by execution (`proxy_tensor`), and queries about symbolic sizes (`symbolic_shapes`).

metatensor has no symbolic sizes, so each query has a definite answer.
"""

from metatensor._core.lazy import attributes

__getattr__, __dir__ = attributes(__name__, ("proxy_tensor", "symbolic_shapes"))
