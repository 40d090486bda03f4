"""Tensors without data: PyTorch's fake tensors, which metatensor has no need of."""

from metatensor.torch_api._lazy import attributes
from metatensor.torch_api.torch._subclasses.fake_tensor import (
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedFakeTensorException,
)

__all__ = ["DynamicOutputShapeException", "FakeTensor", "FakeTensorMode", "UnsupportedFakeTensorException"]

__getattr__, __dir__ = attributes(__name__, ("fake_tensor",))
