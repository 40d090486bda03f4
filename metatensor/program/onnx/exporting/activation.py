"""Conversions of activations, softmax, dropout and attention."""

from __future__ import annotations

import math
from typing import Any

import metatensor as mt
from metatensor.program.onnx.exporting.graph import Graph, Var
from metatensor.program.onnx.exporting.table import Declined, conversion

__all__: list[str] = []


@conversion("nn.functional.leaky_relu")
def _leaky_relu(g: Graph, a: Any, result: Any) -> Var:
    return g.op("LeakyRelu", a.input, alpha=float(a.negative_slope))


@conversion("prelu")
def _prelu(g: Graph, a: Any, result: Any) -> Var:
    weight, rank = a.weight, len(a.input.shape)
    if len(weight.shape) == 1 and weight.shape[0] != 1 and rank > 2:
        weight = g.op("Reshape", weight, g.ints([-1] + [1] * (rank - 2)))
    return g.op("PRelu", a.input, weight)


@conversion("nn.functional.elu")
def _elu(g: Graph, a: Any, result: Any) -> Var:
    return g.op("Elu", a.input, alpha=float(a.alpha))


@conversion("celu")
def _celu(g: Graph, a: Any, result: Any) -> Var:
    if result.dtype is not mt.float32:
        raise Declined("Celu of ONNX takes float32 only")
    return g.op("Celu", a.input, alpha=float(a.alpha))


@conversion("selu")
def _selu(g: Graph, a: Any, result: Any) -> Var:
    return g.op("Selu", a.input)


@conversion("nn.functional.gelu")
def _gelu(g: Graph, a: Any, result: Any) -> Var:
    if g.opset >= 20:
        return g.op("Gelu", a.input, approximate=a.approximate)
    x, one, half = a.input, g.number(1, result.dtype), g.number(0.5, result.dtype)
    if a.approximate == "tanh":
        cubic = g.op("Mul", g.op("Mul", g.op("Mul", x, x), x), g.number(0.044715, x.dtype))
        inner = g.op("Tanh", g.op("Mul", g.op("Add", x, cubic), g.number(math.sqrt(2 / math.pi), x.dtype)))
    else:
        inner = g.op("Erf", g.op("Mul", x, g.number(math.sqrt(0.5), x.dtype)))
    return g.op("Mul", g.op("Mul", x, g.op("Add", inner, one)), half)


@conversion("nn.functional.silu")
def _silu(g: Graph, a: Any, result: Any) -> Var:
    return g.op("Mul", a.input, g.op("Sigmoid", a.input))


@conversion("nn.functional.mish")
def _mish(g: Graph, a: Any, result: Any) -> Var:
    return g.op("Mul", a.input, g.op("Tanh", g.op("Softplus", a.input)))


@conversion("nn.functional.softplus")
def _softplus(g: Graph, a: Any, result: Any) -> Var:
    x = a.input
    scaled = x if a.beta == 1 else g.op("Mul", x, g.number(a.beta, x.dtype))
    found = g.op("Softplus", scaled)
    if a.beta != 1:
        found = g.op("Div", found, g.number(a.beta, x.dtype))
    return g.op("Where", g.op("Greater", scaled, g.number(a.threshold, x.dtype), dtype=mt.bool), x, found, dtype=x.dtype)


@conversion("nn.functional.logsigmoid")
def _logsigmoid(g: Graph, a: Any, result: Any) -> Var:
    return g.op("Neg", g.op("Softplus", g.op("Neg", a.input)))


@conversion("nn.functional.hardswish")
def _hardswish(g: Graph, a: Any, result: Any) -> Var:
    return g.op("HardSwish", a.input)


@conversion("nn.functional.hardsigmoid")
def _hardsigmoid(g: Graph, a: Any, result: Any) -> Var:
    return g.op("HardSigmoid", a.input, alpha=1 / 6, beta=0.5)


