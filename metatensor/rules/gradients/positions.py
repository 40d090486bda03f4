"""Gradients of operators that read or write elements at given positions."""

from __future__ import annotations

from typing import Any

from metatensor._core.gradient_parts import conj
from metatensor._core.gradients import ops

__all__ = [
    "filled_slices", "gathered", "index_of", "reduced_by_index", "reduced_by_scatter", "scattered", "taken", "taken_slices",
    "unselected",
]  # fmt: skip


def index_of(indices: list, dims: tuple) -> tuple:
    """Return an index for square brackets, given index tensors or masks and the dimensions at which they begin."""
    made: list = []
    at = 0
    for index, dim in zip(indices, dims):
        made += [slice(None)] * (dim - at) + [index]
        at = dim + (index.ndim if index.dtype.name in ("bool", "uint8") else 1)
    return tuple(made)


def gathered(grad: Any, dim: int, index: Any, shape: tuple) -> Any:
    """Return the gradient of the source of a scatter. Elements of the source beyond the index get 0."""
    made = grad.gather(dim, index)
    if tuple(made.shape) == tuple(shape):
        return made
    whole = grad.new_zeros(shape)
    whole[tuple(slice(n) for n in made.shape)] = made
    return whole


def taken(grad: Any, input: Any, index: Any) -> Any:
    """Return the gradient of `take`, which has the strides of a copy of the input."""
    if input.is_contiguous():
        zeros = grad.new_zeros(input.shape)
    else:
        zeros = grad.new_empty_strided(input.shape, ops.empty_like(input, device="meta").stride()).zero_()
    return zeros.put_(index, grad, True)


def taken_slices(grad: Any, dim: int, index: Any, shape: tuple) -> Any:
    """Return the slices of `grad` at the indices, in the shape of the source."""
    return grad.index_select(dim, index).reshape(shape)


def filled_slices(grad: Any, dim: int, index: Any) -> Any:
    """Return the sum of the slices of `grad` at the indices. A slice counts once even if its index is repeated."""
    if not grad.ndim:
        return grad
    shape = [1] * grad.ndim
    shape[dim] = -1
    filled = ops.zeros((grad.shape[dim],), dtype=index.dtype, device=grad.device).index_fill(0, index, 1) != 0
    return ops.where(filled.reshape(shape), grad, 0).sum()


def unselected(grad: Any, input: Any, mask: Any) -> Any:
    """Return zeros with `grad` where the mask is true."""
    shape = ops.broadcast_tensors([input, mask])[0].shape
    return grad.new_zeros(shape).masked_scatter(mask, grad)


def scattered(grad: Any, mask: Any, shape: tuple) -> Any:
    """Return the gradient of the source of `masked_scatter`. Elements of the source that were not used get 0."""
    n = 1
    for size in shape:
        n *= size
    mask = mask.expand_as(grad).reshape(-1)
    places = ops.where(mask, mask.cumsum(0) - 1, n)  # position n collects the elements that were not written
    return grad.new_zeros((n + 1,)).scatter(0, places, grad.reshape(-1)).narrow(0, 0, n).reshape(shape)


def _reduced(grad: Any, input: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool, result: Any) -> tuple:
    """Return the gradients of `scatter_reduce` for the input and the source, which has the shape of the index."""
    if reduce == "sum":
        of_input, of_src = grad, grad.gather(dim, index)
    elif reduce == "mean":
        count = ops.ones_like(grad) if include_self else ops.zeros_like(grad)
        count = count.scatter_add(dim, index, ops.ones_like(src))
        of_input = grad / count.masked_fill(count == 0, 1)
        of_src = of_input.gather(dim, index)
    elif reduce == "prod":
        rest = input.masked_fill(input == 0, 1)
        product = rest.scatter_reduce(dim, index, src, "prod", include_self=include_self)
        of_input = grad * conj(product / rest)
        zeros = src == 0
        count = ops.zeros_like(grad).scatter_add(dim, index, zeros.to(grad.dtype)).gather(dim, index)
        only = zeros & (count == 1)
        shown = src.masked_fill(only, 1)
        others = input.scatter_reduce(dim, index, shown, "prod", include_self=include_self)
        divisor = src.masked_fill(zeros, 1)
        usual = grad * conj(result)
        usual_part = usual.gather(dim, index)
        quotient = usual_part / conj(divisor)
        single = grad * conj(others)
        single_part = single.gather(dim, index)
        of_src = ops.where(only, single_part, quotient)
        del rest, product, zeros, count, only, shown, others, divisor, usual, usual_part, quotient, single, single_part
    else:
        at_source = result.gather(dim, index)
        own = (input == result).to(grad.dtype)
        chosen = (src == at_source).to(grad.dtype)
        count = own.scatter_add(dim, index, chosen)
        count.masked_fill_(count == 0, 1)
        share = grad / count
        of_input = (input == result) * share
        share_at_source = share.gather(dim, index)
        of_src = (src == at_source) * share_at_source
        del at_source, own, chosen, count, share, share_at_source
    if not include_self:
        of_input = of_input.scatter(dim, index, 0)
    return of_input, of_src


def reduced_by_scatter(grad: Any, input: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool, result: Any) -> tuple:
    """Return the gradients of `scatter_reduce` for `input` and `src`."""
    if src.shape == index.shape or index.numel() == 0:
        if index.numel() == 0:
            return grad, ops.zeros_like(src)
        return _reduced(grad, input, dim, index, src, reduce, include_self, result)
    within = tuple(slice(n) for n in index.shape)
    of_input, part = _reduced(grad, input, dim, index, src[within], reduce, include_self, result)
    of_src = part.new_zeros(src.shape)
    of_src[within] = part
    return of_input, of_src


def reduced_by_index(grad: Any, input: Any, dim: int, index: Any, source: Any, reduce: str, include_self: bool, result: Any) -> tuple:
    """Return the gradients of `index_reduce` for `input` and `source`, as those of `scatter_reduce` with whole slices."""
    shape = [1] * source.ndim
    if shape:
        shape[dim] = -1
    index = index.to(ops.arange(1).dtype).reshape(shape).expand(source.shape)
    return reduced_by_scatter(grad, input, dim, index, source, reduce, include_self, result)
