"""Functions that PyTorch's pickles call to rebuild tensors, for use with Python's own unpickler.

The safe reader does not use them. It has handlers in `torch_names` that check their arguments.
"""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.checkpoint.torch_names import SKELETON_STATE
from metatensor.checkpoint.unsupported import UnsupportedTensor
from metatensor.interchange.typed_storage import TypedStorage

__all__ = [
    "_get_layout", "_rebuild_device_tensor_from_cpu_tensor", "_rebuild_device_tensor_from_numpy", "_rebuild_from_type",
    "_rebuild_from_type_v2", "_rebuild_meta_tensor_no_storage", "_rebuild_nested_tensor", "_rebuild_parameter",
    "_rebuild_parameter_with_state", "_rebuild_qtensor", "_rebuild_sparse_csr_tensor", "_rebuild_sparse_tensor", "_rebuild_tensor",
    "_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_wrapper_subclass", "_set_obj_state",
]  # fmt: skip


def _rebuild_tensor(storage: Any, storage_offset: int, size: Any, stride: Any, dtype: Any = None) -> Any:
    """Return a tensor over a storage. ``dtype`` defaults to that of a typed storage."""
    if isinstance(storage, TypedStorage):
        storage, dtype = storage.untyped(), dtype or storage.dtype
    made = mt.empty(0, dtype=dtype or mt.get_default_dtype(), device=storage.device)
    return made.set_(storage, storage_offset, tuple(size), tuple(stride))


def _rebuild_tensor_v2(
    storage: Any, storage_offset: int, size: Any, stride: Any, requires_grad: bool, backward_hooks: Any, metadata: Any = None
) -> Any:
    """Return a tensor over a typed storage, lazily conjugated or negated if ``metadata`` says so."""
    return _with_bits(_rebuild_tensor(storage, storage_offset, size, stride), metadata).requires_grad_(requires_grad)


def _rebuild_tensor_v3(
    storage: Any, storage_offset: int, size: Any, stride: Any, requires_grad: bool, backward_hooks: Any, dtype: Any,
    metadata: Any = None,
) -> Any:  # fmt: skip
    """Return a tensor over a storage with the given dtype, lazily conjugated or negated if ``metadata`` says so."""
    return _with_bits(_rebuild_tensor(storage, storage_offset, size, stride, dtype), metadata).requires_grad_(requires_grad)


def _with_bits(tensor: Any, metadata: Any) -> Any:
    for name in metadata or ():
        if metadata[name]:
            tensor = tensor.conj() if name == "conj" else mt._neg_view(tensor)
    return tensor


def _rebuild_parameter(data: Any, requires_grad: bool, backward_hooks: Any) -> Any:
    """Return a parameter over ``data``."""
    return mt.nn.Parameter(data, requires_grad)


def _rebuild_parameter_with_state(data: Any, requires_grad: bool, backward_hooks: Any, state: Any) -> Any:
    """Return a parameter over ``data`` with the attributes in ``state``."""
    return _set_obj_state(mt.nn.Parameter(data, requires_grad), state)


def _set_obj_state(obj: Any, state: Any) -> Any:
    """Set an object's attributes. ``state`` is a dict of them, or a pair of dicts: attributes and slots."""
    attributes, slots = state if isinstance(state, tuple) else (state, None)
    for name, value in {**(attributes or {}), **(slots or {})}.items():
        setattr(obj, name, value)
    return obj


def _rebuild_from_type(func: Any, new_type: type, args: tuple, dict: Any) -> Any:
    """Return the result of ``func(*args)`` as an instance of ``new_type``, with the attributes in ``dict``."""
    return _rebuild_from_type_v2(func, new_type, args, dict)


def _rebuild_from_type_v2(func: Any, new_type: type, args: tuple, state: Any) -> Any:
    """Return the result of ``func(*args)`` as an instance of ``new_type``, with its attributes or state."""
    made = func(*args)
    if type(state) is dict:
        state = {name: value for name, value in state.items() if name != SKELETON_STATE}
    if type(made) is not new_type:
        made = made.as_subclass(new_type)
    if getattr(new_type, "__setstate__", None) is not getattr(mt.Tensor, "__setstate__", None):
        made.__setstate__(state)
        return made
    return _set_obj_state(made, state)


def _rebuild_meta_tensor_no_storage(dtype: Any, size: Any, stride: Any, requires_grad: bool) -> Any:
    """Return a tensor on meta with a storage of its own."""
    return mt.empty_strided(tuple(size), tuple(stride), dtype=dtype, device="meta").requires_grad_(requires_grad)


def _rebuild_device_tensor_from_numpy(data: Any, dtype: Any, device: Any, requires_grad: bool) -> Any:
    """Return a tensor on ``device`` with the values of a NumPy array."""
    return mt.from_numpy(data).to(dtype=dtype, device=device).requires_grad_(requires_grad)


def _rebuild_device_tensor_from_cpu_tensor(data: Any, dtype: Any, device: Any, requires_grad: bool) -> Any:
    """Return a copy of a cpu tensor on ``device``."""
    return data.to(dtype=dtype, device=device).requires_grad_(requires_grad)


def _get_layout(name: str) -> Any:
    """Return the layout that PyTorch calls ``name``, such as ``"torch.strided"``."""
    found = getattr(mt, name.removeprefix("torch."), None)
    if not isinstance(found, mt.layout):
        raise RuntimeError(f"unknown layout {name[:40]!r}")
    return found


# Kinds of tensors that metatensor does not have ---------------------------------------------


def _rebuild_sparse_tensor(layout: Any, data: Any) -> Any:
    """Return a placeholder for a sparse tensor. ``data`` holds its indices, values and size."""
    name = layout.name if isinstance(layout, mt.layout) else "of an unknown layout"
    return UnsupportedTensor(f"it is a sparse tensor ({name}), and only dense ones can be loaded", _shape(data))


def _rebuild_sparse_csr_tensor(layout: Any, data: Any) -> Any:
    """Return a placeholder for a sparse tensor."""
    return _rebuild_sparse_tensor(layout, data)


def _rebuild_qtensor(storage: Any, storage_offset: int, size: Any, *rest: Any) -> Any:
    """Return a placeholder for a quantized tensor of shape ``size``."""
    return UnsupportedTensor("it is a quantized tensor; dequantize() it in PyTorch and save it again", _shape((size,)))


def _rebuild_nested_tensor(*args: Any) -> Any:
    """Return a placeholder for a nested tensor."""
    return UnsupportedTensor("it is a nested tensor; save its parts as a list of tensors")


def _rebuild_wrapper_subclass(cls: Any, dtype: Any, size: Any, *rest: Any) -> Any:
    """Return a placeholder for a wrapper subclass."""
    return UnsupportedTensor("it is a tensor of a class that wraps others", _shape((size,)))


def _shape(parts: Any) -> tuple[int, ...] | None:
    """Return the shape among a tensor's parts: the first tuple of integers, or None."""
    for part in parts if isinstance(parts, tuple) else ():
        if isinstance(part, tuple) and all(type(size) is int for size in part) and len(part) <= 64:
            return tuple(part)
    return None
