"""Private helpers of PyTorch that libraries import."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import metatensor as mt
from metatensor.checkpoint.rebuilding import (  # noqa: F401
    _rebuild_device_tensor_from_cpu_tensor,
    _rebuild_device_tensor_from_numpy,
    _rebuild_meta_tensor_no_storage,
    _rebuild_nested_tensor,
    _rebuild_parameter,
    _rebuild_parameter_with_state,
    _rebuild_qtensor,
    _rebuild_sparse_csr_tensor,
    _rebuild_sparse_tensor,
    _rebuild_tensor,
    _rebuild_tensor_v2,
    _rebuild_tensor_v3,
    _rebuild_wrapper_subclass,
    _set_obj_state,
)

__all__ = ["ExceptionWrapper"]


class ExceptionWrapper:
    """An exception that is raised again later, for example in another thread."""

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        import sys

        self.error: BaseException | None = (exc_info if exc_info is not None else sys.exc_info())[1]
        self.where = where

    def reraise(self) -> None:
        """Raise the exception."""
        assert self.error is not None
        raise self.error


def _element_size(dtype: Any) -> int:
    """Return the size of one element in bytes."""
    return int(dtype.itemsize)


def _flatten_dense_tensors(tensors: Iterable[Any]) -> Any:
    """Return a vector of all elements of the tensors."""
    return mt.cat([tensor.reshape(-1) for tensor in tensors])


def _unflatten_dense_tensors(flat: Any, tensors: Iterable[Any]) -> tuple:
    """Return views of a vector with the shapes of the given tensors."""
    views, start = [], 0
    for tensor in tensors:
        views.append(flat.narrow(0, start, tensor.numel()).view_as(tensor))
        start += tensor.numel()
    return tuple(views)


def _take_tensors(tensors: Iterable[Any], size_limit: int) -> Iterable[list]:
    """Yield groups of tensors with the same dtype and device, each with at most `size_limit` bytes.

    A larger tensor has a group of its own.
    """
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


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """Return the index of a device, given as an int, a device or a str.

    The index is -1 for cpu if `allow_cpu` is true. It is 0 for None and for a device without an index if `optional` is
    true. Raise ValueError in all other cases without an index.
    """
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
    """Return the type of the accelerator, or None."""
    from metatensor.torch_api.torch import accelerator

    found = accelerator.current_accelerator()  # type: ignore[attr-defined]
    return None if found is None else found.type


def _get_device_module(device_type: str) -> Any:
    """Return the module of a device type, such as `torch.cuda`. Raise RuntimeError if there is none."""
    from importlib import import_module

    try:
        return import_module(f"metatensor.torch_api.torch.{device_type}")
    except ModuleNotFoundError as error:
        raise RuntimeError(f"torch has no module for devices of type {device_type!r}") from error
