"""Kernels of the gradients of normalization layers.

Let x = (input - mean) / deviation be the normalized input and g the gradient of the result times the weight. The
gradient of the input is then (g - mean(g) - x mean(g x)) / deviation. Means are over the elements that were normalized
together.
"""

from __future__ import annotations

import math
from typing import Any

from metatensor.devices.array_kit.normalization import channel_sums
from metatensor.devices.array_kit.registry import kernel

__all__: list[str] = []


def _centred(xp: Any, g: Any, x: Any, dims: tuple[int, ...], scale: Any) -> Any:
    """Return ``(g - mean(g) - x mean(g x)) * scale``."""
    result = x * (g * x).mean(dims, keepdims=True)
    xp.subtract(g, result, out=result)
    result -= g.mean(dims, keepdims=True)
    result *= scale
    return result


@kernel("native_layer_norm_backward")
def layer_norm(
    kit: Any, out: Any, grad_out: Any, input: Any, normalized_shape: Any, mean: Any, rstd: Any, weight: Any, bias: Any, eps: float,
    output_mask: Any,
) -> None:  # fmt: skip
    before = input.ndim - len(normalized_shape)
    inner, outer = tuple(range(before, input.ndim)), tuple(range(before))
    x = input - mean
    x *= rstd
    if output_mask[0]:
        g = grad_out if weight is None else grad_out * weight
        out[0][...] = _centred(kit.xp, g, x, inner, rstd)
    if output_mask[1]:
        out[1][...] = (grad_out * x).sum(outer)
    if output_mask[2]:
        out[2][...] = grad_out.sum(outer)


@kernel("native_group_norm_backward")
def group_norm(
    kit: Any, out: Any, grad_out: Any, input: Any, mean: Any, rstd: Any, weight: Any, N: int, C: int, HxW: int, group: int, eps: float,
    output_mask: Any,
) -> None:  # fmt: skip
    shape, each = (N, group, C // group, HxW), (N, group, 1, 1)
    grad, scale = grad_out.reshape(shape), rstd.reshape(each)
    x = input.reshape(shape) - mean.reshape(each)
    x *= scale
    if output_mask[0]:
        g = grad if weight is None else grad * weight.reshape(group, C // group, 1)
        out[0][...] = _centred(kit.xp, g, x, (2, 3), scale).reshape(input.shape)
    if output_mask[1]:
        out[1][...] = (grad * x).sum((0, 3)).reshape(C)
    if output_mask[2]:
        out[2][...] = grad.sum((0, 3)).reshape(C)


@kernel("native_batch_norm_backward")
def batch_norm(
    kit: Any, out: Any, grad_out: Any, input: Any, weight: Any, running_mean: Any, running_var: Any, save_mean: Any, save_invstd: Any,
    train: bool, eps: float, output_mask: Any,
) -> None:  # fmt: skip
    xp, dims = kit.xp, (0, *range(2, input.ndim))
    each = (-1,) + (1,) * (input.ndim - 2)
    mean = (save_mean if train else running_mean).reshape(each)
    scale = (save_invstd if train else 1 / xp.sqrt(running_var + running_var.dtype.type(eps))).reshape(each)
    factor = scale if weight is None else scale * weight.reshape(each)
    dtype = grad_out.dtype
    total = channel_sums(kit, grad_out).reshape(each)
    if output_mask[1] or (train and output_mask[0]):
        x = xp.subtract(input, mean, out=out[0]) if output_mask[0] and input.dtype == dtype else (input - mean).astype(dtype)
        product = channel_sums(kit, grad_out, x).reshape(each) * scale
        if output_mask[1]:
            out[1][...] = product.reshape(-1)
    if output_mask[0] and train:
        n = max(1, math.prod(input.shape[d] for d in dims))
        x *= (product * scale / -n).astype(dtype)
        x += grad_out
        x -= (total / n).astype(dtype)
        x *= factor.astype(dtype)
        out[0][...] = x
    elif output_mask[0]:
        out[0][...] = grad_out * factor
    if output_mask[2]:
        out[2][...] = total.reshape(-1)
