"""Functions of single elements, with broadcasting."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import metatensor as mt
from metatensor._core.tensor import Tensor
from metatensor.nn import functional as F
from metatensor.program.onnx.importing.operators import CONTRIB, Node, operator, plain
from metatensor.program.onnx.importing.values import OnnxError

__all__: list[str] = []

plain({
    "Abs": mt.abs, "Acos": mt.acos, "Acosh": mt.acosh, "Asin": mt.asin, "Asinh": mt.asinh, "Atan": mt.atan, "Atanh": mt.atanh,
    "BitwiseNot": mt.bitwise_not, "Ceil": mt.ceil, "Cos": mt.cos, "Cosh": mt.cosh, "Erf": mt.erf, "Exp": mt.exp, "Floor": mt.floor,
    "HardSwish": F.hardswish, "Log": mt.log, "Mish": F.mish, "Neg": mt.neg, "Not": mt.logical_not, "Reciprocal": mt.reciprocal,
    "Relu": F.relu, "Round": mt.round, "Sigmoid": mt.sigmoid, "Sign": mt.sign, "Sin": mt.sin, "Sinh": mt.sinh, "Softsign": F.softsign,
    "Sqrt": mt.sqrt, "Tan": mt.tan, "Tanh": mt.tanh, "Where": mt.where,
})  # fmt: skip


def _aligned(node: Node, a: Tensor, b: Tensor) -> Tensor:
    """Return the second operand. Before version 7, `axis` could align its first dimension with any dimension of the first operand."""
    axis = node.get("axis")
    if node.version >= 7 or axis is None or not node.get("broadcast"):
        return b
    end = axis + b.ndim if axis >= 0 else a.ndim + axis + b.ndim
    return b.reshape(tuple(b.shape) + (1,) * max(a.ndim - end, 0))


def _binary(table: dict[str, Callable[..., Any]]) -> None:
    for name, fn in table.items():
        operator(name)(lambda node, a, b, fn=fn: fn(a, _aligned(node, a, b)))


_binary({
    "Add": mt.add, "Sub": mt.sub, "Mul": mt.mul, "And": mt.logical_and, "Or": mt.logical_or, "Xor": mt.logical_xor, "Equal": mt.eq,
    "Greater": mt.gt, "GreaterOrEqual": mt.ge, "Less": mt.lt, "LessOrEqual": mt.le, "BitwiseAnd": mt.bitwise_and,
    "BitwiseOr": mt.bitwise_or, "BitwiseXor": mt.bitwise_xor,
})  # fmt: skip


@operator("Div")
def _div(node: Node, a: Tensor, b: Tensor) -> Tensor:
    b = _aligned(node, a, b)
    return mt.div(a, b) if a.is_floating_point() or a.is_complex() else mt.div(a, b, rounding_mode="trunc")


@operator("Pow")
def _pow(node: Node, a: Tensor, b: Tensor) -> Tensor:
    b = _aligned(node, a, b)
    if a.dtype is not b.dtype and (b.is_floating_point() or not a.is_floating_point()):
        wide = mt.float64 if mt.float64 in (a.dtype, b.dtype) else mt.float32
        if not b.is_floating_point():
            wide = mt.int64
        return mt.pow(a.to(wide), b.to(wide)).to(a.dtype)
    return mt.pow(a, b).to(a.dtype)


@operator("Mod")
def _mod(node: Node, a: Tensor, b: Tensor) -> Tensor:
    return mt.fmod(a, b) if node.get("fmod", 0) else mt.remainder(a, b)


@operator("BitShift")
def _bit_shift(node: Node, a: Tensor, b: Tensor) -> Tensor:
    direction = node.need("direction")
    if direction not in ("LEFT", "RIGHT"):
        raise OnnxError(f"the direction must be LEFT or RIGHT, got {direction!r}")
    return mt.bitwise_left_shift(a, b) if direction == "LEFT" else mt.bitwise_right_shift(a, b)


def _variadic(table: dict[str, Callable[..., Any]]) -> None:
    for name, fn in table.items():
        operator(name)(lambda node, first, *rest, fn=fn: reduce(fn, rest, first))


_variadic({"Max": mt.maximum, "Min": mt.minimum, "Sum": mt.add})


@operator("Mean")
def _mean(node: Node, first: Tensor, *rest: Tensor) -> Tensor:
    return reduce(mt.add, rest, first) / (1 + len(rest))


@operator("IsNaN")
def _is_nan(node: Node, x: Tensor) -> Tensor:
    return mt.isnan(x.to(mt.float32) if x.dtype.itemsize == 1 else x)


@operator("IsInf")
def _is_inf(node: Node, x: Tensor) -> Tensor:
    x = x.to(mt.float32) if x.dtype.itemsize == 1 else x
    found = mt.isinf(x)
    if not node.get("detect_positive", 1):
        found = found & (x < 0)
    return found if node.get("detect_negative", 1) else found & (x > 0)


@operator("Clip")
def _clip(node: Node, x: Tensor, low: Any = None, high: Any = None) -> Tensor:
    if node.version < 11:
        low, high = node.get("min"), node.get("max")
    return x if low is None and high is None else mt.clamp(x, low, high)


# Activations ------------------------------------------------------------------------------------------


@operator("LeakyRelu")
def _leaky_relu(node: Node, x: Tensor) -> Tensor:
    return F.leaky_relu(x, node.get("alpha", 0.01))


@operator("Elu")
def _elu(node: Node, x: Tensor) -> Tensor:
    return F.elu(x, node.get("alpha", 1.0))


@operator("Celu")
def _celu(node: Node, x: Tensor) -> Tensor:
    return F.celu(x, node.get("alpha", 1.0))


@operator("Selu")
def _selu(node: Node, x: Tensor) -> Tensor:
    alpha, gamma = node.get("alpha"), node.get("gamma")
    if alpha is None and gamma is None:
        return F.selu(x)
    alpha = 1.67326319217681884765625 if alpha is None else alpha
    return (1.05070102214813232421875 if gamma is None else gamma) * F.elu(x, alpha)


@operator("ThresholdedRelu")
def _thresholded_relu(node: Node, x: Tensor) -> Tensor:
    return F.threshold(x, node.get("alpha", 1.0), 0.0)


@operator("HardSigmoid")
def _hard_sigmoid(node: Node, x: Tensor) -> Tensor:
    return mt.clamp(x * node.get("alpha", 0.2) + node.get("beta", 0.5), 0, 1)


@operator("PRelu")
def _prelu(node: Node, x: Tensor, slope: Tensor) -> Tensor:
    if node.version < 7 and slope.ndim == 1 and x.ndim > 2:
        slope = slope.reshape((-1,) + (1,) * (x.ndim - 2))
    return mt.where(x < 0, x * slope, x)


@operator("Shrink")
def _shrink(node: Node, x: Tensor) -> Tensor:
    edge, bias = node.get("lambd", 0.5), node.get("bias", 0.0)
    zero = mt.zeros_like(x)
    return mt.where(x < -edge, (x + bias).to(x.dtype), mt.where(x > edge, (x - bias).to(x.dtype), zero))


@operator("Softplus")
def _softplus(node: Node, x: Tensor) -> Tensor:
    return F.softplus(x)


@operator("Gelu")
@operator("Gelu", domain=CONTRIB)
def _gelu(node: Node, x: Tensor) -> Tensor:
    return F.gelu(x, approximate=node.get("approximate", "none"))


@operator("Swish")
def _swish(node: Node, x: Tensor) -> Tensor:
    alpha = node.get("alpha", 1.0)
    return F.silu(x) if alpha == 1 else x * mt.sigmoid(x * alpha)


# Fused operators of onnxruntime -----------------------------------------------------------------------


@operator("FastGelu", domain=CONTRIB)
def _fast_gelu(node: Node, x: Tensor, bias: Tensor | None = None) -> Tensor:
    return F.gelu(x if bias is None else x + bias, approximate="tanh")


@operator("BiasGelu", domain=CONTRIB)
def _bias_gelu(node: Node, x: Tensor, bias: Tensor) -> Tensor:
    return F.gelu(x + bias)


@operator("QuickGelu", domain=CONTRIB)
def _quick_gelu(node: Node, x: Tensor) -> Tensor:
    return x * mt.sigmoid(x * node.get("alpha", 1.702))
