"""Gradients of reductions, cumulative operators, order statistics and norms."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor._core.errors import DataDependentError
from metatensor._core.gradient_parts import conj, logical_axes, restored, spread
from metatensor._core.gradients import linalg, ops
from metatensor._core.tensor import Tensor

__all__ = [
    "accumulated_exponentials",
    "accumulated_product",
    "averaged",
    "between_rows",
    "cdist_first",
    "cdist_node",
    "cdist_second",
    "chosen",
    "deviation",
    "deviation_and_mean",
    "log_summed",
    "matrix_norm",
    "mean_of_numbers",
    "multiplied",
    "pairs_of_rows",
    "quantile",
    "renormed",
    "rows_apart",
    "shared",
    "shared_by_all",
    "shared_ends",
    "variance",
    "variance_and_mean",
    "vector_norm",
]


def _count(shape: tuple, dims: Any) -> int:
    n = 1
    for d in logical_axes(dims, len(shape)) if shape else ():
        n *= shape[d]
    return n


def averaged(grad: Any, shape: tuple, dims: Any, keepdim: bool) -> Any:
    """Return the gradient of a mean."""
    return spread(grad, shape, dims, keepdim) / _count(shape, dims)


def mean_of_numbers(input: Any, dims: Any, keepdim: bool, dtype: Any) -> Any:
    """Compute `nanmean`."""
    counts = ops.isnan(input.detach()).logical_not_().sum(dims, keepdim)
    return input.nansum(dims, keepdim, dtype=dtype) / counts


def log_summed(grad: Any, input: Any, dims: Any, keepdim: bool, result: Any) -> Any:
    """Return the gradient of `logsumexp`: `grad` times the share of each exponential in the sum."""
    whole = restored(result, input.shape, dims, keepdim)
    # Replace infinite results, so that no difference of infinities is computed.
    lost = ops.isinf(whole)
    return restored(grad, input.shape, dims, keepdim) * conj(ops.exp(input - whole.masked_fill(lost, 0)))


# Products -----------------------------------------------------------------------------------------------


def _has_zeros(input: Any) -> bool:
    try:
        return bool((input == 0).any())
    except DataDependentError:
        return False


def _others(input: Any, dim: int) -> Any:
    """Return, for each element, the product of all other elements along `dim`."""
    n = input.shape[dim]
    one = ops.ones_like(input.narrow(dim, 0, 1))
    before = ops.cat([one, input.narrow(dim, 0, n - 1)], dim).cumprod(dim)
    after = ops.cat([one, input.narrow(dim, 1, n - 1).flip(dim)], dim).cumprod(dim).flip(dim)
    return before * after


def multiplied(grad: Any, input: Any, dim: int | None, keepdim: bool, result: Any) -> Any:
    """Return the gradient of a product."""
    if not input.ndim:
        return grad
    if not _has_zeros(input):
        return restored(grad * conj(result), input.shape, dim, keepdim) / conj(input)
    if dim is None:
        return grad * conj(_others(input.reshape(-1), 0).reshape(input.shape))
    return restored(grad, input.shape, dim, keepdim) * conj(_others(input, dim))


def accumulated_product(grad: Any, input: Any, dim: int, result: Any) -> Any:
    """Return the gradient of a cumulative product."""
    if not input.ndim or not input.numel() or input.shape[dim] == 1:
        return grad
    if not _has_zeros(input):
        return (grad * conj(result)).flip(dim).cumsum(dim).flip(dim) / conj(input)
    n = input.shape[dim]
    made = []
    for k in range(n):
        # The products without element k. Only those from k on contain it as a factor.
        without = [input.narrow(dim, 0, k), ops.ones_like(input.narrow(dim, 0, 1)), input.narrow(dim, k + 1, n - k - 1)]
        product = ops.cat(without, dim).cumprod(dim).narrow(dim, k, n - k)
        made.append((grad.narrow(dim, k, n - k) * conj(product)).sum(dim))
    return ops.stack(made, dim)


def accumulated_exponentials(grad: Any, input: Any, dim: int, result: Any) -> Any:
    """Return the gradient of `logcumsumexp`. Element k contributes to every sum from k on."""
    if not input.ndim or not input.numel():
        return grad

    result = result.masked_fill(ops.isinf(result), 0)  # results of elements that are -inf, which contribute to no sum

    def back(logs: Any) -> Any:
        return (conj(logs) - result).flip(dim).logcumsumexp(dim).flip(dim)

    if input.is_complex():
        return conj(ops.exp(back(ops.log(grad)) + input))
    up = ops.where(grad > 0, ops.log(grad), -float("inf"))
    down = ops.where(grad < 0, ops.log(-grad), -float("inf"))
    return ops.exp(back(up) + input) - ops.exp(back(down) + input)


# Selected elements ------------------------------------------------------------------------------------


def chosen(grad: Any, shape: tuple, dim: int, keepdim: bool, indices: Any) -> Any:
    """Return zeros with `grad` at the indices along `dim`."""
    if not keepdim and shape:
        grad, indices = grad.unsqueeze(dim), indices.unsqueeze(dim)
    return grad.new_zeros(shape).scatter(dim, indices, grad)


def shared(grad: Any, input: Any, dims: Any, keepdim: bool, result: Any) -> Any:
    """Return the gradient of a maximum or minimum along dimensions. Equal elements get equal parts."""
    whole = restored(result, input.shape, dims, keepdim)
    equal = input == whole
    axes = logical_axes(dims, input.ndim)
    return restored(grad, input.shape, dims, keepdim) / (equal.sum(axes, True) if axes else 1) * equal


def shared_by_all(grad: Any, input: Any, result: Any) -> Any:
    """Return the gradient of a maximum, minimum or median of all elements. Equal elements, also NaN, get equal parts."""
    equal = ops.where(ops.isnan(result), ops.isnan(input), input == result)
    return grad * equal / equal.sum()


def shared_ends(grads: tuple, input: Any, dim: int | None, keepdim: bool, low: Any, high: Any) -> Any:
    """Return the gradient of the smallest and the largest element."""
    parts = [shared(g, input, dim, keepdim, end) for g, end in zip(grads, (low, high)) if g is not None]
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


# Spread -------------------------------------------------------------------------------------------------


def variance(grad: Any, input: Any, dims: Any, correction: Any, keepdim: bool) -> Any:
    """Return the gradient of the variance."""
    left = _count(input.shape, dims) - (1 if correction is None else correction)
    grad = restored(grad, input.shape, dims, keepdim)
    if left <= 0:  # the variance and its derivative are NaN or infinite
        return grad * ops.full_like(input, float("nan"))
    return grad * (2 / left) * (input - input.mean(logical_axes(dims, input.ndim), True))


def deviation(grad: Any, input: Any, dims: Any, correction: Any, keepdim: bool, result: Any) -> Any:
    """Return the gradient of the standard deviation. It is 0 where the deviation is 0."""
    return variance((grad / (result * 2)).masked_fill(result == 0, 0), input, dims, correction, keepdim)


def variance_and_mean(grads: tuple, input: Any, dims: Any, correction: Any, keepdim: bool) -> Any:
    """Return the gradient of the variance and the mean."""
    made = None if grads[0] is None else variance(grads[0], input, dims, correction, keepdim)
    if grads[1] is None:
        return made
    mean = averaged(grads[1], input.shape, dims, keepdim)
    return mean if made is None else made + mean


def deviation_and_mean(grads: tuple, input: Any, dims: Any, correction: Any, keepdim: bool, result: Any) -> Any:
    """Return the gradient of the standard deviation and the mean."""
    if grads[0] is None:
        return averaged(grads[1], input.shape, dims, keepdim)
    return variance_and_mean(((grads[0] / (result * 2)).masked_fill(result == 0, 0), grads[1]), input, dims, correction, keepdim)


# Quantiles ------------------------------------------------------------------------------------------------


def quantile(input: Any, q: Any, dim: int | None, keepdim: bool, interpolation: str, ignore_nan: bool) -> Any:
    """Compute quantiles from the sorted elements."""
    if not isinstance(q, Tensor):
        q = ops.full((), q, dtype=input.dtype, device=input.device)
    rows = input
    if dim is None or not input.ndim:
        rows = input.reshape((1,) * (input.ndim if keepdim else 0) + (-1,))
    elif keepdim:
        rows = input.unsqueeze(-1).transpose(dim % input.ndim, -1)
    elif dim not in (-1, input.ndim - 1):
        rows = input.movedim(dim, -1)
    values = rows.sort(-1).values
    n = rows.shape[-1]
    missing = ops.isnan(rows.detach())
    if ignore_nan:
        ranks = q * (missing.logical_not_().sum(-1, True) - 1)
        del missing
        ranks = ranks.masked_fill_(ranks < 0, 0)
    else:  # if there is a NaN, it is sorted last and becomes the result
        ranks = (q * (n - 1)).expand(*rows.shape[:-1], q.shape[0] if q.ndim else 1)
        some = missing.any(-1, True)
        del missing
        ranks = ranks.masked_fill(some, n - 1)
        del some
    if interpolation == "lower":
        ranks = ranks.floor()
    elif interpolation == "higher":
        ranks = ranks.ceil()
    elif interpolation == "nearest":
        ranks = ranks.round()
    below = ranks.detach().long()
    made = values.gather(-1, below)
    if interpolation in ("linear", "midpoint"):
        weights = ops.full_like(ranks, 0.5) if interpolation == "midpoint" else ranks - below
        above = ranks.detach().ceil() if ranks.requires_grad else ranks.ceil_()
        made = made.lerp_(values.gather(-1, above.long()), weights)
    return made.squeeze_(-1) if not q.ndim else made.unsqueeze(0).transpose(0, -1).squeeze_(-1)


# Norms ----------------------------------------------------------------------------------------------------


def vector_norm(grad: Any, input: Any, order: Any, dims: Any, keepdim: bool, result: Any) -> Any:
    """Return the gradient of a vector norm."""
    axes = logical_axes(dims, input.ndim)
    g, norm = restored(grad, input.shape, dims, keepdim), restored(result, input.shape, dims, keepdim)
    if order == 0:
        return None
    if order == 1:
        return g * input.sgn()
    if order == 2:
        return g * (input / norm).masked_fill_(norm == 0, 0)
    size = input.abs()
    if order in (float("inf"), -float("inf")):
        equal = (size == norm) | (ops.isnan(size) & ops.isnan(norm))
        return input.sgn() * (g / (equal.sum(axes, True) if axes else 1) * equal)
    if order < 1:
        scaled = input.sgn() * _raised(size, order - 1).masked_fill_(size == 0, 0)
        return scaled * (g * norm ** (1 - order))
    scaled = input.sgn() * _raised(size, order - 1) if order < 2 else input * _raised(size, order - 2)
    del size
    return scaled * (g / norm ** (order - 1)).masked_fill_(norm == 0, 0)


def _raised(x: Any, exponent: Any) -> Any:
    """Return a power of a tensor that nobody else uses."""
    return x**exponent if x.requires_grad else x.pow_(exponent)


def between_rows(grad: Any, x1: Any, x2: Any, p: float, result: Any) -> Any:
    """Return the gradient of distances between rows, with respect to the differences of the rows."""
    made = vector_norm(grad, x1.unsqueeze(-2) - x2.unsqueeze(-3), p, -1, False, result)
    return grad.new_zeros((*grad.shape, x1.shape[-1])) if made is None else made


def cdist_node(x1: Any, x2: Any, p: float, compute_mode: Any) -> str:
    """Return the name of PyTorch's last node. PyTorch computes Euclidean distances of many rows by a reshaped matrix product."""
    if p != 2 or compute_mode in (2, "donot_use_mm_for_euclid_dist"):
        return "CdistBackward0"
    always = compute_mode in (1, "use_mm_for_euclid_dist")
    return "ViewBackward0" if always or x1.shape[-2] > 25 or x2.shape[-2] > 25 else "CdistBackward0"


