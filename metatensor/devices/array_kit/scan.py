"""Kernels of cumulative operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from metatensor.devices.array_kit.registry import kernel


def accumulate(xp: Any, ufunc: Any, array: Any, axis: int) -> Any:
    """Return ``ufunc.accumulate`` along an axis. For libraries other than NumPy compute it in log(n) steps."""
    if hasattr(ufunc, "accumulate") and xp is np:
        return ufunc.accumulate(array, axis=axis)
    return doubling(xp, ufunc, array, axis)


def doubling(xp: Any, combine: Callable[[Any, Any], Any], array: Any, axis: int) -> Any:
    """Scan with an associative function. After k steps each element combines itself and up to 2**k - 1 before it."""
    moved = xp.moveaxis(array, axis, 0).copy()
    step = 1
    while step < moved.shape[0]:
        moved[step:] = combine(moved[:-step].copy(), moved[step:])
        step *= 2
    return xp.moveaxis(moved, 0, axis)


@kernel("cumsum")
def cumsum(kit: Any, out: Any, input: Any, dim: int, dtype: Any) -> Any:
    if not input.ndim:
        return input
    kit.xp.cumsum(input, axis=dim, dtype=out.dtype, out=out)
    return None


@kernel("cumprod")
def cumprod(kit: Any, out: Any, input: Any, dim: int, dtype: Any) -> Any:
    if not input.ndim:
        return input
    kit.xp.cumprod(input, axis=dim, dtype=out.dtype, out=out)
    return None


def _extremes(kit: Any, input: Any, dim: int, ufunc: Any) -> Any:
    """Return the running extreme and the index of its last occurrence. After the first NaN all values are NaN."""
    xp = kit.xp
    if not input.ndim:
        return input, xp.zeros((), np.int64)
    if not input.size:
        return input, xp.zeros(input.shape, np.int64)
    values = accumulate(xp, ufunc, input, dim)
    reached = input == values
    if input.dtype.kind == "f":
        reached |= xp.isnan(input)
    shape = [1] * input.ndim
    shape[dim] = input.shape[dim]
    places = xp.where(reached, xp.arange(input.shape[dim]).reshape(shape), np.int64(0))
    return values, accumulate(xp, xp.maximum, places, dim)


@kernel("cummax")
def cummax(kit: Any, out: Any, input: Any, dim: int) -> Any:
    return _extremes(kit, input, dim, kit.xp.maximum)


@kernel("cummin")
def cummin(kit: Any, out: Any, input: Any, dim: int) -> Any:
    return _extremes(kit, input, dim, kit.xp.minimum)


@kernel("logcumsumexp")
def logcumsumexp(kit: Any, out: Any, input: Any, dim: int) -> Any:
    xp = kit.xp
    if not input.ndim:
        return input
    if input.dtype.kind != "c":
        return accumulate(xp, xp.logaddexp, input, dim)

    # One element after the other: complex logarithms are ambiguous by 2 pi i, so the result depends on the order.
    rows = xp.moveaxis(input, dim, 0)
    result = xp.empty_like(rows)
    for i in range(rows.shape[0]):
        sums = complex_logaddexp(xp, result[i - 1], rows[i]) if i else xp.where(xp.isnan(rows[i]), UNKNOWN, rows[i])
        result[i] = xp.where(sums.real == -np.inf, np.complex64(-np.inf), sums)     # log(0) has no angle
    return xp.moveaxis(result, 0, dim)


UNKNOWN = np.complex64(complex(np.nan, np.nan))


def complex_logaddexp(xp: Any, a: Any, b: Any) -> Any:
    """Return log(exp(a) + exp(b)) for complex numbers.

    Its imaginary part is close to that of the operand with the larger real part.
    """
    smaller = (a.real < b.real) | xp.isnan(a.real)
    low, high = xp.where(smaller, a, b), xp.where(smaller, b, a)
    sums = xp.log1p(xp.exp(low - high)) + high
    same = xp.isinf(low.real) & (low.real == high.real)
    sums = xp.where(same, xp.where(low.real < 0, low, xp.log(xp.exp(low) + xp.exp(high))), sums)
    return xp.where(xp.isnan(a) | xp.isnan(b), UNKNOWN, sums)
