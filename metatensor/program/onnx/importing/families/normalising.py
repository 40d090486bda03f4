"""Normalisations."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor._core.tensor import Tensor
from metatensor.nn import functional as F
from metatensor.program.onnx.dtypes import held_dtype
from metatensor.program.onnx.importing.operators import CONTRIB, Node, operator

__all__: list[str] = []


def _channels(t: Tensor, x: Tensor) -> Tensor:
    return t.reshape((-1,) + (1,) * (x.ndim - 2))


@operator("BatchNormalization")
def _batch_norm(node: Node, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor) -> Any:
    eps = node.get("epsilon", 1e-5)
    if not node.get("training_mode", 0) or node.version < 14:
        if x.dtype is scale.dtype is mean.dtype and x.ndim > 1:
            return F.batch_norm(x, mean, var, scale, bias, False, 0.0, eps)
        y = (x - _channels(mean, x)) / mt.sqrt(_channels(var, x) + eps) * _channels(scale, x) + _channels(bias, x)
        return y.to(x.dtype)
    momentum = node.get("momentum", 0.9)
    dims = [0, *range(2, x.ndim)]
    own, spread = x.mean(dims), mt.var(x, dims, correction=0)
    y = (x - _channels(own, x)) / mt.sqrt(_channels(spread, x) + eps) * _channels(scale, x) + _channels(bias, x)
    return y.to(x.dtype), (mean * momentum + own * (1 - momentum)).to(mean.dtype), (var * momentum + spread * (1 - momentum)).to(var.dtype)


@operator("InstanceNormalization")
def _instance_norm(node: Node, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    return F.instance_norm(x, None, None, scale, bias, True, 0.0, node.get("epsilon", 1e-5))


def _statistics(node: Node, x: Tensor, axis: int) -> tuple[Tensor, list[int]]:
    """Return the tensor in the dtype of the computation, and the dimensions."""
    return x.to(held_dtype(node.get("stash_type", 1))), list(range(axis, x.ndim))


@operator("LayerNormalization")
def _layer_norm(node: Node, x: Tensor, scale: Tensor, bias: Tensor | None = None) -> Any:
    axis = node.get("axis", -1) % x.ndim
    shape, eps = tuple(x.shape[axis:]), node.get("epsilon", 1e-5)
    fits = tuple(scale.shape) == shape and (bias is None or tuple(bias.shape) == shape)
    if node.outputs == 1 and fits:
        return F.layer_norm(x, shape, scale, bias, eps)
    wide, dims = _statistics(node, x, axis)
    mean = wide.mean(dims, True)
    inverse = 1 / mt.sqrt(mt.var(wide, dims, correction=0, keepdim=True) + eps)
    y = ((wide - mean) * inverse).to(x.dtype) * scale
    return (y if bias is None else y + bias), mean, inverse


@operator("RMSNormalization")
@operator("SimplifiedLayerNormalization")
@operator("SimplifiedLayerNormalization", domain=CONTRIB)
def _rms_norm(node: Node, x: Tensor, scale: Tensor) -> Any:
    axis, eps = node.get("axis", -1) % x.ndim, node.get("epsilon", 1e-5)
    shape = tuple(x.shape[axis:])
    if node.outputs == 1 and tuple(scale.shape) == shape:
        return F.rms_norm(x, shape, scale, eps)
    wide, dims = _statistics(node, x, axis)
    inverse = 1 / mt.sqrt(mt.square(wide).mean(dims, True) + eps)
    return (wide * inverse).to(x.dtype) * scale, inverse


@operator("GroupNormalization")
def _group_norm(node: Node, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    groups = node.need("num_groups")
    if node.version < 21:  # one number per group
        per = x.shape[1] // groups
        scale, bias = scale.repeat_interleave(per), bias.repeat_interleave(per)
    return F.group_norm(x, groups, scale, bias, node.get("epsilon", 1e-5))


@operator("LRN")
def _local_response(node: Node, x: Tensor) -> Tensor:
    size = node.need("size")
    alpha, beta, bias = node.get("alpha", 1e-4), node.get("beta", 0.75), node.get("bias", 1.0)
    squares = mt.square(x)
    low = (size - 1) // 2
    pad = [0, 0] * (x.ndim - 2) + [low, size - 1 - low]
    total = F.pad(squares, pad).unfold(1, size, 1).sum(-1)
    return x / mt.pow(total * (alpha / size) + bias, beta)


@operator("LpNormalization")
def _lp_norm(node: Node, x: Tensor) -> Tensor:
    axis, p = node.get("axis", -1), node.get("p", 2)
    size = mt.abs(x).sum(axis, True) if p == 1 else mt.sqrt(mt.square(x).sum(axis, True))
    return mt.where(size == 0, mt.zeros_like(x), x / size)


@operator("MeanVarianceNormalization")
def _mean_variance(node: Node, x: Tensor) -> Tensor:
    dims = node.get("axes") or [0, 2, 3]
    mean = x.mean(dims, True)
    return (x - mean) / (mt.sqrt(mt.square(x).mean(dims, True) - mt.square(mean)) + 1e-9)


# Fused operators of onnxruntime -----------------------------------------------------------------------


@operator("SkipLayerNormalization", domain=CONTRIB)
def _skip_layer_norm(node: Node, x: Tensor, skip: Tensor, scale: Tensor, beta: Tensor | None = None, bias: Tensor | None = None) -> Any:
    total = x + skip if bias is None else x + skip + bias
    return F.layer_norm(total, tuple(total.shape[-1:]), scale, beta, node.get("epsilon", 1e-12)), None, None, total


@operator("SkipSimplifiedLayerNormalization", domain=CONTRIB)
def _skip_rms_norm(node: Node, x: Tensor, skip: Tensor, scale: Tensor, bias: Tensor | None = None) -> Any:
    total = x + skip if bias is None else x + skip + bias
    return F.rms_norm(total, tuple(total.shape[-1:]), scale, node.get("epsilon", 1e-12)), None, None, total


@operator("EmbedLayerNormalization", domain=CONTRIB)
def _embed_layer_norm(
    node: Node, ids: Tensor, segments: Tensor | None, words: Tensor, positions: Tensor, kinds: Tensor | None, gamma: Tensor, beta: Tensor,
    mask: Tensor | None = None, places: Tensor | None = None,
) -> Any:
    total = F.embedding(ids.to(mt.int64), words)
    total = total + (positions[: ids.shape[1]] if places is None else F.embedding(places.to(mt.int64), positions))
    if segments is not None and kinds is not None:
        total = total + F.embedding(segments.to(mt.int64), kinds)
    y = F.layer_norm(total, tuple(total.shape[-1:]), gamma, beta, node.get("epsilon", 1e-12))
    counts = mt.zeros(ids.shape[0], dtype=mt.int32, device=ids.device) if mask is None else mask.to(mt.int32).sum(1, dtype=mt.int32)
    return y, counts, total
