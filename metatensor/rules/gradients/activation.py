"""Gradients of activation functions and dropout, and dropout composed of other operators."""

from __future__ import annotations

import math
from typing import Any

from metatensor._core.gradients import functional, ops
from metatensor._core.rule_node import renamed

__all__ = []


def prelu(grad: Any, input: Any, weight: Any, wanted: Any) -> Any:
    shaped = weight.reshape(()) if weight.numel() == 1 else weight.reshape(-1, *(1,) * max(input.dim() - 2, 0))
    first = ops.where(input > 0, grad, shaped * grad) if wanted[0] else None
    if not wanted[1]:
        return first, None
    second = ops.where(input > 0, 0.0, input * grad)
    if weight.numel() == 1:
        return first, second.sum().reshape(weight.shape)
    dims = [d for d in range(input.dim()) if d != 1]
    return first, second.sum(dims) if dims else second


def elu_of_result(grad: Any, result: Any, alpha: Any, scale: Any, input_scale: Any) -> Any:
    """Return the gradient of `elu`, computed from its result."""
    if alpha < 0:
        raise RuntimeError(f"elu: the gradient of an in-place call needs a positive alpha, got {alpha}")
    return ops.where(result > 0, grad * scale, grad * (result + alpha * scale).mul_(input_scale))


def leaky_relu_of_result(grad: Any, result: Any, negative_slope: Any) -> Any:
    if negative_slope < 0:
        raise RuntimeError(f"leaky_relu: the gradient of an in-place call needs a positive slope, got {negative_slope}")
    return ops.leaky_relu_backward(grad, result, negative_slope)


def implicit_dim(dim: Any, ndim: int) -> int:
    return dim if dim is not None else 0 if ndim in (0, 1, 3) else 1


def softmax(grad: Any, result: Any, dim: Any) -> Any:
    return ops._softmax_backward_data(grad, result, implicit_dim(dim, result.dim()))


def softmax_again(grad: Any, grad_output: Any, output: Any, dim: int) -> Any:
    """Return the gradient of softmax's gradient for its result.

    With the result y and its gradient g, the gradient of softmax is y * (g - sum(y * g)). It is differentiated by y.
    """
    first, second = ((x * output).sum(dim, True) for x in (grad, grad_output))
    return grad * (grad_output - second) - grad_output * first


def log_softmax(grad: Any, result: Any, dim: Any) -> Any:
    return ops._log_softmax_backward_data(grad, result, implicit_dim(dim, result.dim()))


def softmin(grad: Any, result: Any, dim: Any) -> Any:
    return -ops._softmax_backward_data(grad, result, implicit_dim(dim, result.dim()))


# Compositions -------------------------------------------------------------------------------------


def softsign(input: Any) -> Any:
    return input / (input.abs() + 1)


def tanhshrink(input: Any) -> Any:
    return input - input.tanh()


def rrelu(input: Any, lower: float, upper: float, training: bool, inplace: bool, generator: Any) -> Any:
    if not lower <= upper:
        return NotImplemented  # the operator itself raises the error
    noise = ops.empty_like(input)
    if training:
        noise.uniform_(lower, upper, generator=generator)
        noise.masked_fill_(input.detach() >= 0, 1)
    return ops._rrelu_with_noise(input, noise, lower, upper, training)


def rrelu_write(input: Any, lower: float, upper: float, training: bool, inplace: bool, generator: Any) -> Any:
    if not lower <= upper:
        return NotImplemented  # the operator itself raises the error
    if not training:
        return renamed(functional.leaky_relu_(input, (lower + upper) / 2), "RreluWithNoiseBackward1")
    noise = ops.empty_like(input).uniform_(lower, upper, generator=generator)
    noise.masked_fill_(input.detach() >= 0, 1)
    return renamed(input.mul_(noise), "RreluWithNoiseBackward1")


