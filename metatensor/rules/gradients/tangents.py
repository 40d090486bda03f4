"""Formulas for the tangents of results, for operators whose gradient rule should not be transposed."""

from __future__ import annotations

import math
from typing import Any

import metatensor as mt
from metatensor._core.gradient_parts import logical_axes
from metatensor.rules.gradients.activation import implicit_dim
from metatensor.rules.gradients.linalg import gaps, with_diagonal

__all__ = [
    "batch_norm", "cholesky_ex", "deviation_and_mean", "eig", "eigh", "embedding", "group_norm", "layer_norm", "log_softmax",
    "logcumsumexp", "softmax", "softmin", "svd", "variance_and_mean",
]  # fmt: skip


def softmax(input_tangent: Any, result: Any, dim: Any) -> Any:
    """Return the tangent of a softmax."""
    dim = implicit_dim(dim, result.dim())
    tangent = input_tangent.to(result.dtype)
    return result * (tangent - (result * tangent).sum(dim, keepdim=True))


def softmin(input_tangent: Any, result: Any, dim: Any) -> Any:
    """Return the tangent of a softmin."""
    return -softmax(input_tangent, result, dim)


def log_softmax(input_tangent: Any, result: Any, dim: Any) -> Any:
    """Return the tangent of the logarithm of a softmax."""
    dim = implicit_dim(dim, result.dim())
    tangent = input_tangent.to(result.dtype)
    return tangent - (result.exp() * tangent).sum(dim, keepdim=True)


def logcumsumexp(input: Any, input_tangent: Any, dim: int, result: Any) -> Any:
    """Return the tangent of `logcumsumexp`: the mean of the tangents so far, weighted by the exponentials."""
    if not input.dim() or not input.numel():
        return input_tangent
    if input.is_complex():
        weights = input.exp()
        return (weights * input_tangent).cumsum(dim) / weights.cumsum(dim)
    weights = (input - input.detach().amax(dim, keepdim=True)).exp()
    return (weights * input_tangent).cumsum(dim) / weights.cumsum(dim)


def embedding(input: Any, weight_tangent: Any) -> Any:
    """Return the tangent of the rows of a table. Renormalization of the table is not differentiated."""
    return weight_tangent.index_select(0, input.reshape(-1)).reshape(*input.shape, weight_tangent.shape[1])


def variance_and_mean(input: Any, input_tangent: Any, dims: Any, correction: Any, keepdim: bool) -> tuple[Any, Any]:
    """Return the tangents of the variance and the mean."""
    axes = logical_axes(dims, input.ndim)
    if not axes:  # every element of a scalar
        input, input_tangent = input.reshape(1), input_tangent.reshape(1)
        axes, keepdim = (0,), False
    count = math.prod(input.shape[axis] for axis in axes)
    left = max(0, count - (1 if correction is None else correction))
    scale = 2 / left if left else math.inf if count else 0  # the tangent is 0 where there are no elements
    product = (input - input.mean(axes, True)).conj() * input_tangent
    product = product.real if product.is_complex() else product
    return product.sum(axes, keepdim) * scale, input_tangent.mean(axes, keepdim)


def deviation_and_mean(input: Any, input_tangent: Any, dims: Any, correction: Any, keepdim: bool, result: Any) -> tuple[Any, Any]:
    """Return the tangents of the standard deviation and the mean. The former is 0 where the deviation is 0."""
    variance, mean = variance_and_mean(input, input_tangent, dims, correction, keepdim)
    return (variance / (2 * result[0])).masked_fill(result[0] == 0, 0), mean


# Normalization: the statistics are recomputed, because second derivatives depend on them.


def _wide(x: Any) -> Any:
    return x.to(mt.float32) if x is not None and x.itemsize == 2 and x.is_floating_point() else x


def _normalized(x: Any, tangent: Any, inner: tuple[int, ...], eps: float) -> tuple[Any, Any, Any, Any]:
    """Return the normalized input, its tangent, and the tangents of the mean and of the reciprocal deviation."""
    centred = x - x.mean(inner, True)
    rstd = ((centred * centred).mean(inner, True) + eps).rsqrt()
    normal = centred * rstd
    if tangent is None:
        return normal, None, None, None
    mean_tangent = tangent.mean(inner, True)
    shifted = tangent - mean_tangent
    along = (normal * shifted).mean(inner, True)
    return normal, rstd * (shifted - normal * along), mean_tangent, -rstd * rstd * along


def _affine(normal: Any, tangent: Any, weight: Any, weight_tangent: Any, bias_tangent: Any, dtype: Any) -> Any:
    parts = []
    if tangent is not None:
        parts.append(tangent if weight is None else tangent * weight)
    if weight_tangent is not None:
        parts.append(normal * weight_tangent)
    if bias_tangent is not None:
        parts.append(bias_tangent.expand(normal.shape))
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total.to(dtype)


def layer_norm(
    input: Any, input_tangent: Any, normalized_shape: Any, weight: Any, weight_tangent: Any, bias_tangent: Any, eps: float
) -> tuple[Any, Any, Any]:
    """Return the tangents of the results of `native_layer_norm`."""
    inner = tuple(range(input.dim() - len(normalized_shape), input.dim()))
    normal, tangent, mean, rstd = _normalized(_wide(input), _wide(input_tangent), inner, eps)
    return _affine(normal, tangent, weight, weight_tangent, bias_tangent, input.dtype), mean, rstd


