"""Gradients of normalization layers, and the layers composed of other operators."""

from __future__ import annotations

import math
from typing import Any

import metatensor as mt
from metatensor._core.formats import channels_last, channels_last_3d
from metatensor._core.gradients import functional, ops
from metatensor._core.versions import data_alias

__all__ = []


def _wide(x: Any) -> Any:
    return x.to(mt.float32) if x.itemsize == 2 and x.is_floating_point() else x


def _affine_gradients(grad: Any, normal: Any, rstd: Any, weight: Any, inner: Any, outer: Any, shape: Any, mask: Any, dtypes: Any) -> tuple:
    """Return the gradients of input, weight and bias.

    `normal` is the normalized input, which has mean 0 and variance 1 over the dimensions `inner`. The parameters are
    shared along the dimensions `outer`.
    """
    first = second = third = None
    if mask[0]:
        g = grad if weight is None else grad * weight
        first = g - g.mean(inner, True) - normal * (g * normal).mean(inner, True)
        first = (first * rstd).to(dtypes[0])
    if mask[1]:
        second = grad * normal
        second = (second.sum(outer) if outer else second).reshape(shape).to(dtypes[1])
    if mask[2]:
        third = (grad.sum(outer) if outer else grad).reshape(shape).to(dtypes[2])
    return first, second, third


# layer_norm -----------------------------------------------------------------------------------


def native_layer_norm(
    grad: Any, input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float, result1: Any, result2: Any, wanted: Any
) -> Any:
    mask = [wanted[0], weight is not None and wanted[1], bias is not None and wanted[2]]
    return ops.native_layer_norm_backward(grad, input, normalized_shape, result1, result2, weight, bias, eps, mask)


def layer_norm_backward(grad: Any, input: Any, shape: Any, mean: Any, rstd: Any, weight: Any, bias: Any, eps: float, mask: Any) -> Any:
    """Recompute the statistics, because second derivatives depend on them."""
    inner = tuple(range(input.dim() - len(shape), input.dim()))
    x = _wide(input)
    if mean is None:
        mean = x.mean(inner, True)
        centred = x - mean
        rstd = ((centred * centred).mean(inner, True) + eps).rsqrt()
        normal = centred * rstd
    else:
        normal = (x - mean) * rstd
    dtypes = (input.dtype, weight.dtype if weight is not None else input.dtype, bias.dtype if bias is not None else input.dtype)
    return _affine_gradients(
        _wide(grad),
        normal,
        rstd,
        None if weight is None else _wide(weight),
        inner,
        tuple(range(input.dim() - len(shape))),
        shape,
        mask,
        dtypes,
    )


def layer_norm_again(grad: Any, input: Any, shape: Any, mean: Any, rstd: Any, weight: Any, bias: Any, eps: float, mask: Any) -> Any:
    return layer_norm_backward(grad, input, shape, None, None, weight, bias, eps, mask)


def rms_norm(input: Any, normalized_shape: Any, weight: Any, eps: Any) -> Any:
    if eps is None:
        eps = mt.finfo(input.dtype).eps
    x = input.to(mt.float32) if input.itemsize == 2 else input
    scale = (x.pow(2).mean(tuple(range(-len(normalized_shape), 0)), True) + eps).rsqrt()
    result = x * scale
    if weight is not None:
        result = result * weight
    return result if result.dtype is input.dtype else result.to(input.dtype)


# group_norm --------------------------------------------------------------------------------------


def group_norm(input: Any, num_groups: int, weight: Any, bias: Any, eps: float) -> Any:
    n, channels = input.shape[:2]
    last = {4: channels_last, 5: channels_last_3d}.get(input.dim())
    if input.device.type != "cpu" or last is None or not input.is_contiguous(memory_format=last):
        input = input.contiguous()  # in PyTorch, only the kernel for the cpu reads channels last
    return ops.native_group_norm(input, weight, bias, n, channels, math.prod(input.shape[2:]), num_groups, eps)[0]


