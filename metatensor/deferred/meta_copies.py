"""`to_meta`: copies without data that keep everything else."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import metatensor as mt
from metatensor._core.recorder import suspended
from metatensor._core.storage import make_storage
from metatensor._core.storage_views import tensor_from_storage
from metatensor.deferred.fake import dressed
from metatensor.nn.parameter import is_lazy

__all__ = ["MetaConverter", "to_meta"]


def to_meta(obj: Any) -> Any:
    """Copy a tensor, a module, a state dict or any nested container to the meta device.

    Sizes, strides, offsets, dtypes, classes, ``requires_grad`` and Python attributes are kept. Tensors that share a
    storage share one in the copy too, and a view of another tensor becomes a view of its copy. Other objects are copied
    as by `copy.deepcopy`.

    Parameters
    ----------
    obj : object
        A tensor, module or nested container. NumPy, CuPy, PyTorch and JAX arrays in it become meta tensors too; none of
        these libraries is imported.

    Returns
    -------
    object
        The copy.

    Raises
    ------
    TypeError
        If an array's dtype or a tensor's layout has no counterpart in metatensor.

    Examples
    --------
    >>> import metatensor as mt
    >>> x = mt.ones(4, 6, device="cpu")
    >>> whole, column = mt.to_meta([x, x[:, 2]])
    >>> column.device, column.stride(), column.storage_offset()
    (device(type='meta'), (6,), 2)
    >>> column.untyped_storage() == whole.untyped_storage()
    True
    """
    return converted(obj, MetaConverter())


def converted(obj: Any, converter: Callable[[Any], Any]) -> Any:
    """Return a deep copy of ``obj`` in which ``converter(t)`` replaces each tensor or array ``t``."""
    memo: dict[int, Any] = {}
    kept = []  # deepcopy finds copies by id, so the originals must stay alive
    with suspended(), mt.no_grad():
        for leaf in _leaves(obj):
            memo[id(leaf)] = converter(leaf)
            kept.append(leaf)
    return copy.deepcopy(obj, memo)


def _leaves(obj: Any, seen: set[int] | None = None) -> Iterator[Any]:
    """Yield each tensor and array in a nested object once."""
    seen = set() if seen is None else seen
    if id(obj) in seen:
        return
    seen.add(id(obj))
    if isinstance(obj, mt.Tensor) or _is_array(obj):
        yield obj
    elif isinstance(obj, dict):
        for value in obj.values():
            yield from _leaves(value, seen)
    elif isinstance(obj, (list, tuple, set, frozenset)):
        for value in obj:
            yield from _leaves(value, seen)
    elif isinstance(obj, mt.nn.Module) or (dataclasses.is_dataclass(obj) and not isinstance(obj, type)):
        for value in vars(obj).values():
            yield from _leaves(value, seen)


def _is_array(obj: Any) -> bool:
    return not isinstance(obj, type) and all(hasattr(obj, name) for name in ("shape", "ndim", "dtype", "__dlpack__"))


class MetaConverter:
    """Converts tensors and arrays to meta tensors. Memory sharing is preserved, and each object is converted once."""

    def __init__(self) -> None:
        self._storages: dict[Any, Any] = {}
        self._made: dict[int, tuple[Any, Any]] = {}

    def __call__(self, tensor: Any) -> Any:
        """Return the meta tensor for a tensor or an array."""
        found = self._made.get(id(tensor))
        if found is None:
            of_one = self._of_tensor if isinstance(tensor, mt.Tensor) else self._of_array
            found = self._made[id(tensor)] = (of_one(tensor), tensor)
            if isinstance(tensor, mt.Tensor):
                self._add_rest(found[0], tensor)  # attributes may refer back to this tensor
        return found[0]

    def _of_tensor(self, tensor: Any) -> Any:
        if is_lazy(tensor):
            return type(tensor)(tensor.requires_grad, "meta", tensor.dtype)
        storage = tensor.untyped_storage()
        base = tensor._base
        if base is not None and base.dtype is tensor.dtype and tensor._is_view():
            there = self(base)
            with mt.set_grad_enabled(tensor.requires_grad and not tensor.is_leaf):
                made = there.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
        else:
            there = self._storage(storage, storage.nbytes())
            made = tensor_from_storage(there, tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset())
        if tensor.is_conj():
            made = made.conj()
        if tensor.is_neg():
            made = made._neg_view()
        return dressed(made, tensor)

    def _add_rest(self, made: Any, tensor: Any) -> None:
        """Copy the attributes and the gradient."""
        for name, value in tensor.__dict__.items():
            made.__dict__[name] = self._of_attribute(value)
        if not is_lazy(tensor) and tensor.grad is not None:
            made.grad = self(tensor.grad)

    def _of_attribute(self, value: Any) -> Any:
        """Convert an attribute of a tensor.

        Tensors are converted, also those in containers. Other values are copied if possible.
        """
        if isinstance(value, mt.Tensor) or _is_array(value):
            return self(value)
        if type(value) in (list, tuple, set, frozenset):
            return type(value)(self._of_attribute(item) for item in value)
        if type(value) is dict:
            return {key: self._of_attribute(item) for key, item in value.items()}
        try:
            return copy.copy(value)
        except Exception:  # a lock, a handle
            return value

    def _of_array(self, array: Any) -> Any:
        dtype = getattr(mt, str(array.dtype).rpartition(".")[2], None)
        if not isinstance(dtype, mt.dtype):
            raise TypeError(f"to_meta: metatensor has no dtype like {array.dtype} of {type(array).__module__}.{type(array).__name__}")
        shape = tuple(int(size) for size in array.shape)
        if hasattr(array, "untyped_storage"):  # PyTorch's
            if str(array.layout) != "torch.strided":
                raise TypeError(f"to_meta: only dense tensors can be copied, not those of layout {array.layout}")
            storage = array.untyped_storage()
            there = self._storage((type(storage), storage._cdata), storage.nbytes())
            made = tensor_from_storage(there, dtype, shape, array.stride(), array.storage_offset())
            if type(array).__name__ == "Parameter":
                return mt.nn.Parameter(made, bool(array.requires_grad))
            return made.requires_grad_() if array.requires_grad else made
        strides = getattr(array, "strides", None)
        if strides is None or any(step < 0 or step % dtype.itemsize for step in strides):
            return mt.empty(shape, dtype=dtype, device="meta")
        return self._strided(array, dtype, shape, tuple(step // dtype.itemsize for step in strides))

    def _strided(self, array: Any, dtype: Any, shape: tuple, stride: tuple) -> Any:
        """Convert a NumPy or CuPy array. Views of one base array share a storage."""
        owner = array
        while getattr(owner, "base", None) is not None and hasattr(owner.base, "nbytes"):
            owner = owner.base
        start, first = _address(array), _address(owner)
        offset, rest = divmod(start - first, dtype.itemsize) if start is not None and first is not None else (0, 0)
        if rest or offset < 0 or not hasattr(owner, "nbytes"):
            return mt.empty_strided(shape, stride, dtype=dtype, device="meta")
        there = self._storage((id(owner), "array"), int(owner.nbytes))
        self._made[id(owner)] = self._made.get(id(owner), (None, owner)) if owner is not array else (None, owner)
        return tensor_from_storage(there, dtype, shape, stride, offset)

    def _storage(self, key: Any, nbytes: int) -> Any:
        if key not in self._storages:
            self._storages[key] = make_storage("meta", nbytes)
        return self._storages[key]


def _address(array: Any) -> int | None:
    interface = getattr(array, "__array_interface__", None) or getattr(array, "__cuda_array_interface__", None)
    return None if interface is None else interface["data"][0]
