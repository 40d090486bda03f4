"""PyTorch's fake tensors: none is made here, as any tensor of metatensor may be without data."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.torch_api.torch._absent import kind

__all__ = ["DynamicOutputShapeException", "FakeTensor", "FakeTensorMode", "UnsupportedFakeTensorException", "is_fake"]

_WHY = "metatensor has no fake tensors: build on the meta device, whose tensors have no data"
FakeTensor = kind("_subclasses.fake_tensor.FakeTensor", _WHY)
FakeTensorMode = kind("_subclasses.fake_tensor.FakeTensorMode", _WHY)


class DynamicOutputShapeException(RuntimeError):
    """An output's shape depends on values; metatensor raises `DataDependentError` then."""


class UnsupportedFakeTensorException(RuntimeError):
    """What fake tensors cannot do; nothing here raises it."""


def is_fake(x: Any) -> bool:
    """Whether a tensor is on a device that would hold data, and has none."""
    return isinstance(x, mt.Tensor) and x.device.type != "meta" and x.untyped_storage().data is None
