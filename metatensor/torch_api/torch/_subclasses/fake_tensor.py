"""Fake tensors: metatensor's own, under PyTorch's names."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.deferred.fake import FakeTensorMode, is_fake

__all__ = ["DataDependentOutputException", "DynamicOutputShapeException", "FakeTensor", "FakeTensorMode",
           "UnsupportedFakeTensorException", "unset_fake_temporarily"]  # fmt: skip

DynamicOutputShapeException = DataDependentOutputException = mt.DataDependentError


class UnsupportedFakeTensorException(RuntimeError):
    """What cannot be done with a fake tensor."""


class _FakeType(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, mt.Tensor) and is_fake(instance)


class FakeTensor(metaclass=_FakeType):
    """The class of fake tensors: an instance is any tensor that names a device other than meta and holds no data."""

    def __new__(cls, *_: Any, **__: Any) -> Any:
        raise TypeError("FakeTensor: is made by FakeTensorMode, or by its from_tensor")


def unset_fake_temporarily() -> Any:
    """A context manager: inside, tensors hold data again."""
    from metatensor._core.recorder import suspended

    return suspended()
