"""What `torch.utils` has: data loading, and more."""

from metatensor.torch_api._lazy import attributes

__getattr__, __dir__ = attributes(__name__, ("data",))