def cdist_first(grad: Any, x1: Any, x2: Any, p: float, compute_mode: Any, result: Any) -> Any:
    """Return the gradient of `cdist` for `x1`. It uses a matrix product if the distances were computed by one."""
    if cdist_node(x1, x2, p, compute_mode) == "CdistBackward0":
        return ops._cdist_backward(grad, x1, x2, p, result)
    same = result == 0
    scale = (grad / result.masked_fill(same, 1)).masked_fill(same, 0)
    return x1 * scale.sum(-1, True) - scale @ x2


def cdist_second(grad: Any, x1: Any, x2: Any, p: float, compute_mode: Any, result: Any) -> Any:
    """Return the gradient of `cdist` for `x2`: the gradient for `x1` with `x1` and `x2` exchanged."""
    return cdist_first(grad.mT.contiguous(), x2, x1, p, compute_mode, result.mT.contiguous())


def rows_apart(grad: Any, x1: Any, x2: Any, p: float, distances: Any) -> Any:
    """Compute the gradient of `cdist` for the rows of `x1`."""
    return between_rows(grad, x1, x2, p, distances).sum(-2)


def pairs_of_rows(grad: Any, input: Any, p: float, distances: Any) -> Any:
    """Compute the gradient of `pdist`."""
    n = input.shape[0]
    if n < 2:
        return ops.zeros_like(input)
    first, second = (places.contiguous() for places in ops.triu_indices(n, n, 1, device=input.device))
    apart = input.index_select(0, first) - input.index_select(0, second)
    made = vector_norm(grad, apart, p, -1, False, distances)
    if made is None:
        return ops.zeros_like(input)
    return ops.zeros_like(input).index_add(0, first, made).index_add(0, second, -made)


