"""What goes over graphs."""

from metatensor.torch_api._lazy import attributes

__getattr__, __dir__ = attributes(__name__, ("infra", "shape_prop"))