def group_norm(
    input: Any, input_tangent: Any, weight: Any, weight_tangent: Any, bias_tangent: Any, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Any, Any, Any]:
    """Return the tangents of the results of `native_group_norm`."""

    def grouped(x: Any) -> Any:
        return None if x is None else _wide(x).reshape(N, group, C // group * HxW)

    def by_channel(x: Any) -> Any:
        return None if x is None else x.reshape(1, C, 1)

    normal, tangent, mean, rstd = _normalized(grouped(input), grouped(input_tangent), (2,), eps)
    normal, tangent = normal.reshape(N, C, HxW), None if tangent is None else tangent.reshape(N, C, HxW)
    made = _affine(normal, tangent, by_channel(weight), by_channel(weight_tangent), by_channel(bias_tangent), input.dtype)
    return made.reshape(input.shape), None if mean is None else mean.reshape(N, group), None if rstd is None else rstd.reshape(N, group)


def batch_norm(
    input: Any, input_tangent: Any, running_mean: Any, running_var: Any, weight: Any, weight_tangent: Any, bias_tangent: Any,
    training: bool, eps: float,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Return the tangents of the results of a batch normalization. As in PyTorch, its statistics have no tangents."""
    shape = (1, -1, *(1,) * (input.dim() - 2))

    def by_channel(x: Any) -> Any:
        return None if x is None else _wide(x).reshape(shape)

    x, t = _wide(input), _wide(input_tangent)
    if training:
        normal, tangent, _, _ = _normalized(x, t, (0, *range(2, input.dim())), eps)
    else:
        scale = (by_channel(running_var) + eps).rsqrt()
        normal, tangent = (x - by_channel(running_mean)) * scale, None if t is None else t * scale
    made = _affine(normal, tangent, by_channel(weight), by_channel(weight_tangent), by_channel(bias_tangent), input.dtype)
    return made, None, None


# Eigenvectors and singular vectors: norms and phases are fixed, which determines a tangent's component along its vector.


def cholesky_ex(input_tangent: Any, upper: bool, result: Any) -> tuple[Any, Any]:
    """Return the tangent of a Cholesky factor.

    From A = L L^H follows dL = L T, where T is the lower triangle of L^-1 dA L^-H with half its diagonal.
    """
    lower = result[0].mH if upper else result[0]
    inner = mt.linalg.solve_triangular(lower, input_tangent, upper=False)
    inner = mt.linalg.solve_triangular(lower.mH, inner, upper=True, left=False)
    tangent = lower @ with_diagonal(inner.tril(), inner.diagonal(0, -2, -1) * 0.5)
    return tangent.mH if upper else tangent, None


def eigh(input_tangent: Any, result: Any) -> tuple[Any, Any]:
    """Return the tangents of the eigenvalues and eigenvectors of a Hermitian matrix A = V diag(w) V^H."""
    values, v = result
    inner = v.mH @ input_tangent @ v
    return inner.diagonal(0, -2, -1).real, v @ with_diagonal(inner / gaps(values), None)


def eig(input_tangent: Any, result: Any) -> tuple[Any, Any]:
    """Return the tangents of the eigenvalues and eigenvectors of A = V diag(w) V^-1. The columns of V have norm 1."""
    values, v = result
    inner = mt.linalg.solve(v, input_tangent.to(v.dtype) @ v)
    turned = v @ with_diagonal(inner / gaps(values), None)
    along = (v.conj() * turned).sum(-2, keepdim=True).real
    return inner.diagonal(0, -2, -1), turned - v * along


def svd(A_tangent: Any, full_matrices: bool, result: Any) -> tuple[Any, Any, Any]:
    """Return the tangents of U, the singular values s and V^H in A = U diag(s) V^H.

    Columns of U and V beyond the singular values count as constant, as in the gradient rule.
    """
    u, s, vh = result
    k = s.shape[-1]
    missing = u.shape[-1] - k, vh.shape[-2] - k
    u, vh = u.narrow(-1, 0, k), vh.narrow(-2, 0, k)
    v, moved = vh.mH, A_tangent @ vh.mH
    inner = u.mH @ moved
    columns, rows, apart = s.unsqueeze(-2), s.unsqueeze(-1), gaps(s * s)
    left = with_diagonal((inner * columns + rows * inner.mH) / apart, None)
    right = with_diagonal((rows * inner + inner.mH * columns) / apart, None)
    if inner.is_complex():
        phases = inner.diagonal(0, -2, -1).imag / (2 * s) * 1j
        left, right = with_diagonal(left, phases), with_diagonal(right, -phases)
    by_u, by_v = u @ left, v @ right
    if u.shape[-2] > s.shape[-1]:
        by_u = by_u + (moved - u @ inner) / columns
    if v.shape[-2] > s.shape[-1]:
        back = A_tangent.mH @ u
        by_v = by_v + (back - v @ inner.mH) / columns
    by_u, by_vh = mt.nn.functional.pad(by_u, (0, missing[0])), mt.nn.functional.pad(by_v.mH, (0, 0, 0, missing[1]))
    return by_u, inner.diagonal(0, -2, -1).real, by_vh