def matrix_norm(input: Any, order: Any, dims: tuple, keepdim: bool, dtype: Any) -> Any:
    """Compute a norm of matrices."""
    if order == "fro":
        return linalg.vector_norm(input, 2, dims, keepdim, dtype=dtype)
    if dtype is not None:
        input = input.to(dtype=dtype)
    rows, columns = (d % input.ndim for d in dims)
    if order in (1, -1, float("inf"), -float("inf")):
        along, over = (rows, columns) if abs(order) == 1 else (columns, rows)
        if along < over and not keepdim:
            over -= 1
        sums = linalg.vector_norm(input, 1, along, keepdim)
        return sums.amax(over, keepdim) if order > 0 else sums.amin(over, keepdim)
    others = [d for d in range(input.ndim) if d not in (rows, columns)]
    values = linalg.svdvals(input.permute([*others, rows, columns]))
    made = values.sum(-1, keepdim) if order == "nuc" else values.amax(-1, keepdim) if order > 0 else values.amin(-1, keepdim)
    if not keepdim:
        return made
    order_back = [*others, rows, columns]
    return made.unsqueeze(-1).permute([order_back.index(d) for d in range(input.ndim)])


def renormed(grad: Any, input: Any, p: Any, dim: int, most: Any) -> Any:
    """Return the gradient of `renorm`, which multiplies slices by ``most / (norm + 1e-7)`` if their norm exceeds `most`."""
    dim %= input.ndim
    dims = [d for d in range(input.ndim) if d != dim]
    if input.dtype in (mt.float16, mt.bfloat16):
        grad, input = grad.to(mt.float32), input.to(mt.float32)
    norm = linalg.vector_norm(input, p, dims, True)
    along = (conj(grad) * input).sum(dims, True)
    of_norm = vector_norm(ops.real(along) if along.is_complex() else along, input, p, dims, True, norm)
    inverse = (norm + 1e-7).reciprocal()
    inward = of_norm * inverse
    difference = grad - inward
    scaled = difference * (inverse * most)
    del inward, difference
    return ops.where(norm > most, scaled, grad)