def native_group_norm(
    grads: Any, input: Any, weight: Any, N: int, C: int, HxW: int, group: int, eps: float, result1: Any, result2: Any, wanted: Any
) -> Any:
    grad, of_mean, of_rstd = grads
    if grad is None:
        made = [None] * len(wanted)
    else:
        made = list(ops.native_group_norm_backward(grad, input, result1, result2, weight, N, C, HxW, group, eps, list(wanted)))
    if wanted[0] and (of_mean is not None or of_rstd is not None):
        x = _wide(input).reshape(N, group, C // group * HxW)
        mean = x.mean(-1, True)
        part = ops.zeros_like(x) if of_mean is None else (of_mean.unsqueeze(-1) / x.shape[-1]).expand_as(x)
        if of_rstd is not None:
            rstd = ((x - mean).square().mean(-1, True) + eps).rsqrt()
            part = part - of_rstd.unsqueeze(-1) * rstd**3 * (x - mean) / x.shape[-1]
        made[0] = (part.reshape(input.shape) if made[0] is None else made[0] + part.reshape(input.shape)).to(input.dtype)
    return made


def group_norm_backward(
    grad: Any, input: Any, mean: Any, rstd: Any, weight: Any, n: int, channels: int, pixels: int, groups: int, eps: float, mask: Any
) -> Any:
    shape = (n, groups, channels // groups, pixels)
    x, g = _wide(input).reshape(shape), _wide(grad).reshape(shape)
    if mean is None:
        middle = x.mean((2, 3), True)
        centred = x - middle
        scale = ((centred * centred).mean((2, 3), True) + eps).rsqrt()
        normal = centred * scale
    else:
        scale = rstd.reshape(n, groups, 1, 1)
        normal = (x - mean.reshape(n, groups, 1, 1)) * scale
    w = None if weight is None else _wide(weight).reshape(groups, channels // groups, 1)
    kept = input.dtype if weight is None else weight.dtype
    first, second, third = _affine_gradients(g, normal, scale, w, (2, 3), (0, 3), (channels,), mask, (input.dtype, kept, kept))
    return None if first is None else first.reshape(input.shape), second, third


def group_norm_again(grad: Any, input: Any, mean: Any, rstd: Any, *rest: Any) -> Any:
    return group_norm_backward(grad, input, None, None, *rest)


# batch_norm and instance_norm --------------------------------------------------------------------


def batch_norm(input: Any, running_mean: Any, running_var: Any, weight: Any, bias: Any, training: bool, momentum: float, eps: float) -> Any:
    if training and input.dim() and input.shape[0] == 1 and math.prod(input.shape[2:]) == 1:
        return NotImplemented  # the operator itself raises the error
    if (running_mean is None) != (running_var is None) or (not training and running_mean is None):
        return NotImplemented
    if not input.numel():
        return input.clone()
    return native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)[0]


def native_batch_norm(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, momentum: float, eps: float
) -> Any:
    if input.dim() < 2:
        return NotImplemented
    made = ops._batch_norm_forward(input, running_mean, running_var, weight, bias, training, momentum, eps)
    if training and running_mean is not None:
        data_alias(running_mean).copy_(made[3])
        data_alias(running_var).copy_(made[4])
    return made[:3]


def batch_norm_eval(input: Any, running_mean: Any, running_var: Any, weight: Any, bias: Any, eps: float) -> Any:
    return ops._batch_norm_forward(input, running_mean, running_var, weight, bias, False, 0.0, eps)[0]


def batch_norm_stats(input: Any, weight: Any, bias: Any, eps: float) -> Any:
    return ops._batch_norm_forward(input, None, None, weight, bias, True, 0.0, eps)[0]


def batch_norm_train(input: Any, running_mean: Any, running_var: Any, weight: Any, bias: Any, momentum: float, eps: float) -> Any:
    made = ops._batch_norm_forward(input, running_mean, running_var, weight, bias, True, momentum, eps)
    return made[0], made[3], made[4]


def native_batch_norm_no_stats(input: Any, weight: Any, bias: Any, training: bool, momentum: float, eps: float) -> Any:
    return native_batch_norm(input, weight, bias, None, None, training, momentum, eps) if training else NotImplemented


def batch_norm_forward(
    input: Any, running_mean: Any, running_var: Any, weight: Any, bias: Any, training: bool, momentum: float, eps: float
) -> Any:
    if not training:
        empty = [input.new_empty((0,)) for _ in range(2)]
        return functional._batch_norm_eval(input, running_mean, running_var, weight, bias, eps), *empty, None, None
    if running_mean is None:
        made = functional._batch_norm_stats(input, weight, bias, eps), None, None
    else:
        made = functional._batch_norm_train(input, running_mean, running_var, weight, bias, momentum, eps)
    return made[0], *functional._batch_statistics(input, weight, eps), *made[1:]


def batch_norm_gradients(
    grad: Any,
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any,
    training: bool,
    eps: float,
    result1: Any,
    result2: Any,
    wanted: Any,
) -> Any:
    return ops.native_batch_norm_backward(grad, input, weight, running_mean, running_var, result1, result2, training, eps, list(wanted))


def batch_norm_backward(
    grad: Any, input: Any, weight: Any, running_mean: Any, running_var: Any, mean: Any, rstd: Any, train: bool, eps: float, mask: Any
) -> Any:
    dims = (0, *range(2, input.dim()))
    shape = (-1,) + (1,) * (input.dim() - 2)
    x, g = _wide(input), _wide(grad)
    w = None if weight is None else _wide(weight).reshape(shape)
    channels = (input.shape[1],)
    kept = input.dtype if weight is None else weight.dtype
    dtypes = (input.dtype, kept, kept)
    if not train:
        scale = (running_var.reshape(shape) + eps).rsqrt()
        first = (g * (scale if w is None else w * scale)).to(input.dtype) if mask[0] else None
        second = (g * (x - running_mean.reshape(shape)) * scale).sum(dims).reshape(channels).to(kept) if mask[1] else None
        return first, second, g.sum(dims).reshape(channels).to(kept) if mask[2] else None
    if mean is None:
        centred = x - x.mean(dims, True)
        scale = ((centred * centred).mean(dims, True) + eps).rsqrt()
        normal = centred * scale
    else:
        scale = rstd.reshape(shape)
        normal = (x - mean.reshape(shape)) * scale
    return _affine_gradients(g, normal, scale, w, dims, dims, channels, mask, dtypes)


def batch_norm_again(grad: Any, input: Any, weight: Any, running_mean: Any, running_var: Any, mean: Any, rstd: Any, *rest: Any) -> Any:
    return batch_norm_backward(grad, input, weight, running_mean, running_var, None, None, *rest)


def instance_norm(
    input: Any, running_mean: Any, running_var: Any, weight: Any, bias: Any, use_input_stats: bool, momentum: float, eps: float
) -> Any:
    n, channels = input.shape[:2]
    if (
        use_input_stats
        and math.prod(input.shape[2:]) == 1
        or (running_mean is None) != (running_var is None)
        or (not use_input_stats and running_mean is None)
    ):
        return NotImplemented  # the operator itself raises the error
    repeated: list[Any] = [None if t is None else t.repeat(n) for t in (running_mean, running_var, weight, bias)]
    flat = input.contiguous().view(1, n * channels, *input.shape[2:])
    result = functional.batch_norm(flat, *repeated, use_input_stats, momentum, eps)
    if use_input_stats and running_mean is not None:
        data_alias(running_mean).copy_(repeated[0].view(n, channels).mean(0))
        data_alias(running_var).copy_(repeated[1].view(n, channels).mean(0))
    return result.view(input.shape)


def instance_norm_stats(input: Any, weight: Any, bias: Any, eps: float) -> Any:
    if math.prod(input.shape[2:]) == 1:  # the value is the mean
        shape = (1, -1, *input.shape[2:])
        normal = input - input
        scaled = normal if weight is None else normal * weight.reshape(shape)
        return scaled if bias is None else scaled + bias.reshape(shape)
    return instance_norm(input, None, None, weight, bias, True, 0.0, eps)


def instance_norm_eval(input: Any, running_mean: Any, running_var: Any, weight: Any, bias: Any, eps: float) -> Any:
    return instance_norm(input, running_mean, running_var, weight, bias, False, 0.0, eps)


def instance_norm_train(input: Any, running_mean: Any, running_var: Any, weight: Any, bias: Any, momentum: float, eps: float) -> Any:
    mean, var = running_mean.detach().clone(), running_var.detach().clone()
    return instance_norm(input, mean, var, weight, bias, True, momentum, eps), mean, var


def normalize(input: Any, p: float, dim: Any, eps: float) -> Any:
    norms = mt.linalg.vector_norm(input, p, dim, True).clamp_min(eps)
    return input / norms.expand_as(input)


def weight_norm(grad: Any, v: Any, g: Any, dim: int, result1: Any, wanted: Any) -> tuple:
    """Return the gradients of ``v * (g / norms)``, where the norms depend on `v`."""
    over = [i for i in range(v.dim()) if i != dim % v.dim()]
    if mt.is_grad_enabled():  # the gradient of the gradient passes through the norms
        result1 = mt.linalg.vector_norm(v, 2.0, over, True)
    scaled = grad * g / result1
    unit = v / result1
    return scaled - unit * (scaled * unit).sum(over, True), grad * unit
