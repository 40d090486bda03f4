"""Implementations of rarely used methods of Tensor."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

import metatensor as mt

__all__ = ["apply_", "map_", "new"]


def new(tensor: Any, args: tuple, device: Any) -> Any:
    """Return ``tensor.new(*args)``. The arguments are sizes, a sequence of values, a storage or a tensor."""
    target = tensor.device if device is None else mt.device(device)
    if target.type != tensor.device.type:
        raise RuntimeError(f"new: the tensor is on {tensor.device}, so device= cannot be {target}")
    if len(args) == 1 and isinstance(args[0], mt.Tensor):
        if args[0].dtype is not tensor.dtype or args[0].device.type != tensor.device.type:
            raise TypeError(f"new: expected a {tensor.dtype} tensor on {tensor.device}, got {args[0].dtype} on {args[0].device}")
        return args[0].detach()
    if len(args) == 1 and isinstance(args[0], mt.UntypedStorage):
        count = args[0].nbytes() // tensor.dtype.itemsize
        return mt.empty(0, dtype=tensor.dtype, device=target).set_(args[0], 0, (count,))
    if len(args) == 1 and not isinstance(args[0], (int, mt.Size)):
        return mt.tensor(args[0], dtype=tensor.dtype, device=target)
    sizes = args[0] if len(args) == 1 and isinstance(args[0], mt.Size) else args
    return mt.empty(tuple(sizes) if sizes else (0,), dtype=tensor.dtype, device=target)


def _values(op: str, tensor: Any) -> Any:
    if tensor.device.type != "cpu":
        raise TypeError(f"{op}: supported on cpu only, because Python runs for each element; got {tensor.device}")
    return tensor.detach()


def _number(value: Any) -> Any:
    if not isinstance(value, (numbers.Number, mt.Tensor)):
        raise TypeError(f"the function must return a number, not {type(value).__name__}")
    return value


def apply_(tensor: Any, function: Callable[[Any], Any]) -> Any:
    """See `Tensor.apply_`."""
    flat = [_number(function(value)) for value in _values("apply_", tensor).reshape(-1).tolist()]
    return tensor.copy_(mt.tensor(flat, dtype=tensor.dtype, device=tensor.device).reshape(tensor.shape))


def map_(tensor: Any, other: Any, function: Callable[[Any, Any], Any]) -> Any:
    """See `Tensor.map_`."""
    mine, theirs = _values("map_", tensor), _values("map_", other).expand(tensor.shape)
    flat = [_number(function(a, b)) for a, b in zip(mine.reshape(-1).tolist(), theirs.reshape(-1).tolist(), strict=True)]
    return tensor.copy_(mt.tensor(flat, dtype=tensor.dtype, device=tensor.device).reshape(tensor.shape))
