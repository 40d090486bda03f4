"""Small functions that libraries take from here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import metatensor as mt

__all__ = ["ExceptionWrapper"]


class ExceptionWrapper:
    """An exception to raise elsewhere."""

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        import sys

        self.error: BaseException | None = (exc_info if exc_info is not None else sys.exc_info())[1]
        self.where = where

    def reraise(self) -> None:
        """Raise it."""
        assert self.error is not None
        raise self.error


def _element_size(dtype: Any) -> int:
    """Bytes of one element."""
    return int(dtype.itemsize)


def _flatten_dense_tensors(tensors: Iterable[Any]) -> Any:
    """All elements of some tensors, one after the other."""
    return mt.cat([tensor.reshape(-1) for tensor in tensors])


def _unflatten_dense_tensors(flat: Any, tensors: Iterable[Any]) -> tuple:
    """Views of one dimension as tensors of the shapes of others."""
    views, start = [], 0
    for tensor in tensors:
        views.append(flat.narrow(0, start, tensor.numel()).view_as(tensor))
        start += tensor.numel()
    return tuple(views)


def _take_tensors(tensors: Iterable[Any], size_limit: int) -> Iterable[list]:
    """Groups of tensors of one type, of up to a number of bytes each."""
    groups: dict[Any, tuple[list, int]] = {}
    for tensor in tensors:
        key = (tensor.dtype, tensor.device)
        group, nbytes = groups.get(key, ([], 0))
        size = tensor.numel() * tensor.element_size()
        if group and nbytes + size > size_limit:
            yield group
            group, nbytes = [], 0
        group.append(tensor)
        groups[key] = (group, nbytes + size)
    for group, _ in groups.values():
        if group:
            yield group


def _rebuild_tensor(storage: Any, storage_offset: int, size: Any, stride: Any, dtype: Any = None) -> Any:
    """A tensor that views a storage."""
    kind = getattr(storage, "dtype", dtype) or mt.get_default_dtype()
    untyped = getattr(storage, "_untyped_storage", storage)
    return mt.empty(0, dtype=kind, device=untyped.device).set_(untyped, storage_offset, tuple(size), tuple(stride))


def _rebuild_tensor_v2(
    storage: Any, storage_offset: int, size: Any, stride: Any, requires_grad: bool, backward_hooks: Any, metadata: Any = None
) -> Any:
    """A tensor that views a storage, with ``requires_grad``."""
    return _rebuild_tensor(storage, storage_offset, size, stride).requires_grad_(requires_grad)


def _rebuild_tensor_v3(
    storage: Any, storage_offset: int, size: Any, stride: Any, requires_grad: bool, backward_hooks: Any, dtype: Any,
    metadata: Any = None,
) -> Any:  # fmt: skip
    """A tensor of a dtype that views a storage, with ``requires_grad``."""
    untyped = getattr(storage, "_untyped_storage", storage)
    made = mt.empty(0, dtype=dtype, device=untyped.device).set_(untyped, storage_offset, tuple(size), tuple(stride))
    return made.requires_grad_(requires_grad)


def _rebuild_parameter(data: Any, requires_grad: bool, backward_hooks: Any) -> Any:
    """A parameter."""
    return mt.nn.Parameter(data, requires_grad)


def _rebuild_parameter_with_state(data: Any, requires_grad: bool, backward_hooks: Any, state: Any) -> Any:
    """A parameter with Python attributes."""
    return _set_obj_state(mt.nn.Parameter(data, requires_grad), state)


def _set_obj_state(obj: Any, state: Any) -> Any:
    """Give an object its attributes, from a dict, or a dict and one for slots."""
    attributes, slots = state if isinstance(state, tuple) else (state, None)
    for name, value in {**(attributes or {}), **(slots or {})}.items():
        setattr(obj, name, value)
    return obj


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """The index of a device, an int, or a name. ValueError where there is none."""
    if isinstance(device, int):
        return device
    found = None if device is None else mt.device(device)
    if found is not None and found.type == "cpu":
        if allow_cpu:
            return -1
        raise ValueError(f"expected a device with an index, got {device}")
    if found is not None and found.index is not None:
        return int(found.index)
    if optional:
        return 0
    raise ValueError(f"expected a device with an index, got {device}")


def _get_available_device_type() -> str | None:
    """The type of the accelerator, or None."""
    from metatensor.torch_api.torch import accelerator

    found = accelerator.current_accelerator()  # type: ignore[attr-defined]
    return None if found is None else found.type
