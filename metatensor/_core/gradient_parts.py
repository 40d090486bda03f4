"""Parts that several rules for gradients share."""

from __future__ import annotations

from typing import Any

from metatensor._core.gradients import ops
from metatensor._core.tensor import Tensor

__all__ = ["conj", "logical_axes", "placed", "restored", "share", "times"]


def conj(x: Any) -> Any:
    """Return the complex conjugate of a tensor or number; what is real is returned unchanged."""
    if isinstance(x, Tensor):
        return x.conj() if x.dtype.is_complex else x
    return x.conjugate()


def times(x: Any, factor: Any) -> Any:
    """Return ``x * conj(factor)``, or `x` itself if the factor is the number 1."""
    return x if not isinstance(factor, Tensor) and factor == 1 else x * conj(factor)


def share(grad: Any, a: Any, b: Any, chosen: Any) -> Any:
    """Return the gradient of the chosen elements of two operands; equal elements get half of it each."""
    return ops.where(a == b, grad / 2, grad).masked_fill(~chosen, 0)


def restored(grad: Any, shape: tuple, dims: Any, keepdim: bool) -> Any:
    """Return `grad` with size 1 in the dimensions that a reduction removed."""
    if keepdim or not shape:
        return grad
    for d in logical_axes(dims, len(shape)):
        grad = grad.unsqueeze(d)
    return grad


def logical_axes(dims: Any, ndim: int) -> list[int]:
    """Return dimensions as a sorted list of numbers that are not negative; None or () stands for all."""
    if dims is None or (isinstance(dims, (tuple, list)) and not dims):
        return list(range(ndim))
    return sorted(d % max(ndim, 1) for d in (dims if isinstance(dims, (tuple, list)) else (dims,)))


def placed(grad: Any, shape: tuple, view: Any) -> Any:
    """Return zeros of `shape` in which the part that the function `view` selects is `grad`."""
    whole = grad.new_zeros(shape)
    view(whole).copy_(grad)
    return whole