def _soft(g: Graph, kind: str, x: Var, dim: int) -> Var:
    if not x.shape:
        return g.op("Reshape", g.op(kind, g.op("Reshape", x, g.ints([1])), axis=0), g.ints([]))
    return g.op(kind, x, axis=int(dim))


@conversion("softmax", "nn.functional.softmax", "log_softmax", "nn.functional.log_softmax")
def _softmax(g: Graph, a: Any, result: Any) -> Var:
    dim = a.dim
    if dim is None:
        dim = 0 if len(a.input.shape) in (0, 1, 3) else 1
    return _soft(g, "LogSoftmax" if "log" in a.overload else "Softmax", g.cast(a.input, result.dtype), dim)


@conversion("nn.functional.dropout", "nn.functional.dropout1d", "nn.functional.dropout2d", "nn.functional.dropout3d",
            "nn.functional.alpha_dropout", "nn.functional.feature_alpha_dropout", "dropout", "feature_dropout", "alpha_dropout",
            "feature_alpha_dropout")  # fmt: skip
def _dropout(g: Graph, a: Any, result: Any) -> Var:
    if getattr(a, "training", False) or getattr(a, "train", False):
        if a.p != 0:
            raise Declined("it draws random numbers")
    return a.input  # type: ignore[no-any-return]


# Attention ------------------------------------------------------------------------------------------------


@conversion("nn.functional.scaled_dot_product_attention")
def _attention(g: Graph, a: Any, result: Any) -> Var:
    if a.dropout_p:
        raise Declined("dropout draws random numbers")
    query, key, value = a.query, a.key, a.value
    dtype = query.dtype
    if getattr(a, "enable_gqa", False):
        if len(query.shape) != 4:
            raise Declined("grouped heads without a batch")
        key, value = (_repeated(g, x, query.shape[1] // x.shape[1]) for x in (key, value))
    scale = 1 / math.sqrt(query.shape[-1] or 1) if a.scale is None else a.scale
    rank = len(key.shape)
    turned = g.op("Transpose", key, perm=[*range(rank - 2), rank - 1, rank - 2])
    scores = g.op("MatMul", g.op("Mul", query, g.number(scale, dtype)), turned)
    minus = g.number(-math.inf, dtype)
    mask = a.attn_mask
    if a.is_causal:
        scores = g.op("Where", _causal(g, query.shape[-2], key.shape[-2]), scores, minus, dtype=dtype)
    if mask is not None:
        if mask.dtype is mt.bool:
            scores = g.op("Where", mask, scores, minus, dtype=dtype)
        else:
            scores = g.op("Add", scores, g.cast(mask, dtype))
    weights = g.op("Softmax", scores, axis=-1)
    if mask is not None:  # a query that may attend to nothing gets zeros
        most = g.op("ReduceMax", scores, g.ints([-1]), keepdims=1)
        weights = g.op("Where", g.op("Equal", most, minus, dtype=mt.bool), g.number(0, dtype), weights, dtype=dtype)
    return g.op("MatMul", weights, value)


def _repeated(g: Graph, x: Var, times: int) -> Var:
    """Return each head of keys or values several times."""
    if times == 1:
        return x
    batch, heads, length, size = x.shape  # type: ignore[misc]
    wide = g.op("Expand", g.op("Unsqueeze", x, g.ints([2])), g.ints([1, 1, times, 1, 1]))
    return g.reshaped(Var(wide, x.dtype, (batch, heads, times, length, size)), (batch, heads * times, length, size))


def _causal(g: Graph, queries: int, keys: int) -> Var:
    """Return a mask of keys that are not after the query."""
    zero, one = g.number(0, mt.int64), g.number(1, mt.int64)
    rows = g.op("Unsqueeze", g.op("Range", zero, g.number(queries, mt.int64), one), g.ints([1]))
    columns = g.op("Unsqueeze", g.op("Range", zero, g.number(keys, mt.int64), one), g.ints([0]))
    return g.op("GreaterOrEqual", rows, columns, dtype=mt.bool)
