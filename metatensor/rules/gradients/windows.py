"""Gradients of pooling and resizing, and both operations composed of other operators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import metatensor as mt
from metatensor._core.gradients import functional, ops

__all__ = []


def _each(value: Any, n: int) -> tuple:
    return tuple(value) * (n if len(value) == 1 else 1) if isinstance(value, (tuple, list)) else (value,) * n


# Maxima ---------------------------------------------------------------------------------------------


def max_pool_backward(grad: Any, input: Any, indices: Any, n: int) -> Any:
    """Add each gradient at the position of its maximum in the flattened image."""
    lead = input.shape[:-n]
    flat = mt.zeros((*lead, math.prod(input.shape[-n:])), dtype=grad.dtype, device=grad.device)
    count = math.prod(grad.shape[-n:])
    result = ops.scatter_add(flat, len(lead), indices.reshape(*lead, count), grad.reshape(*lead, count))
    return result.reshape(input.shape)


def _with_indices(n: int) -> Any:
    def max_pool(input: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, return_indices: bool) -> Any:
        with_indices = getattr(functional, f"max_pool{n}d_with_indices")
        made = with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
        return made if return_indices else made[0]

    return max_pool


max_pool1d, max_pool2d, max_pool3d = (_with_indices(n) for n in (1, 2, 3))


def max_pool1d_with_indices(
    input: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, return_indices: bool
) -> Any:
    k = _each(kernel_size, 1)
    made = functional.max_pool2d_with_indices(
        input.unsqueeze(-2),
        (1, *k),
        (1, *(_each(stride, 1) if stride else k)),
        (0, *_each(padding, 1)),
        (1, *_each(dilation, 1)),
        ceil_mode,
    )
    return made[0].squeeze(-2), made[1].squeeze(-2)


def _adaptive_with_indices(n: int) -> Any:
    def adaptive_max_pool(input: Any, output_size: Any, return_indices: bool) -> Any:
        made = getattr(functional, f"adaptive_max_pool{n}d_with_indices")(input, output_size)
        return made if return_indices else made[0]

    return adaptive_max_pool


adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = (_adaptive_with_indices(n) for n in (1, 2, 3))


def adaptive_max_pool1d_with_indices(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    made = functional.adaptive_max_pool2d_with_indices(input.unsqueeze(-2), (1, *_each(output_size, 1)))
    return made[0].squeeze(-2), made[1].squeeze(-2)


def _fractional(n: int) -> Any:
    def fractional_max_pool(
        input: Any, kernel_size: Any, output_size: Any, output_ratio: Any, return_indices: bool, samples: Any, generator: Any
    ) -> Any:
        with_indices = getattr(functional, f"fractional_max_pool{n}d_with_indices")
        made = with_indices(input, kernel_size, output_size, output_ratio, False, samples, generator=generator)
        return made if return_indices else made[0]

    return fractional_max_pool


fractional_max_pool2d, fractional_max_pool3d = _fractional(2), _fractional(3)


def unpool(grad: Any, indices: Any, n: int) -> Any:
    lead = grad.shape[:-n]
    flat = (grad.reshape(*lead, math.prod(grad.shape[-n:])), indices.reshape(*lead, math.prod(indices.shape[-n:])))
    return flat[0].gather(len(lead), flat[1]).reshape(indices.shape)


def unpool2d(grad: Any, indices: Any) -> Any:
    return unpool(grad, indices, 2)


def unpool3d(grad: Any, indices: Any) -> Any:
    return unpool(grad, indices, 3)


def max_unpool1d(input: Any, indices: Any, kernel_size: Any, stride: Any, padding: Any, output_size: Any) -> Any:
    k = _each(kernel_size, 1)
    size = None if output_size is None else [output_size[-1], 1]
    result = functional.max_unpool2d(
        input.unsqueeze(-1), indices.unsqueeze(-1), (*k, 1), (*(_each(stride, 1) if stride else k), 1), (*_each(padding, 1), 0), size
    )
    return result.squeeze(-1)


# Averages -------------------------------------------------------------------------------------------


def _along(grad: Any, matrices: Sequence[Any]) -> Any:
    """Multiply each of the last dimensions by a matrix."""
    n = len(matrices)
    for i, matrix in enumerate(matrices):
        d = grad.dim() - n + i
        grad = grad.transpose(d, -1).matmul(matrix).transpose(d, -1)
    return grad


def _window_matrices(
    before: Any, after: Any, kernel_size: Any, stride: Any, padding: Any, count_include_pad: bool, divisor: Any, like: Any
) -> list:
    """Return, for each dimension, a matrix (after, before) that averages windows, or sums them if there is a divisor."""
    matrices = []
    for size, out, k, s, p in zip(before, after, kernel_size, stride, padding):
        first = mt.arange(out, device=like.device).unsqueeze(1) * s - p
        places = mt.arange(size, device=like.device)
        inside = ((places >= first) & (places < first + k)).to(like.dtype)
        if divisor is None:
            end = (first + k).clamp_max(size + p)
            count = end - first if count_include_pad else end.clamp_max(size) - first.clamp_min(0)
            inside = inside / count.to(like.dtype)
        matrices.append(inside)
    return matrices


def avg_pool_backward(grad: Any, input: Any, kernel_size: Any, stride: Any, padding: Any, count_include_pad: bool, divisor: Any) -> Any:
    n = len(kernel_size)
    matrices = _window_matrices(input.shape[-n:], grad.shape[-n:], kernel_size, stride, padding, count_include_pad, divisor, grad)
    result = _along(grad, matrices)
    return result if divisor is None else result / divisor


def avg_pool_twice(
    grad: Any, grad_output_meta: Any, kernel_size: Any, stride: Any, padding: Any, count_include_pad: bool, divisor_override: Any
) -> Any:
    n = len(kernel_size)
    matrices = _window_matrices(
        grad.shape[-n:], grad_output_meta.shape[-n:], kernel_size, stride, padding, count_include_pad, divisor_override, grad
    )
    result = _along(grad, [matrix.t() for matrix in matrices])
    return result if divisor_override is None else result / divisor_override


def _avg(grad: Any, input: Any, kernel_size: Any, stride: Any, padding: Any, count_include_pad: bool, divisor: Any, n: int) -> Any:
    k = _each(kernel_size, n)
    return ops._avg_pool_backward(grad, input, k, _each(stride, n) if stride else k, _each(padding, n), count_include_pad, divisor)


def avg_pool2d(grad: Any, input: Any, kernel_size: Any, stride: Any, padding: Any, count_include_pad: bool, divisor_override: Any) -> Any:
    return _avg(grad, input, kernel_size, stride, padding, count_include_pad, divisor_override, 2)


def avg_pool3d(grad: Any, input: Any, kernel_size: Any, stride: Any, padding: Any, count_include_pad: bool, divisor_override: Any) -> Any:
    return _avg(grad, input, kernel_size, stride, padding, count_include_pad, divisor_override, 3)


def avg_pool1d(input: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, count_include_pad: bool) -> Any:
    k = _each(kernel_size, 1)
    result = functional.avg_pool2d(
        input.unsqueeze(-2), (1, *k), (1, *(_each(stride, 1) if stride else k)), (0, *_each(padding, 1)), ceil_mode, count_include_pad
    )
    return result.squeeze(-2)


def adaptive_avg_pool_backward(grad: Any, input: Any, n: int) -> Any:
    matrices = []
    for size, out in zip(input.shape[-n:], grad.shape[-n:]):
        k = mt.arange(out, device=grad.device).unsqueeze(1)
        first, end = (k * size).div(out, rounding_mode="floor"), ((k + 1) * size + out - 1).div(out, rounding_mode="floor")
        places = mt.arange(size, device=grad.device)
        matrices.append(((places >= first) & (places < end)).to(grad.dtype) / (end - first).to(grad.dtype))
    return _along(grad, matrices)


def adaptive_avg_pool_twice(grad: Any, grad_output_meta: Any, n: int) -> Any:
    return getattr(functional, f"adaptive_avg_pool{n}d")(grad, grad_output_meta.shape[-n:])


def max_pool_twice(grad: Any, indices: Any, n: int) -> Any:
    return unpool(grad, indices, n)


def _adaptive_mean(n: int) -> Any:
    def adaptive_avg_pool(input: Any, output_size: Any) -> Any:
        if _each(output_size, n) == (1,) * n and input.numel():
            return input.mean(tuple(range(-n, 0)), True)
        return NotImplemented

    return adaptive_avg_pool


adaptive_avg_pool2d, adaptive_avg_pool3d = _adaptive_mean(2), _adaptive_mean(3)


def adaptive_avg_pool1d(input: Any, output_size: Any) -> Any:
    return functional.adaptive_avg_pool2d(input.unsqueeze(-2), (1, *_each(output_size, 1))).squeeze(-2)


def _lp(n: int) -> Any:
    def lp_pool(input: Any, norm_type: float, kernel_size: Any, stride: Any, ceil_mode: bool) -> Any:
        k = _each(kernel_size, n)
        mean = getattr(functional, f"avg_pool{n}d")(input.pow(norm_type), k, stride, 0, ceil_mode)
        return (mean.sign() * mean.abs().relu()).mul(math.prod(k)).pow(1 / norm_type)

    return lp_pool


lp_pool1d, lp_pool2d, lp_pool3d = (_lp(n) for n in (1, 2, 3))


# Resizing ------------------------------------------------------------------------------------------


_NAMES = {
    "nearest": "UpsampleNearest",
    "nearest-exact": "UpsampleNearestExact",
    "linear": "UpsampleLinear",
    "bilinear": "UpsampleBilinear",
    "bicubic": "UpsampleBicubic",
    "trilinear": "UpsampleTrilinear",
    "lanczos": "UpsampleLanczos",
}


def upsample_node(input: Any, mode: str, antialias: bool) -> str:
    n = input.dim() - 2
    return f"{_NAMES.get(mode, 'Upsample')}{n}D{'Aa' if antialias else ''}Backward0"


def interpolate(input: Any, size: Any, scale_factor: Any, mode: str, align_corners: Any, recompute: Any, antialias: bool) -> Any:
    if mode != "area":
        return NotImplemented
    n = input.dim() - 2
    if size is None:
        size = [math.floor(s * f) for s, f in zip(input.shape[2:], _each(scale_factor, n))]
    return getattr(functional, f"adaptive_avg_pool{n}d")(input, _each(size, n))


def upsample(
    grad: Any, input_meta: Any, size: Any, scale_factor: Any, mode: str, align_corners: Any, recompute_scale_factor: Any, antialias: bool
) -> Any:
    scale = None if scale_factor is None else [float(f) for f in _each(scale_factor, len(input_meta.shape) - 2)]
    return ops._upsample_backward(grad, input_meta.shape, scale, mode, align_corners, recompute_scale_factor, antialias)


def upsample_backward(grad: Any, shape: Any, scale: Any, mode: str, align_corners: Any, recompute: Any, antialias: bool) -> Any:
    """Multiply each dimension by the matrix that resizes it. Resizing the rows of an identity gives this matrix."""
    n = len(shape) - 2
    matrices = []
    for i in range(n):
        before, after = shape[i + 2], grad.shape[i + 2]
        ones = [1] * n
        rows = mt.eye(before, dtype=grad.dtype, device=grad.device).view(1, before, *ones[:i], before, *ones[i + 1 :])
        if scale is None:
            made = functional.interpolate(rows, [*ones[:i], after, *ones[i + 1 :]], None, mode, align_corners, None, antialias)
        else:
            factors = [*ones[:i], scale[i], *ones[i + 1 :]]
            made = functional.interpolate(rows, None, factors, mode, align_corners, recompute, antialias)
        matrices.append(made.reshape(before, after).t())
    return _along(grad, matrices)
