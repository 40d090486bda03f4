"""Kernels of reductions. Long float32 sums use float64 if the array library would add one element at a time."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from metatensor.devices.array_kit.copy import cast
from metatensor.devices.array_kit.registry import kernel

# A sequential sum loses one bit each time the number of rows doubles. With at least this many, use a wider dtype.
MANY = 256


def axes_of(dim: Any, ndim: int, empty_is_all: bool = True) -> tuple[int, ...]:
    """Return the sorted axes of an optional int or list. None and, by default, an empty list stand for all axes."""
    if ndim == 0:
        return ()
    if dim is None:
        return tuple(range(ndim))
    if isinstance(dim, int):
        return (dim % ndim,)
    if not len(dim):
        return tuple(range(ndim)) if empty_is_all else ()
    return (dim[0] % ndim,) if len(dim) == 1 else tuple(sorted(d % ndim for d in dim))


def count_of(array: Any, axes: tuple[int, ...]) -> int:
    """Return the number of elements that are reduced to one element."""
    if len(axes) == array.ndim:
        return int(array.size)
    return int(array.shape[axes[0]]) if len(axes) == 1 else math.prod(array.shape[axis] for axis in axes)


def wide_dtype(array: Any, axes: tuple[int, ...]) -> Any:
    """Return the dtype in which the elements of a float32 or complex64 array are added.

    NumPy adds pairwise along the axis that is contiguous in memory, but sequentially along other axes.
    """
    dtype = array.dtype
    if dtype.char not in "fF" or count_of(array, axes) < MANY:
        return dtype
    if axes and axes[-1] == array.ndim - 1 and array.flags.c_contiguous:
        return dtype
    return np.dtype("f8") if dtype.char == "f" else np.dtype("c16")


def total(xp: Any, array: Any, axes: tuple[int, ...], keepdims: bool = False) -> Any:
    """Return the accurate sum of a floating-point array over axes, in the array's dtype or a wider one."""
    return array.sum(axis=axes, dtype=wide_dtype(array, axes), keepdims=keepdims)


def mean_of(xp: Any, array: Any, axes: tuple[int, ...], keepdims: bool = False) -> Any:
    """Return the mean over axes in the dtype of `total`. It is NaN if there are no elements."""
    sums = total(xp, array, axes, keepdims)
    return sums / sums.dtype.type(count_of(array, axes))


def variance(xp: Any, array: Any, axes: tuple[int, ...], correction: float, keepdims: bool = False) -> tuple[Any, Any]:
    """Return variance and mean, in two passes: first the mean, then the squared deviations from it."""
    mean = mean_of(xp, array, axes, True)
    deviation = array - mean.astype(array.dtype)
    if array.dtype.kind == "c":
        squares = deviation.real**2 + deviation.imag**2
    else:
        squares = xp.multiply(deviation, deviation, out=deviation) if deviation.ndim else deviation * deviation
    divisor = max(0.0, count_of(array, axes) - correction)
    var = total(xp, squares, axes, True)
    var = var / var.dtype.type(divisor)
    if not keepdims:
        mean, var = (xp.squeeze(item, axis=axes) for item in (mean, var))
    return var, mean


# Sums ----------------------------------------------------------------------------


