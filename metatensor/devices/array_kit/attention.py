"""Scaled dot-product attention, a block of query rows at a time, so that only a block of scores is ever held."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from metatensor.devices.array_kit.registry import kernel

# Scores of one block, in elements.
HOST_BLOCK = 1 << 21
DEVICE_BLOCK = 1 << 26


def _repeat_heads(array: Any, heads: int) -> Any:
    """Each head of (..., heads, length, width) as often as a query of ``heads`` needs it."""
    own = array.shape[-3]
    return array if own == heads else array.repeat(heads // own, axis=-3)


def _softmax(xp: Any, scores: Any) -> Any:
    """Over the last dimension, in place; a row of minus infinities becomes zeros."""
    top = scores.max(axis=-1, keepdims=True)
    scores -= xp.where(xp.isinf(top), scores.dtype.type(0), top)
    xp.exp(scores, out=scores)
    total = scores.sum(axis=-1, keepdims=True)
    scores /= xp.where(total == 0, scores.dtype.type(1), total)
    return scores


@kernel("nn.functional.scaled_dot_product_attention")
def attention(
    kit: Any, out: Any, query: Any, key: Any, value: Any, mask: Any, dropout_p: float, is_causal: bool,
    scale: float | None, enable_gqa: bool, ticket: Any,
) -> Any:  # fmt: skip
    xp, batch = kit.xp, out.shape[:-2]
    length, keys = query.shape[-2], key.shape[-2]
    if not out.size:
        return None
    if not keys:
        out[...] = 0
        return None
    if enable_gqa:
        key, value = _repeat_heads(key, query.shape[-3]), _repeat_heads(value, query.shape[-3])
    if query.shape[-1]:  # without features, all scores are 0
        query = query * query.dtype.type(1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    transposed = key.swapaxes(-1, -2)
    stream = kit.random(ticket) if dropout_p > 0 else None
    if mask is not None:
        mask = xp.broadcast_to(mask, (*batch, length, keys))
    rows = max(1, (HOST_BLOCK if kit.on_host else DEVICE_BLOCK) // max(1, math.prod(batch) * keys))
    for first in range(0, length, rows):
        last = min(length, first + rows)
        scores = xp.matmul(query[..., first:last, :], transposed)
        if stream is not None and scores.shape[:-2] != batch:
            scores = xp.broadcast_to(scores, (*batch, last - first, keys)).copy()
        if is_causal:
            later = xp.arange(keys)[None, :] > xp.arange(first, last)[:, None]
            scores = xp.where(later, scores.dtype.type(-np.inf), scores)
        if mask is not None:
            part = mask[..., first:last, :]
            scores = xp.where(part, scores, scores.dtype.type(-np.inf)) if part.dtype.kind == "b" else scores + part
        weights = _softmax(xp, scores.astype(out.dtype, copy=False))
        if stream is not None:
            weights *= _kept(xp, stream, weights.shape, first, length, dropout_p)
        out[..., first:last, :] = xp.matmul(weights, value)
    return None


def _kept(xp: Any, stream: Any, shape: tuple[int, ...], first: int, length: int, p: float) -> Any:
    """What each weight is multiplied by: 0, or 1 / (1 - p). Element (..., row, key) has its own number."""
    *batch, rows, keys = shape
    scale = np.float32(0 if p == 1 else 1 / (1 - p))
    draws = [~stream.below(rows * keys, (i * length + first) * keys, p, "float32") for i in range(math.prod(batch))]
    return xp.stack(draws).reshape(shape) * scale
