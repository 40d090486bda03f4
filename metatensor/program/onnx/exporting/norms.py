"""Conversions of normalizations."""

from __future__ import annotations

from typing import Any

import numpy as np

from metatensor.program.onnx.exporting.graph import Graph, Var
from metatensor.program.onnx.exporting.table import Declined, conversion

__all__: list[str] = []


def _filled(g: Graph, value: Var | None, size: tuple[int, ...], number: int, x: Var) -> Var:
    """Return a parameter, or a constant tensor if it is missing."""
    return g.constant(np.full(size, number), x.dtype) if value is None else g.cast(value, x.dtype)


@conversion("nn.functional._batch_norm_eval", "nn.functional._instance_norm_eval")
def _batch_norm_eval(g: Graph, a: Any, result: Any) -> Var:
    x = a.input
    if a.running_mean is None or a.running_var is None or len(x.shape) < 2:
        raise Declined("no running statistics")
    channels = (x.shape[1],)
    parameters = [_filled(g, a.weight, channels, 1, x), _filled(g, a.bias, channels, 0, x), a.running_mean, a.running_var]
    return g.op("BatchNormalization", x, *parameters, epsilon=float(a.eps))


@conversion("nn.functional.layer_norm")
def _layer_norm(g: Graph, a: Any, result: Any) -> Var:
    size = tuple(a.normalized_shape)
    inputs = [a.input, _filled(g, a.weight, size, 1, a.input)]
    if a.bias is not None:
        inputs.append(g.cast(a.bias, a.input.dtype))
    return g.op("LayerNormalization", *inputs, axis=-len(size), epsilon=float(a.eps))


@conversion("nn.functional.group_norm")
def _group_norm(g: Graph, a: Any, result: Any) -> Var:
    x = a.input
    if 0 in x.shape or len(x.shape) < 2:
        raise Declined("an empty input")
    groups = (a.num_groups,)
    batch = x.shape[0]
    parts = g.op("Reshape", x, g.ints([0, a.num_groups, -1]), shape=(batch, a.num_groups, -1))
    ones, zeros = _filled(g, None, groups, 1, x), _filled(g, None, groups, 0, x)
    found = g.op("InstanceNormalization", parts, ones, zeros, epsilon=float(a.eps))
    found = g.reshaped(Var(found, x.dtype, (batch,)), x.shape)
    spread = g.ints([-1] + [1] * (len(x.shape) - 2))
    for kind, parameter in (("Mul", a.weight), ("Add", a.bias)):
        if parameter is not None:
            found = g.op(kind, found, g.op("Reshape", g.cast(parameter, x.dtype), spread))
    return found


@conversion("nn.functional._instance_norm")
def _instance_norm(g: Graph, a: Any, result: Any) -> Var:
    x = a.input
    if len(x.shape) < 3:
        raise Declined("an input without a batch")
    channels = (x.shape[1],)
    parameters = [_filled(g, a.weight, channels, 1, x), _filled(g, a.bias, channels, 0, x)]
    return g.op("InstanceNormalization", x, *parameters, epsilon=float(a.eps))


@conversion("nn.functional.local_response_norm")
def _local_response_norm(g: Graph, a: Any, result: Any) -> Var:
    if a.size % 2 == 0 or len(a.input.shape) < 3:
        raise Declined("windows that are not around their element")
    return g.op("LRN", a.input, size=a.size, alpha=float(a.alpha), beta=float(a.beta), bias=float(a.k))
