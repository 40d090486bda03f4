"""Kernels of activation functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from metatensor.devices.array_kit import host
from metatensor.devices.array_kit.pointwise import by_parts, in_dtype, is_integral, is_single, pieces, unary
from metatensor.devices.array_kit.registry import kernel

# The constants of SELU: Klambauer et al., "Self-Normalizing Neural Networks", 2017.
SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946

_ROW = 4096

unary("nn.functional.softsign", lambda xp, x: x / (1 + xp.absolute(x)))
unary("nn.functional.tanhshrink", lambda xp, x: x - xp.tanh(x))
unary("nn.functional.logsigmoid", lambda xp, x: xp.minimum(x, 0) - xp.log1p(xp.exp(-xp.absolute(x))))
unary("nn.functional.hardsigmoid", lambda xp, x: xp.clip(x + 3, 0, 6) / 6)
unary("nn.functional.hardswish", lambda xp, x: x * (xp.clip(x + 3, 0, 6) / 6))


@kernel("relu", "nn.functional.relu")
def relu(kit: Any, out: Any, input: Any, *_: Any) -> None:
    zero = input.dtype.type(0)
    if kit.on_host and input.size >= _ROW and input.dtype == out.dtype and input.flags.c_contiguous and out.flags.c_contiguous:
        # NumPy's vectorized loop takes two arrays. With a number, it takes twice the time.
        input, out = input.reshape(-1), out.reshape(-1)
        whole = input.size // _ROW * _ROW
        zeros = np.zeros(_ROW, input.dtype)
        np.maximum(input[:whole].reshape(-1, _ROW), zeros, out=out[:whole].reshape(-1, _ROW))
        input, out = input[whole:], out[whole:]
    kit.xp.maximum(input, zero, out=out)


@kernel("nn.functional.relu6")
def relu6(kit: Any, out: Any, input: Any, *_: Any) -> Any:
    return kit.xp.clip(input, 0, 6)


@kernel("nn.functional.hardtanh")
def hardtanh(kit: Any, out: Any, input: Any, min_val: float, max_val: float, *_: Any) -> Any:
    low, high = in_dtype(min_val, input.dtype), in_dtype(max_val, input.dtype)
    return kit.xp.minimum(kit.xp.maximum(input, low), high)


@kernel("nn.functional.leaky_relu")
def leaky_relu(kit: Any, out: Any, input: Any, negative_slope: float, *_: Any) -> Any:
    return kit.xp.where(input > 0, input, input * input.dtype.type(negative_slope))


@kernel("prelu")
def prelu(kit: Any, out: Any, input: Any, weight: Any) -> Any:
    if weight.size != 1 and input.ndim > 1:
        weight = weight.reshape((-1,) + (1,) * (input.ndim - 2))
    else:
        weight = weight.reshape(())
    return kit.xp.where(input > 0, input, input * weight)


def _exponential(xp: Any, x: Any, alpha: float, scale: float, inner: float) -> Any:
    scalar = x.dtype.type
    return xp.where(x > 0, x * scalar(scale), xp.expm1(xp.minimum(x, 0) * scalar(inner)) * scalar(alpha * scale))


@kernel("nn.functional.elu")
def elu(kit: Any, out: Any, input: Any, alpha: float, *_: Any) -> Any:
    return _exponential(kit.xp, input, alpha, 1.0, 1.0)


@kernel("selu")
def selu(kit: Any, out: Any, input: Any, *_: Any) -> Any:
    return _exponential(kit.xp, input, SELU_ALPHA, SELU_SCALE, 1.0)


@kernel("celu")
def celu(kit: Any, out: Any, input: Any, alpha: float, *_: Any) -> Any:
    # With a negative alpha the exponential is applied to positive inputs and may overflow: do not clamp its input.
    xp, scalar = kit.xp, input.dtype.type
    return xp.maximum(input, 0) + xp.minimum(xp.expm1(input / scalar(alpha)) * scalar(alpha), 0)


@kernel("nn.functional.gelu")
def gelu(kit: Any, out: Any, input: Any, approximate: str) -> None:
    xp, scalar = kit.xp, input.dtype.type
    if approximate != "tanh" and is_single(kit, out, input):
        by_parts(host.gelu, input, out)
        return
    for result, x in pieces(kit, out, input):
        if approximate == "tanh":
            inner = x * x
            inner *= scalar(0.044715)
            inner += scalar(1)
            inner *= x
            inner *= scalar(math.sqrt(2 / math.pi))
            inner = xp.tanh(inner)
        else:
            inner = kit.special.erf(x * scalar(math.sqrt(0.5)))
        inner += scalar(1)
        inner *= scalar(0.5)
        xp.multiply(inner, x, out=result)


@kernel("nn.functional.silu")
def silu(kit: Any, out: Any, input: Any, *_: Any) -> Any:
    if input.dtype.kind == "c":
        return input / (1 + kit.xp.exp(-input))
    return input * kit.special.expit(input)


def _softplus(xp: Any, x: Any) -> Any:
    return xp.maximum(x, 0) + xp.log1p(xp.exp(-xp.absolute(x)))


@kernel("nn.functional.mish")
def mish(kit: Any, out: Any, input: Any, *_: Any) -> Any:
    return input * kit.xp.tanh(_softplus(kit.xp, input))


@kernel("nn.functional.softplus")
def softplus(kit: Any, out: Any, input: Any, beta: float, threshold: float) -> Any:
    xp, scalar = kit.xp, input.dtype.type
    scaled = input * scalar(beta)
    return xp.where(scaled > threshold, input, _softplus(xp, scaled) / scalar(beta))


@kernel("nn.functional.glu")
def glu(kit: Any, out: Any, input: Any, dim: int) -> Any:
    first, second = kit.xp.split(input, 2, axis=dim)
    return first * kit.special.expit(second)


@kernel("hardshrink")
def hardshrink(kit: Any, out: Any, input: Any, lambd: float) -> Any:
    """Replace all values in [-lambd, lambd] by 0. NaN is outside the interval and stays NaN."""
    return kit.xp.where((input >= -lambd) & (input <= lambd), input.dtype.type(0), input)


@kernel("nn.functional.softshrink")
def softshrink(kit: Any, out: Any, input: Any, lambd: float) -> Any:
    xp, scalar = kit.xp, input.dtype.type
    return xp.where(input > lambd, input - scalar(lambd), xp.where(input < -lambd, input + scalar(lambd), input * 0))


@kernel("threshold")
def threshold_(kit: Any, out: Any, input: Any, threshold: float, value: float, *_: Any) -> Any:
    bound = in_dtype(threshold, input.dtype) if is_integral(input) else threshold
    return kit.xp.where(input <= bound, in_dtype(value, input.dtype), input)
