"""Kernels of normalization layers. Statistics take two passes: first the mean, then the squared deviations from it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from metatensor.devices.array_kit import host
from metatensor.devices.array_kit.norms import vector_norm_of
from metatensor.devices.array_kit.pointwise import is_single
from metatensor.devices.array_kit.reduction import axes_of, total, variance
from metatensor.devices.array_kit.registry import kernel


def by_channel(vector: Any, ndim: int, axis: int = 1) -> Any:
    """Reshape a vector with one element per channel to broadcast along ``axis``."""
    shape = [1] * ndim
    shape[axis] = -1
    return vector.reshape(shape)


def standardized(xp: Any, array: Any, axes: tuple[int, ...], eps: float) -> tuple[Any, Any, Any]:
    """Return (array - mean) / sqrt(variance + eps) as a new array, the mean, and 1 / sqrt(variance + eps)."""
    var, mean = variance(xp, array, axes, 0, True)
    rstd = 1 / xp.sqrt(var + var.dtype.type(eps))
    result = array - mean.astype(array.dtype)
    result *= rstd.astype(array.dtype)
    return result, mean, rstd


def affine(result: Any, weight: Any, bias: Any) -> Any:
    """Multiply ``result`` by ``weight`` and add ``bias``, in place. Both must broadcast to the shape of ``result``."""
    if weight is not None:
        result *= weight
    if bias is not None:
        result += bias
    return result


# Up to this length BLAS adds the elements of a row with enough partial sums to be as accurate as a pairwise sum.
LONGEST_ROW = 4096


def channel_sums(kit: Any, array: Any, other: Any = None) -> Any:
    """Return the sums of each channel of ``array``, or of the products ``array * other``, as a vector.

    On the host, BLAS adds rows faster than NumPy, and needs no array of the products.
    """
    single = kit.on_host and array.ndim > 2 and array.size and array.dtype.char in "fd" and array.flags.c_contiguous
    if single and array[0, 0].size <= LONGEST_ROW and (other is None or (other.dtype == array.dtype and other.flags.c_contiguous)):
        n, channels = array.shape[:2]
        rows = array.reshape(n * channels, -1)
        if other is None:
            sums = rows @ np.ones(rows.shape[1], array.dtype)
        else:
            sums = np.matmul(rows[:, None], other.reshape(n * channels, -1, 1))
        return sums.reshape(n, channels).sum(0, dtype=np.float64)
    return total(kit.xp, array if other is None else array * other, (0, *range(2, array.ndim)))


def centred(kit: Any, array: Any, out: Any = None) -> tuple[Any, Any, Any]:
    """Return the deviations of an array of real numbers from the means of its channels, the means, and the variances.

    The deviations are written to ``out`` if it is given. Means and variances are vectors, possibly in a wider dtype.
    """
    count = math.prod(array.shape) // max(1, array.shape[1])
    means = channel_sums(kit, array)
    means = means / means.dtype.type(count)
    deviation = kit.xp.subtract(array, by_channel(means, array.ndim).astype(array.dtype), out=out)
    squares = channel_sums(kit, deviation, deviation)
    return deviation, means, squares / squares.dtype.type(count)


def scaled_by_channel(result: Any, weight: Any, bias: Any) -> Any:
    if result.ndim < 2:  # there are no channels, so weight and bias are empty
        return result
    return affine(
        result,
        None if weight is None else by_channel(weight, result.ndim),
        None if bias is None else by_channel(bias, result.ndim),
    )


# layer_norm and rms_norm -------------------------------------------------------------------


def _layer_norm(kit: Any, input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float) -> tuple[Any, Any, Any]:
    axes = tuple(range(input.ndim - len(normalized_shape), input.ndim))
    result, mean, rstd = standardized(kit.xp, input, axes, eps)
    return affine(result, weight, bias), mean, rstd


@kernel("nn.functional.layer_norm")
def layer_norm(kit: Any, out: Any, input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    if is_single(kit, out, input) and input.size:
        weight, bias = (None if item is None else np.ascontiguousarray(item, np.float32) for item in (weight, bias))
        host.layer_norm(np.ascontiguousarray(input), weight, bias, out, math.prod(normalized_shape), eps)
        return None
    return _layer_norm(kit, input, normalized_shape, weight, bias, eps)[0]


@kernel("native_layer_norm")
def native_layer_norm(kit: Any, out: Any, input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    return _layer_norm(kit, input, normalized_shape, weight, bias, eps)


@kernel("nn.functional.rms_norm")
def rms_norm(kit: Any, out: Any, input: Any, normalized_shape: Any, weight: Any, eps: float | None) -> Any:
    xp = kit.xp
    if eps is None:
        eps = float(np.finfo(input.dtype).eps)
    axes = tuple(range(input.ndim - len(normalized_shape), input.ndim))
    # Complex numbers are squared without taking magnitudes, as in PyTorch.
    mean = total(xp, input * input, axes, True) / math.prod(input.shape[axis] for axis in axes)
    result = input * (1 / xp.sqrt(mean + mean.dtype.type(eps))).astype(input.dtype)
    return result if weight is None else result * weight


# group_norm -----------------------------------------------------------------------------------


def _group_norm(kit: Any, input: Any, groups: int, weight: Any, bias: Any, eps: float, n: int, channels: int) -> Any:
    grouped = input.reshape(n, groups, -1) if input.size else input.reshape(n, groups, 0)
    result, mean, rstd = standardized(kit.xp, grouped, (2,), eps)
    result = result.reshape(n, channels, -1) if input.size else result.reshape(n, channels, 0)
    return scaled_by_channel(result, weight, bias).reshape(input.shape), mean.reshape(n, groups), rstd.reshape(n, groups)


@kernel("nn.functional.group_norm")
def group_norm(kit: Any, out: Any, input: Any, num_groups: int, weight: Any, bias: Any, eps: float) -> Any:
    return _group_norm(kit, input, num_groups, weight, bias, eps, input.shape[0], input.shape[1])[0]


@kernel("native_group_norm")
def native_group_norm(
    kit: Any, out: Any, input: Any, weight: Any, bias: Any, N: int, C: int, HxW: int, group: int, eps: float
) -> Any:
    return _group_norm(kit, input, group, weight, bias, eps, N, C)


@kernel("nn.functional.normalize")
def normalize(kit: Any, out: Any, input: Any, p: float, dim: Any, eps: float) -> Any:
    norms = vector_norm_of(kit.xp, input, float(p), axes_of(dim, input.ndim), True)
    return input / kit.xp.maximum(norms, eps).astype(np.dtype(input.dtype.type(0).real.dtype))
