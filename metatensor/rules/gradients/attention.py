"""Gradients of embedding and attention, and attention composed of other operators."""

from __future__ import annotations

import math
from typing import Any

import metatensor as mt
from metatensor._core.gradient_parts import no_sparse
from metatensor._core.gradients import functional, ops

__all__ = []


# Embedding ---------------------------------------------------------------------------------------------


def embedding_weight(grad: Any, input: Any, weight_meta: Any, padding_idx: Any, scale_grad_by_freq: bool, sparse: bool) -> Any:
    if sparse:
        raise no_sparse("embedding")
    rows = weight_meta.shape[0]
    padding = -1 if padding_idx is None else padding_idx % rows
    return ops.embedding_dense_backward(grad, input, rows, padding, scale_grad_by_freq)


def table_weight(grad: Any, indices: Any, weight_meta: Any, padding_idx: int, scale_grad_by_freq: bool, sparse: bool) -> Any:
    if sparse:
        raise no_sparse("embedding")
    return ops.embedding_dense_backward(grad, indices, weight_meta.shape[0], padding_idx, scale_grad_by_freq)


def embedding_dense_backward(grad: Any, indices: Any, rows: int, padding: int, by_frequency: bool) -> Any:
    flat = indices.reshape(-1).to(mt.int64)
    g = grad.reshape(flat.shape[0], grad.shape[-1])
    if by_frequency:
        counts = mt.zeros(rows, dtype=g.dtype, device=g.device).index_add(0, flat, mt.ones_like(flat, dtype=g.dtype))
        g = g / counts.index_select(0, flat).unsqueeze(1)
    if padding >= 0:
        g = g.masked_fill((flat == padding).unsqueeze(1), 0)
    return ops.index_add(mt.zeros((rows, g.shape[1]), dtype=g.dtype, device=g.device), 0, flat, g)


# Attention -----------------------------------------------------------------------------------------------


def _bias(mask: Any, like: Any) -> Any:
    """Return a mask as a term to add to the scores: 0 where it allows attention, -inf elsewhere."""
    if mask is None or mask.dtype is not mt.bool:
        return mask
    low = ops.full((), -math.inf, dtype=like.dtype, device=like.device)
    zero = ops.full((), 0.0, dtype=like.dtype, device=like.device)
    return mt.where(mask, zero, low)


def _causal(query: Any, key: Any) -> Any:
    return mt.ones(query.shape[-2], key.shape[-2], dtype=mt.bool, device=query.device).tril()


def attention(query: Any, key: Any, value: Any, attn_mask: Any, dropout_p: float, is_causal: bool, scale: Any, enable_gqa: bool,
              generator: Any) -> Any:  # fmt: skip
    """Compute attention in differentiable steps. The square root of the scale multiplies query and key."""
    return attention_in_steps(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa,
                              lambda weights: functional.dropout(weights, dropout_p, True, False, generator=generator))  # fmt: skip


def attention_in_steps(query: Any, key: Any, value: Any, attn_mask: Any, dropout_p: float, is_causal: bool, scale: Any,
                       enable_gqa: bool, drop: Any) -> Any:  # fmt: skip
    if (
        min(query.dim(), key.dim(), value.dim()) < 2
        or (is_causal and attn_mask is not None)
        or not 0 <= dropout_p <= 1
        or not query.is_floating_point()
    ):
        return NotImplemented
    if enable_gqa:
        if min(query.dim(), key.dim(), value.dim()) < 3:
            return NotImplemented
        heads = query.shape[-3]
        if heads % key.shape[-3] or heads % value.shape[-3]:
            return NotImplemented
        key = key.repeat_interleave(heads // key.shape[-3], -3)
        value = value.repeat_interleave(heads // value.shape[-3], -3)
    dtype = query.dtype
    if query.itemsize == 2:
        query, key, value = (t.to(mt.float32) for t in (query, key, value))
    width = query.shape[-1]
    root = math.sqrt(abs(scale if scale is not None else 1 / math.sqrt(width) if width else 1.0))
    sign = -1.0 if scale is not None and scale < 0 else 1.0
    scaled = query * (root * sign)
    bias = _bias(_causal(query, key) if is_causal else attn_mask, query)
    scores = scaled.matmul((key * root).transpose(-2, -1))
    if bias is not None:
        scores = scores + bias
    weights = mt.softmax(scores, -1) if bias is None else ops._safe_softmax(scores, -1)
    del scores
    if dropout_p > 0:
        weights = drop(weights)
    result = weights.matmul(value)
    return result if result.dtype is dtype else result.to(dtype)
