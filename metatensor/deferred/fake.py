"""Fake tensors: they name a real device but hold no data.

    with mt.FakeTensorMode() as mode:
        x = mt.randn(8, 512, device="cuda:0")
        y = mode.from_tensor(real) @ x

The same meta functions run as for meta tensors, and devices propagate as they would in a real run. Neither the device
nor its plugin needs to be present. Small tensors made of constants (`arange`, `tensor([...])`, arithmetic on them)
remember how they were made, so that ``item()`` and ``tolist()`` work.
"""

from __future__ import annotations

import weakref
from typing import Any

import metatensor as mt
from metatensor._core.execute import mark_output
from metatensor._core.recorder import Recorder, suspended
from metatensor._core.storage import make_fake_storage, recipe_of
from metatensor._core.storage_views import tensor_from_storage
from metatensor.nn.parameter import is_lazy

__all__ = ["FakeTensorMode", "is_fake"]


def is_fake(tensor: Any) -> bool:
    """Return True if a tensor names a device other than meta, holds no data, and is not deferred.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.deferred import is_fake
    >>> with mt.FakeTensorMode():
    ...     x = mt.zeros(2, 3, device="cuda")
    >>> is_fake(x), x.device.type
    (True, 'cuda')
    """
    storage = tensor.untyped_storage()
    if tensor.device.type == "meta" or storage.data is not None:
        return False
    recipe = recipe_of(storage)
    return recipe is None or recipe.constant


class FakeTensorMode(Recorder):
    """Context manager inside which tensors on devices other than meta hold no data.

    ``device="meta"`` and ``.to("meta")`` give plain meta tensors. An operator on tensors with data returns a fake
    result. Writing to a tensor with data raises RuntimeError. Convert tensors that must be written to with
    `from_tensor`.

    The constructor accepts the parameters of PyTorch's mode for compatibility and ignores them.

    Examples
    --------
    >>> import metatensor as mt
    >>> with mt.FakeTensorMode():
    ...     y = mt.randn(8, 512, device="cuda:1") @ mt.randn(512, 4, device="cuda:1")
    >>> y.shape, y.device
    (metatensor.Size([8, 4]), device(type='cuda', index=1))
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> FakeTensorMode:
        return super().__new__(cls)

    def __init__(self, *, allow_fallback_kernels: bool = True, allow_non_fake_inputs: bool = True, shape_env: Any = None,
                 static_shapes: bool | None = None) -> None:  # fmt: skip
        super().__init__(False)
        self._made: dict[int, tuple[Any, ...]] = {}  # id -> (weak reference, fake, storage, layout)
        self._storages: weakref.WeakValueDictionary[int, _Shared] = weakref.WeakValueDictionary()

    def from_tensor(self, tensor: Any, **_: Any) -> Any:
        """Return the fake tensor for a real one.

        The same tensor gives the same result, and shared storages stay shared.

        The fake tensor has the real one's sizes, strides, offset, dtype, device, class, ``requires_grad`` and Python
        attributes. The mode does not keep the real tensor alive.

        Parameters
        ----------
        tensor : Tensor
            The real tensor. A fake tensor is returned unchanged.

        Raises
        ------
        TypeError
            If ``tensor`` is not a tensor.
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
        """Return a new fake tensor and an object that must live as long as the real tensor. ``device`` may be None."""
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
    """Return the properties that a fake tensor copies.

    If ``tensor.data = ...`` or `resize_` changes them, `from_tensor` must return a new fake tensor.
    """
    if is_lazy(tensor):
        return (tensor.dtype,)
    return (tensor.untyped_storage()._cdata, tensor.untyped_storage().nbytes(), tensor.dtype, tuple(tensor.shape), tensor.stride(),
            tensor.storage_offset(), tensor.is_conj(), tensor.is_neg())  # fmt: skip


class _Shared:
    """A fake storage, and weak references to the real tensors whose storage it represents."""

    def __init__(self, fake: Any) -> None:
        self.fake = fake
        self.members: list[Any] = []
        self.kept = 0

    def stands_for(self, storage: Any) -> bool:
        """Return True if the fake storage represents this storage. A dead storage's address may have been reused."""
        if len(self.members) > 2 * self.kept + 8:
            self.members = [member for member in self.members if member() is not None]
            self.kept = len(self.members)
        living = (member() for member in self.members)
        return self.fake.nbytes() == storage.nbytes() and any(t is not None and t.untyped_storage() is storage for t in living)


def dressed(made: Any, tensor: Any) -> Any:
    """Return ``made`` with the class, the ``requires_grad`` and the leaf status of ``tensor``."""
    if type(tensor) is not mt.Tensor:
        made = mt.Tensor._make_subclass(type(tensor), made)
    if tensor.requires_grad:
        if tensor.is_leaf:
            made.requires_grad = True
        else:
            made = mark_output(made)
    return made
