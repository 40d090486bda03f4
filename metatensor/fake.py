"""Fake tensors: they name a real device and hold no data.

    with mt.FakeTensorMode() as mode:
        x = mt.randn(8, 512, device="cuda:0")
        y = mode.from_tensor(real) @ x

The same kernels run as on meta, and devices propagate as they would for real. No device needs to be there, nor a
plugin for it. What is small and made of constants (`arange`, `tensor([...])`, arithmetic on them) keeps how it was made,
so that ``item()`` and ``tolist()`` answer.
"""

from __future__ import annotations

import weakref
from typing import Any

import metatensor as mt
from metatensor._core.placing import tensor_from_storage
from metatensor._core.recording import Recorder, suspended
from metatensor._core.storage import make_fake_storage, recipe_of

__all__ = ["FakeTensorMode", "is_fake"]

CONSTANT_BYTES = 512
"""The largest result that keeps how it was made."""


def is_fake(tensor: Any) -> bool:
    """Whether a tensor names a device other than meta and holds no data."""
    return tensor.device.type != "meta" and tensor.untyped_storage().data is None


class FakeTensorMode(Recorder):
    """A context manager: inside, tensors on devices other than meta hold no data.

    ``device="meta"`` and ``.to("meta")`` give plain meta tensors. Results of tensors with data are fake; writing to one
    raises RuntimeError. Enter those that are to be written to with `from_tensor`.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> FakeTensorMode:
        return super().__new__(cls)

    def __init__(self, *, allow_fallback_kernels: bool = True, allow_non_fake_inputs: bool = True, shape_env: Any = None,
                 static_shapes: bool | None = None) -> None:  # fmt: skip
        super().__init__(False, CONSTANT_BYTES)
        self._tensors: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self._storages: dict[Any, Any] = {}

    def from_tensor(self, tensor: Any, **_: Any) -> Any:
        """A fake tensor for a real one: the same one each time, on one storage where theirs is one.

        It has the real one's sizes, strides, offset, dtype, device, class, ``requires_grad`` and Python attributes.
        """
        if not isinstance(tensor, mt.Tensor):
            raise TypeError(f"from_tensor: expected a Tensor, got {type(tensor).__name__}")
        if is_fake(tensor):
            return tensor
        found = self._tensors.get(_Identity.of(tensor))
        if found is None:
            found = self._tensors[_Identity.of(tensor)] = self._faked(tensor)
        return found

    def _faked(self, tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        fake = self._storages.get(storage)
        if fake is None:
            fake = self._storages[storage] = make_fake_storage(tensor.device, storage.nbytes())
        with suspended():
            made = tensor_from_storage(fake, tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset())
            return _dressed(made, tensor)


class _Identity:
    """A tensor as a key: by identity, for as long as it lives."""

    __slots__ = ("__weakref__", "key")

    @staticmethod
    def of(tensor: Any) -> _Identity:
        found = tensor.__dict__.get("_fake_identity")
        if found is None:
            found = tensor.__dict__["_fake_identity"] = _Identity()
        return found  # type: ignore[no-any-return]


def _dressed(made: Any, tensor: Any) -> Any:
    """Give a tensor the class, ``requires_grad`` and Python attributes of another one."""
    if isinstance(tensor, mt.nn.Parameter):
        made = type(tensor)(made, requires_grad=tensor.requires_grad)
    else:
        if type(tensor) is not mt.Tensor:
            made = made.as_subclass(type(tensor))
        if tensor.requires_grad:
            made.requires_grad_()
    for name, value in tensor.__dict__.items():
        if name != "_fake_identity":
            made.__dict__[name] = value
    return made


_ = recipe_of
