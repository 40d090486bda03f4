"""Kernels of norms and distances."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from metatensor.devices.array_kit.reduction import axes_of, total
from metatensor.devices.array_kit.registry import kernel

# Maximum number of elements in the array of differences that `cdist` allocates.
PIECE = 1 << 22


def vector_norm_of(xp: Any, array: Any, order: float, axes: tuple[int, ...], keepdims: bool = False) -> Any:
    """Return the vector norm of the given order over ``axes``. It is 0 if there are no elements."""
    size = math.prod(array.shape[axis] for axis in axes)
    if order in (math.inf, -math.inf):
        magnitude = xp.abs(array)
        if not size:
            return total(xp, magnitude, axes, keepdims)
        return (xp.max if order > 0 else xp.min)(magnitude, axis=axes, keepdims=keepdims)
    if order == 0:
        return xp.sum(array != 0, axis=axes, keepdims=keepdims)
    if order == 2:
        squares = array.real**2 + array.imag**2 if array.dtype.kind == "c" else array * array
        return xp.sqrt(total(xp, squares, axes, keepdims))
    magnitude = xp.abs(array)
    if order == 1:
        return total(xp, magnitude, axes, keepdims)
    return total(xp, magnitude**order, axes, keepdims) ** (1.0 / order)


@kernel("linalg.vector_norm")
def vector_norm(kit: Any, out: Any, x: Any, ord: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    if dtype is not None:
        x = x.astype(kit.dtype(dtype), copy=False)
    return vector_norm_of(kit.xp, x, float(ord), axes_of(dim, x.ndim), keepdim)


@kernel("linalg.matrix_norm")
def matrix_norm(kit: Any, out: Any, A: Any, ord: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    xp = kit.xp
    if dtype is not None:
        A = A.astype(kit.dtype(dtype), copy=False)
    if not A.size and not (isinstance(ord, str) and ord == "fro"):
        return xp.zeros(out.shape, out.dtype)
    A = xp.moveaxis(A, tuple(dim), (-2, -1))
    if ord == "fro":
        result = vector_norm_of(xp, A, 2.0, (A.ndim - 2, A.ndim - 1))
    elif ord == "nuc":
        result = xp.sum(xp.linalg.svd(A, compute_uv=False), axis=-1)
    else:
        select = xp.max if ord > 0 else xp.min
        if abs(ord) == 2:
            result = select(xp.linalg.svd(A, compute_uv=False), axis=-1)
        else:
            sums = total(xp, xp.abs(A), (A.ndim - 2 if abs(ord) == 1 else A.ndim - 1,))
            result = select(sums, axis=-1)
    return result.reshape(out.shape)


@kernel("dist")
def dist(kit: Any, out: Any, input: Any, other: Any, p: Any) -> Any:
    difference = input - other
    return vector_norm_of(kit.xp, difference, float(p), tuple(range(difference.ndim)))


@kernel("cdist")
def cdist(kit: Any, out: Any, x1: Any, x2: Any, p: float, compute_mode: str) -> Any:
    """Compute distances from differences, one block of rows of ``x1`` at a time. A matrix product would lose digits."""
    xp = kit.xp
    rows = max(1, PIECE // max(1, math.prod(out.shape[:-2]) * x2.shape[-2] * x2.shape[-1]))
    result = xp.empty(out.shape, out.dtype)
    for first in range(0, x1.shape[-2], rows):
        difference = x1[..., first : first + rows, None, :] - x2[..., None, :, :]
        result[..., first : first + rows, :] = vector_norm_of(xp, difference, float(p), (difference.ndim - 1,))
    return result


@kernel("renorm")
def renorm(kit: Any, out: Any, input: Any, p: Any, dim: int, maxnorm: Any) -> Any:
    xp = kit.xp
    axes = tuple(axis for axis in range(input.ndim) if axis != dim % input.ndim)
    norms = vector_norm_of(xp, input, float(p), axes, True).astype(np.dtype(input.dtype.type(0).real.dtype))
    scale = xp.where(norms > maxnorm, maxnorm / (norms + 1e-7), 1.0).astype(norms.dtype)
    return input * scale