def _drop(input: Any, p: float, train: bool, generator: Any, channels: bool, alpha: bool, write: bool = False) -> Any:
    """Multiply by a random mask. For alpha dropout, also add a term that preserves the mean and the variance."""
    if not 0 <= p <= 1:
        return NotImplemented
    if not train or p == 0 or not input.numel():
        return input
    if not (input.is_floating_point() or input.is_complex()) or (channels and input.dim() < 2):
        return NotImplemented
    if p == 1:
        zero = ops.zeros((), dtype=input.dtype, device=input.device)
        return input.mul_(zero) if write else input * zero
    if channels:
        noise = input.new_empty(input.shape[:2] + (1,) * (input.dim() - 2))
    else:
        noise = ops.empty_like(input)
    noise.bernoulli_(1 - p, generator=generator)
    if not alpha:
        return input.mul_(noise.div_(1 - p)) if write else input * noise.div_(1 - p)
    factor = 1.7580993408473766
    a = 1 / math.sqrt((factor * factor * p + 1) * (1 - p))
    shift = noise.add(-1).mul_(factor * a).add_(factor * a * p)
    return input.mul_(noise.mul_(a)).add_(shift) if write else input * noise.mul_(a) + shift


def dropout(input: Any, p: float, train: bool, generator: Any) -> Any:
    if input.is_cuda and train and 0 < p < 1 and input.numel():
        return ops.native_dropout(input, p, train, generator=generator)[0]
    return _drop(input, p, train, generator, False, False)


def dropout_write(input: Any, p: float, train: bool, generator: Any) -> Any:
    return _drop(input, p, train, generator, False, False, True)


def feature_dropout_write(input: Any, p: float, train: bool, generator: Any) -> Any:
    return _drop(input, p, train, generator, True, False, True)


def alpha_dropout_write(input: Any, p: float, train: bool, generator: Any) -> Any:
    return _drop(input, p, train, generator, False, True, True)


def feature_alpha_dropout_write(input: Any, p: float, train: bool, generator: Any) -> Any:
    return _drop(input, p, train, generator, True, True, True)


def feature_dropout(input: Any, p: float, train: bool, generator: Any) -> Any:
    return _drop(input, p, train, generator, True, False)


def alpha_dropout(input: Any, p: float, train: bool, generator: Any) -> Any:
    return _drop(input, p, train, generator, False, True)


def feature_alpha_dropout(input: Any, p: float, train: bool, generator: Any) -> Any:
    return _drop(input, p, train, generator, True, True)


def _layer(function: Any) -> Any:
    def layer(input: Any, p: float, training: bool, inplace: bool, generator: Any) -> Any:
        return function(input, p, training, generator)

    return layer


def _unbatched(dims: int) -> Any:
    """Return the function for dropout of channels. Its inputs have `dims` dimensions, or one less without a batch."""

    def layer(input: Any, p: float, training: bool, inplace: bool, generator: Any) -> Any:
        if input.dim() == dims:
            return feature_dropout(input, p, training, generator)
        if dims == 3 and input.dim() != 2:
            return NotImplemented  # the operator itself raises the error
        result = feature_dropout(input.unsqueeze(0), p, training, generator)
        return result if result is NotImplemented else result.squeeze(0)

    return layer


layer_dropout, layer_alpha_dropout, layer_feature_alpha_dropout, layer_dropout2d = (
    _layer(function) for function in (dropout, alpha_dropout, feature_alpha_dropout, feature_dropout)
)
layer_dropout_write, layer_alpha_dropout_write, layer_feature_alpha_dropout_write, layer_dropout2d_write = (
    _layer(function) for function in (dropout_write, alpha_dropout_write, feature_alpha_dropout_write, feature_dropout_write)
)
layer_dropout1d, layer_dropout3d = _unbatched(3), _unbatched(5)


def ndtr(input: Any) -> Any:
    scaled = input * math.sqrt(0.5)
    error = ops.erf(scaled)
    raised = error + 1
    return renamed(raised * 0.5, "MulBackward1")