@kernel("sum")
def sum(kit: Any, out: Any, input: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    axes = axes_of(dim, input.ndim)
    if input.dtype == out.dtype and input.dtype.kind in "fc":
        if wide_dtype(input, axes) != out.dtype:
            return total(kit.xp, input, axes, keepdim)
    elif out.dtype.kind == "b":
        return kit.xp.any(input != 0, axis=axes, keepdims=keepdim)
    elif input.dtype.kind == "c" and out.dtype.kind != "c":
        input = input.real
    input.sum(axis=axes, dtype=out.dtype, out=out, keepdims=keepdim)
    return None


@kernel("nansum")
def nansum(kit: Any, out: Any, input: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    if input.dtype.kind == "f":
        input = kit.xp.where(kit.xp.isnan(input), input.dtype.type(0), input)
    return sum(kit, out, input, dim, keepdim, dtype)


@kernel("mean")
def mean(kit: Any, out: Any, input: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    return mean_of(kit.xp, cast(input, out.dtype), axes_of(dim, input.ndim), keepdim)


@kernel("nanmean")
def nanmean(kit: Any, out: Any, input: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    xp, axes = kit.xp, axes_of(dim, input.ndim)
    input = cast(input, out.dtype)
    missing = xp.isnan(input)
    there = xp.sum(~missing, axis=axes, keepdims=keepdim)
    return total(xp, xp.where(missing, input.dtype.type(0), input), axes, keepdim) / there.astype(input.dtype)


@kernel("prod")
def prod(kit: Any, out: Any, input: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    axes = axes_of(dim, input.ndim)
    if out.dtype.kind == "b":
        return kit.xp.all(input != 0, axis=axes, keepdims=keepdim)
    return kit.xp.prod(input, axis=axes, dtype=out.dtype, keepdims=keepdim)


@kernel("trace")
def trace(kit: Any, out: Any, input: Any) -> Any:
    return kit.xp.trace(input, dtype=out.dtype)


@kernel("logsumexp")
def logsumexp(kit: Any, out: Any, input: Any, dim: Any, keepdim: bool) -> Any:
    xp, axes = kit.xp, axes_of(dim, input.ndim)
    if out.dtype.kind == "c" or input.dtype.kind != "c":
        input = cast(input, out.dtype)
    if not count_of(input, axes):
        return xp.full(out.shape, -math.inf, out.dtype)
    largest = xp.max(input.real, axis=axes, keepdims=True)
    largest = xp.where(xp.isinf(largest), largest.dtype.type(0), largest)
    total = xp.sum(xp.exp(input - largest), axis=axes, keepdims=keepdim)
    result = xp.log(total if out.dtype.kind == "c" else total.real)
    return result + (largest if keepdim else xp.squeeze(largest, axis=axes))


# Truth ---------------------------------------------------------------------------


@kernel("all")
def all(kit: Any, out: Any, input: Any, dim: Any, keepdim: bool) -> Any:
    return kit.xp.all(input != 0, axis=axes_of(dim, input.ndim, empty_is_all=False), keepdims=keepdim)


@kernel("any")
def any(kit: Any, out: Any, input: Any, dim: Any, keepdim: bool) -> Any:
    return kit.xp.any(input != 0, axis=axes_of(dim, input.ndim, empty_is_all=False), keepdims=keepdim)


@kernel("count_nonzero")
def count_nonzero(kit: Any, out: Any, input: Any, dim: Any) -> Any:
    return kit.xp.sum(input != 0, axis=axes_of(dim, input.ndim), dtype=out.dtype)


# Largest and smallest --------------------------------------------------------------


@kernel("amax")
def amax(kit: Any, out: Any, input: Any, dim: Any, keepdim: bool) -> None:
    if out.size:
        input.max(axis=axes_of(dim, input.ndim), out=out, keepdims=keepdim)


@kernel("amin")
def amin(kit: Any, out: Any, input: Any, dim: Any, keepdim: bool) -> None:
    if out.size:
        input.min(axis=axes_of(dim, input.ndim), out=out, keepdims=keepdim)


@kernel("aminmax")
def aminmax(kit: Any, out: Any, input: Any, dim: Any, keepdim: bool) -> None:
    amin(kit, out[0], input, dim, keepdim)
    amax(kit, out[1], input, dim, keepdim)


@kernel("max")
def max_all(kit: Any, out: Any, input: Any) -> None:
    input.max(out=out)


@kernel("min")
def min_all(kit: Any, out: Any, input: Any) -> None:
    input.min(out=out)


@kernel("max.other")
def max_other(kit: Any, out: Any, input: Any, other: Any) -> Any:
    return kit.xp.maximum(input, other, dtype=out.dtype)


@kernel("min.other")
def min_other(kit: Any, out: Any, input: Any, other: Any) -> Any:
    return kit.xp.minimum(input, other, dtype=out.dtype)


def _extreme(kit: Any, out: Any, input: Any, dim: int, keepdim: bool, find: Any) -> Any:
    """Return the element along `dim` that `find` (argmax or argmin) selects, and its index."""
    if not input.ndim:
        return input, kit.xp.zeros((), np.int64)
    if not out[0].size:
        return out
    indices = kit.xp.expand_dims(find(input, axis=dim), dim)
    values = kit.xp.take_along_axis(input, indices, axis=dim)
    return (values, indices) if keepdim else (kit.xp.squeeze(values, axis=dim), kit.xp.squeeze(indices, axis=dim))


@kernel("max.dim")
def max_dim(kit: Any, out: Any, input: Any, dim: int, keepdim: bool) -> Any:
    return _extreme(kit, out, input, dim, keepdim, kit.xp.argmax)


@kernel("min.dim")
def min_dim(kit: Any, out: Any, input: Any, dim: int, keepdim: bool) -> Any:
    return _extreme(kit, out, input, dim, keepdim, kit.xp.argmin)


def _where(out: Any, input: Any, dim: int | None, find: Any) -> Any:
    if dim is None or not input.ndim:
        return find(input).reshape(out.shape)
    return find(input, axis=dim).reshape(out.shape) if out.size else out


@kernel("argmax")
def argmax(kit: Any, out: Any, input: Any, dim: int | None, keepdim: bool) -> Any:
    return _where(out, input, dim, kit.xp.argmax)


@kernel("argmin")
def argmin(kit: Any, out: Any, input: Any, dim: int | None, keepdim: bool) -> Any:
    return _where(out, input, dim, kit.xp.argmin)


# Variance --------------------------------------------------------------------------


def _var_of(kit: Any, out: Any, input: Any, dim: Any, correction: float, keepdim: bool, root: bool, both: bool) -> Any:
    axes = axes_of(dim, input.ndim)
    if count_of(input, axes) <= correction:
        warnings.warn("var(), std(): there are no degrees of freedom, because the correction is not less than the "
                      "number of elements per result", stacklevel=2)
    var, mean = variance(kit.xp, input, axes, correction, keepdim)
    if root:
        var = kit.xp.sqrt(var)
    return (var, mean) if both else var


def _define(name: str, root: bool, both: bool) -> None:
    @kernel(name)
    def by_correction(kit: Any, out: Any, input: Any, dim: Any, correction: Any, keepdim: bool) -> Any:
        return _var_of(kit, out, input, dim, 1 if correction is None else correction, keepdim, root, both)

    @kernel(f"{name}.dim")
    def by_dim(kit: Any, out: Any, input: Any, dim: Any, unbiased: bool, keepdim: bool) -> Any:
        return _var_of(kit, out, input, dim, int(unbiased), keepdim, root, both)

    @kernel(f"{name}.unbiased")
    def of_all(kit: Any, out: Any, input: Any, unbiased: bool) -> Any:
        return _var_of(kit, out, input, None, int(unbiased), False, root, both)


_define("var", root=False, both=False)
_define("std", root=True, both=False)
_define("var_mean", root=False, both=True)
_define("std_mean", root=True, both=True)
