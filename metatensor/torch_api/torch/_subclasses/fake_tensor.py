"""metatensor's fake tensors, under PyTorch's names."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.deferred.fake import FakeTensorMode, is_fake

__all__ = ["DataDependentOutputException", "DynamicOutputShapeException", "FakeTensor", "FakeTensorMode",
           "UnsupportedFakeTensorException", "unset_fake_temporarily"]  # fmt: skip

DynamicOutputShapeException = DataDependentOutputException = mt.DataDependentError


class UnsupportedFakeTensorException(RuntimeError):
    """Raised in PyTorch for operations that fake tensors do not support. metatensor never raises it."""


class _FakeType(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, mt.Tensor) and is_fake(instance)


class FakeTensor(metaclass=_FakeType):
    """The class of fake tensors: every tensor without data whose device is not meta is an instance."""

    def __new__(cls, *_: Any, **__: Any) -> Any:
        raise TypeError("FakeTensor: cannot be constructed; use FakeTensorMode, or its from_tensor")


def unset_fake_temporarily() -> Any:
    """Return a context manager inside which new tensors hold data."""
    from metatensor._core.recorder import suspended

    return suspended()
