"""Functions that several gradient rules share.

This module is imported with the operators. It has no annotations, because importing `typing` takes a tenth of the time
in which the package is imported.
"""

from metatensor._core.gradients import ops
from metatensor._core.late import found_body, later
from metatensor._core.sharded import DistributedTensor
from metatensor._core.tensor import Tensor

__all__ = [
    "Bodies", "conj", "inverse_order", "logical_axes", "no_sparse", "numbered", "reshaped", "restored", "share", "spread", "times",
    "unknown", "within",
]  # fmt: skip


class Bodies:
    """The functions of a module of `metatensor.rules.gradients`, which is imported when the first is used."""

    def __init__(self, family):
        self._family = family

    def __getattr__(self, name):
        found = found_body(f"{self._family}.{name}")
        setattr(self, name, found)
        return found


def conj(x):
    """Return the complex conjugate of a tensor or number. Real values are returned unchanged."""
    if isinstance(x, Tensor):
        return x.conj() if x.dtype.is_complex else x
    return x.conjugate()


def times(x, factor):
    """Return ``x * conj(factor)``, or `x` itself if the factor is the number 1."""
    return x if not isinstance(factor, Tensor) and factor == 1 else x * conj(factor)


def share(grad, a, b, lost):
    """Return the gradient of an operand of a maximum or minimum: 0 where `lost` is True, half where `a` equals `b`."""
    return ops.where(a == b, grad / 2, grad).masked_fill_(lost, 0)


def numbered(name, input, other):
    """Return the name of a node of two operands. It ends in 1 if `input` is a number, in 2 if `other` is one, else in 0."""
    return name + ("2" if not isinstance(other, Tensor) else "0" if isinstance(input, Tensor) else "1")


def unknown(name, argument):
    """Raise NotImplementedError for an argument whose derivative has no closed form."""
    raise NotImplementedError(f"{name}: there is no formula for the gradient of the argument {argument!r}")


def restored(grad, shape, dims, keepdim):
    """Return `grad` with size 1 in the dimensions that a reduction removed."""
    if keepdim or not shape:
        return grad
    for d in logical_axes(dims, len(shape)):
        grad = grad.unsqueeze(d)
    return grad


def logical_axes(dims, ndim: int):
    """Return dimensions as a sorted list of non-negative numbers. None and () stand for all dimensions."""
    if dims is None or (isinstance(dims, (tuple, list)) and not dims):
        return list(range(ndim))
    return sorted(d % max(ndim, 1) for d in (dims if isinstance(dims, (tuple, list)) else (dims,)))


def no_sparse(name):
    """Return the error for a gradient that would have to be sparse."""
    return NotImplementedError(f"{name}(): with sparse=True the gradient would be a sparse tensor, and there are none; pass sparse=False")


def within(grad, shape, view, *arguments):
    """Return a tensor of `shape` that has `grad` in the part that the operator `view` selects, and zeros elsewhere."""
    whole = later("zeros_around")(grad, shape, view, arguments) if isinstance(grad, DistributedTensor) else grad.new_zeros(shape)
    getattr(ops, view)(whole, *arguments).copy_(grad)
    return whole


def reshaped(grad, shape):
    """Return `grad` itself if it has the shape, else reshaped."""
    return grad if grad.shape == shape else grad.reshape(shape)


def spread(grad, shape, dims, keepdim):
    """Return the gradient of a reduction, expanded to the sizes of its input."""
    return restored(grad, shape, dims, keepdim).expand(shape)


def inverse_order(dims):
    """Return the inverse permutation of `dims`."""
    order = [d % len(dims) for d in dims]
    return [order.index(d) for d in range(len(dims))]
