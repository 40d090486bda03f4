"""Activation functions and softmax."""

from __future__ import annotations

import math
from typing import Any

import metatensor as mt
from metatensor.rules.decomposed.pointwise import floating
from metatensor.rules.decompositions import decomposition, numeric


@decomposition("relu")
def relu(x: Any) -> Any:
    return mt.where(x <= 0, mt.zeros_like(x), x)


@decomposition("nn.functional.relu")
def relu_function(x: Any, inplace: bool) -> Any:
    return mt.relu(x)


@decomposition("nn.functional.relu6")
def relu6(x: Any, inplace: bool) -> Any:
    return x.clamp(0, 6).to(x.dtype)


@decomposition("nn.functional.hardtanh")
def hardtanh(x: Any, low: float, high: float, inplace: bool) -> Any:
    return x.clamp(low, high).to(x.dtype)


@numeric("nn.functional.leaky_relu")
def leaky_relu(x: Any, slope: float, inplace: bool) -> Any:
    return mt.where(x > 0, x, x * slope)


@decomposition("prelu")
def prelu(x: Any, weight: Any) -> Any:
    if weight.numel() > 1:
        weight = weight.reshape(-1, *(1,) * (x.dim() - 2))
    return mt.where(x > 0, x, x * weight.reshape(()) if weight.numel() == 1 else x * weight)


@numeric("nn.functional.elu")
def elu(x: Any, alpha: float, inplace: bool) -> Any:
    return mt.where(x > 0, x, x.expm1() * alpha)


@numeric("celu")
def celu(x: Any, alpha: float, inplace: bool) -> Any:
    return mt.where(x > 0, x, (x / alpha).expm1() * alpha)


@numeric("selu")
def selu(x: Any, inplace: bool) -> Any:
    """Use the constants for which mean 0 and variance 1 are a fixed point (Klambauer et al., 2017)."""
    alpha, scale = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
    return mt.where(x > 0, x * scale, x.expm1() * (alpha * scale))


@numeric("nn.functional.gelu")
def gelu(x: Any, approximate: str) -> Any:
    if approximate == "tanh":
        return x * 0.5 * (1 + ((x + 0.044715 * x * x * x) * math.sqrt(2 / math.pi)).tanh())
    return x * 0.5 * (1 + (x * math.sqrt(0.5)).erf())


@numeric("nn.functional.silu", complex=True)
def silu(x: Any, inplace: bool) -> Any:
    return x * x.sigmoid()


@numeric("nn.functional.mish")
def mish(x: Any, inplace: bool) -> Any:
    return x * mt.nn.functional.softplus(x).tanh()


@numeric("nn.functional.softplus")
def softplus(x: Any, beta: float, threshold: float) -> Any:
    scaled = x * beta
    return mt.where(scaled > threshold, x, scaled.clamp_max(threshold).exp().log1p() / beta)


@numeric("nn.functional.logsigmoid")
def logsigmoid(x: Any) -> Any:
    return x.clamp_max(0) - (-x.abs()).exp().log1p()


@numeric("nn.functional.softsign", complex=True)
def softsign(x: Any) -> Any:
    x = floating(x)
    return x / (x.abs() + 1)


@numeric("nn.functional.tanhshrink", complex=True)
def tanhshrink(x: Any) -> Any:
    return floating(x) - x.tanh()


@numeric("hardshrink")
def hardshrink(x: Any, lambd: float) -> Any:
    return mt.where((x >= -lambd) & (x <= lambd), 0.0, x)


@numeric("nn.functional.softshrink")
def softshrink(x: Any, lambd: float) -> Any:
    return mt.where(x > lambd, x - lambd, mt.where(x < -lambd, x + lambd, x * 0.0))


@decomposition("threshold")
def threshold(x: Any, bound: float, value: float, inplace: bool) -> Any:
    return mt.where(x <= bound, mt.full((), value, dtype=x.dtype, device=x.device), x)


@numeric("nn.functional.hardsigmoid")
def hardsigmoid(x: Any, inplace: bool) -> Any:
    return (x + 3).clamp(0, 6) / 6


@numeric("nn.functional.hardswish")
def hardswish(x: Any, inplace: bool) -> Any:
    return x * ((x + 3).clamp(0, 6) / 6)


@numeric("nn.functional.glu")
def glu(x: Any, dim: int) -> Any:
    a, b = x.chunk(2, dim)
    return a * b.sigmoid()


def _scaled(x: Any, dim: int) -> Any:
    """Subtract the maximum along a dimension, so that no exponential exceeds 1."""
    if not x.numel() or not x.dim():
        return x - x if x.dim() == 0 else x
    return x - x.amax(dim, keepdim=True)


@numeric("softmax")
def softmax(x: Any, dim: int, dtype: Any) -> Any:
    x = floating(x if dtype is None else x.to(dtype))
    if not x.dim():
        return mt.exp(x - x)
    powers = _scaled(x, dim).exp()
    return powers / powers.sum(dim, keepdim=True)


@decomposition("_safe_softmax")
def safe_softmax(x: Any, dim: int, dtype: Any) -> Any:
    return mt.softmax(x, dim, dtype=dtype).masked_fill_((x == -math.inf).all(dim, keepdim=True), 0)


@numeric("log_softmax")
def log_softmax(x: Any, dim: int, dtype: Any) -> Any:
    x = floating(x if dtype is None else x.to(dtype))
    if not x.dim():
        return x - x
    x = _scaled(x, dim)
    return x - x.exp().sum(dim, keepdim=True).log()


def _implicit(x: Any, dim: int | None) -> int:
    return dim if dim is not None else 0 if x.dim() in (0, 1, 3) else 1


@decomposition("nn.functional.softmax")
def softmax_function(x: Any, dim: Any, level: int, dtype: Any) -> Any:
    return mt.softmax(x, _implicit(x, dim), dtype=dtype)


@decomposition("nn.functional.log_softmax")
def log_softmax_function(x: Any, dim: Any, level: int, dtype: Any) -> Any:
    return mt.log_softmax(x, _implicit(x, dim), dtype=dtype)


@decomposition("nn.functional.softmin")
def softmin(x: Any, dim: Any, level: int, dtype: Any) -> Any:
    return mt.softmax(-(x if dtype is None else x.to(dtype)), _implicit(x, dim))
