"""Parts that several rules for gradients share."""

from __future__ import annotations

from typing import Any

from metatensor._core.gradients import ops
from metatensor._core.late import found_body
from metatensor._core.tensor import Tensor

__all__ = ["Bodies", "conj", "inverse_order", "logical_axes", "restored", "share", "spread", "times", "within"]


class Bodies:
    """The functions of a module of `metatensor.rules.gradients`, which is imported when the first is used."""

    def __init__(self, family: str) -> None:
        self._family = family

    def __getattr__(self, name: str) -> Any:
        found = found_body(f"{self._family}.{name}")
        setattr(self, name, found)
        return found


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


def within(grad: Any, shape: tuple, view: str, *arguments: Any) -> Any:
    """Return zeros of `shape` in which the part that the operator `view` selects is `grad`."""
    whole = grad.new_zeros(shape)
    getattr(ops, view)(whole, *arguments).copy_(grad)
    return whole


def spread(grad: Any, shape: tuple, dims: Any, keepdim: bool) -> Any:
    """Return the gradient of a reduction, expanded to the sizes of its input."""
    return restored(grad, shape, dims, keepdim).expand(shape)


def inverse_order(dims: Any) -> list[int]:
    """Return the order of dimensions that undoes the order `dims`."""
    order = [d % len(dims) for d in dims]
    return [order.index(d) for d in range(len(dims))]
