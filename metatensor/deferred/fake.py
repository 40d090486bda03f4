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
from metatensor._core.execute import mark_output
from metatensor._core.placing import tensor_from_storage
from metatensor._core.recorder import Recorder, suspended
from metatensor._core.storage import make_fake_storage, recipe_of
from metatensor.nn.parameter import is_lazy

__all__ = ["FakeTensorMode", "is_fake"]


def is_fake(tensor: Any) -> bool:
    """Whether a tensor names a device other than meta and holds no data, and is not deferred."""
    storage = tensor.untyped_storage()
    if tensor.device.type == "meta" or storage.data is not None:
        return False
    ghost = recipe_of(storage)
    return ghost is None or ghost.constant


class FakeTensorMode(Recorder):
    """A context manager: inside, tensors on devices other than meta hold no data.

    ``device="meta"`` and ``.to("meta")`` give plain meta tensors. Results of tensors with data are fake; writing to one
    raises RuntimeError. Enter those that are to be written to with `from_tensor`.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> FakeTensorMode:
        return super().__new__(cls)

    def __init__(self, *, allow_fallback_kernels: bool = True, allow_non_fake_inputs: bool = True, shape_env: Any = None,
                 static_shapes: bool | None = None) -> None:  # fmt: skip
        super().__init__(False)
        self._made: dict[int, tuple[Any, ...]] = {}  # by id: a reference to the real tensor, the fake one, what both are over
        self._storages: weakref.WeakValueDictionary[int, _Shared] = weakref.WeakValueDictionary()

    def from_tensor(self, tensor: Any, **_: Any) -> Any:
        """A fake tensor for a real one: the same one each time, on one storage where theirs is one.

        It has the real one's sizes, strides, offset, dtype, device, class, ``requires_grad`` and Python attributes. The
        mode keeps neither alive. TypeError for what is no tensor.
        """
        if not isinstance(tensor, mt.Tensor):
            raise TypeError(f"from_tensor: expected a Tensor, got {type(tensor).__name__}")
        if is_fake(tensor):
            return tensor
        key = id(tensor)
        found = self._made.get(key)
        if found is None or found[0]() is not tensor or found[3] != _layout(tensor):
            made, made_of = self._made, self._faked(tensor)
            found = made[key] = (weakref.ref(tensor, lambda _: made.pop(key, None)), *made_of, _layout(tensor))
        return found[1]

    def _faked(self, tensor: Any, device: Any = None) -> tuple[Any, Any]:
        """The fake tensor, on ``device`` if that is given, and what must live as long as the real one does."""
        if is_lazy(tensor):
            return type(tensor)(tensor.requires_grad, device or tensor.data.device, tensor.dtype), None
        storage = tensor.untyped_storage()
        shared = self._storages.get(storage._cdata)
        if shared is None or not shared.stands_for(storage):
            shared = self._storages[storage._cdata] = _Shared(make_fake_storage(device or tensor.device, storage.nbytes()))
        shared.members.append(weakref.ref(tensor))
        with suspended(), mt.no_grad():
            made = tensor_from_storage(shared.fake, tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset())
            if tensor.is_conj():
                made = made.conj()
            if tensor.is_neg():
                made = made._neg_view()
            made = dressed(made, tensor)
            made.__dict__.update(tensor.__dict__)
            if tensor.grad is not None:
                made.grad = self.from_tensor(tensor.grad)
        return made, shared


def _layout(tensor: Any) -> tuple[Any, ...]:
    """What a fake tensor takes over; another one is needed where it was changed, by ``tensor.data = ...`` or `resize_`."""
    if is_lazy(tensor):
        return (tensor.dtype,)
    return (tensor.untyped_storage()._cdata, tensor.untyped_storage().nbytes(), tensor.dtype, tuple(tensor.shape), tensor.stride(),
            tensor.storage_offset(), tensor.is_conj(), tensor.is_neg())  # fmt: skip


class _Shared:
    """A fake storage, and the real tensors on the storage that it stands for."""

    def __init__(self, fake: Any) -> None:
        self.fake = fake
        self.members: list[Any] = []
        self.kept = 0

    def stands_for(self, storage: Any) -> bool:
        """Whether it still does: addresses of storages are taken anew."""
        if len(self.members) > 2 * self.kept + 8:
            self.members = [member for member in self.members if member() is not None]
            self.kept = len(self.members)
        living = (member() for member in self.members)
        return self.fake.nbytes() == storage.nbytes() and any(t is not None and t.untyped_storage() is storage for t in living)


def dressed(made: Any, tensor: Any) -> Any:
    """Give a plain tensor the class of another one, its ``requires_grad`` and its being a leaf or none."""
    if type(tensor) is not mt.Tensor:
        made = mt.Tensor._make_subclass(type(tensor), made)
    if tensor.requires_grad:
        if tensor.is_leaf:
            made.requires_grad = True
        else:
            made = mark_output(made)
    return made
