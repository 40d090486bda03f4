"""Fake tensors."""

from metatensor._core.lazy import attributes
from metatensor.torch_api.torch._subclasses.fake_tensor import (
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedFakeTensorException,
)  # fmt: skip

__all__ = ["DynamicOutputShapeException", "FakeTensor", "FakeTensorMode", "UnsupportedFakeTensorException"]

__getattr__, __dir__ = attributes(__name__, ("fake_tensor", "meta_utils"))
