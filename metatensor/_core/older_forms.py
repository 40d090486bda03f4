"""Deprecated argument orders: PyTorch still accepts a positional scale before the tensor that it scales."""

from __future__ import annotations

import warnings
from typing import Any

from metatensor._core.tensor import Tensor

__all__ = ["reordered"]

_SCALED = {
    "add": ("input alpha other",),
    "sub": ("input alpha other",),
    "addcmul": ("input value tensor1 tensor2",),
    "addcdiv": ("input value tensor1 tensor2",),
    **dict.fromkeys(("addmm", "addmv", "addr", "addbmm", "baddbmm"), ("beta input alpha a b", "beta input a b")),
}
"""The deprecated argument orders of each operator. The scales are alpha, beta and value."""
_SCALES = {"alpha", "beta", "value"}


def reordered(name: str, args: list[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]] | None:
    """Return the arguments of a call in the current order, or None if `args` are not in a deprecated order."""
    for form in _SCALED.get(name.rstrip("_"), ()):
        names = form.split()
        # In a method call the input comes first.
        for order in (names, ["input", *(n for n in names if n != "input")]):
            if len(order) != len(args) or any(isinstance(a, Tensor) == (n in _SCALES) for n, a in zip(order, args, strict=True)):
                continue
            scales = {n: a for n, a in zip(order, args, strict=True) if n in _SCALES}
            if scales.keys() & kwargs.keys():
                return None
            warnings.warn(f"{name}(): pass {' and '.join(scales)} by keyword, not by position", stacklevel=2)
            return [a for n, a in zip(order, args, strict=True) if n not in _SCALES], {**scales, **kwargs}
    return None
