"""Kernels of batch_norm and instance_norm."""

from __future__ import annotations

import math
from typing import Any

from metatensor.devices.array_kit.normalization import by_channel, centred, scaled_by_channel, standardized
from metatensor.devices.array_kit.reduction import variance
from metatensor.devices.array_kit.registry import kernel


def _by_statistics(input: Any, mean: Any, var: Any, weight: Any, bias: Any, eps: float, xp: Any) -> Any:
    scale = 1 / xp.sqrt(var + var.dtype.type(eps))
    if weight is not None:
        scale = scale * weight.reshape(-1)
    shift = -mean * scale if bias is None else bias.reshape(-1) - mean * scale
    result = input * by_channel(scale, input.ndim).astype(input.dtype)
    result += by_channel(shift, input.ndim).astype(input.dtype)
    return result


def _channel_axes(array: Any) -> tuple[int, ...]:
    return (0, *range(2, array.ndim))


def _updated(running: Any, found: Any, momentum: float) -> Any:
    return running * (1 - momentum) + found.reshape(running.shape) * momentum


@kernel("nn.functional._batch_norm_eval", "nn.functional._instance_norm_eval")
def batch_norm_eval(kit: Any, out: Any, input: Any, mean: Any, var: Any, weight: Any, bias: Any, eps: float) -> Any:
    if not input.size:
        return input
    return _by_statistics(input, mean.reshape(-1), var.reshape(-1), weight, bias, eps, kit.xp)


@kernel("nn.functional._batch_norm_stats")
def batch_norm_stats(kit: Any, out: Any, input: Any, weight: Any, bias: Any, eps: float) -> Any:
    return scaled_by_channel(standardized(kit.xp, input, _channel_axes(input), eps)[0], weight, bias)


@kernel("nn.functional._batch_norm_train")
def batch_norm_train(
    kit: Any, out: Any, input: Any, running_mean: Any, running_var: Any, weight: Any, bias: Any, momentum: float, eps: float
) -> Any:
    result, mean, var = centred(kit, input, out[0])
    scale = 1 / kit.xp.sqrt(var + var.dtype.type(eps))
    result *= by_channel(scale if weight is None else scale * weight, input.ndim).astype(input.dtype)
    if bias is not None:
        result += by_channel(bias, input.ndim)
    count = math.prod(input.shape[axis] for axis in _channel_axes(input))
    unbiased = var * (count / (count - 1)) if count > 1 else var
    return (
        result,
        _updated(running_mean, mean, momentum) if count else running_mean,
        _updated(running_var, unbiased, momentum) if count else running_var,
    )


@kernel("nn.functional._batch_statistics")
def batch_statistics(kit: Any, out: Any, input: Any, weight: Any, eps: float) -> Any:
    _, mean, var = centred(kit, input)
    return mean, 1 / kit.xp.sqrt(var + var.dtype.type(eps))


@kernel("nn.functional._instance_norm")
def instance_norm(kit: Any, out: Any, input: Any, weight: Any, bias: Any, eps: float) -> Any:
    return scaled_by_channel(standardized(kit.xp, input, tuple(range(2, input.ndim)), eps)[0], weight, bias)


@kernel("nn.functional._instance_norm_train")
def instance_norm_train(
    kit: Any, out: Any, input: Any, running_mean: Any, running_var: Any, weight: Any, bias: Any, momentum: float, eps: float
) -> Any:
    axes = tuple(range(2, input.ndim))
    var, mean = variance(kit.xp, input, axes, 1)
    result = standardized(kit.xp, input, axes, eps)[0]
    there = input.shape[0] > 0
    return (
        scaled_by_channel(result, weight, bias),
        _updated(running_mean, mean.mean(axis=0), momentum) if there else running_mean,
        _updated(running_var, var.mean(axis=0), momentum) if there else running_var,
    )
