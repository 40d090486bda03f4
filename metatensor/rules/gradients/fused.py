"""Gradients of operators that one kernel computes on some devices, and the same computation in steps for devices without such a kernel."""

from __future__ import annotations

import math
from typing import Any

import metatensor as mt
from metatensor._core.gradients import ops

__all__ = []


# Attention --------------------------------------------------------------------------------------------------


def flash(grad: Any, query: Any, key: Any, value: Any, dropout_p: float, is_causal: bool, scale: Any, output: Any, logsumexp: Any,
          rng_state: Any, unused: Any) -> tuple:  # fmt: skip
    return ops._scaled_dot_product_flash_attention_backward(
        grad, query, key, value, output, logsumexp, dropout_p, is_causal, rng_state, unused, scale=scale
    )


def efficient(grad: Any, query: Any, key: Any, value: Any, attn_bias: Any, dropout_p: float, is_causal: bool, scale: Any, output: Any,
              log_sumexp: Any, philox_seed: Any, philox_offset: Any, wanted: Any) -> tuple:  # fmt: skip
    return ops._scaled_dot_product_efficient_attention_backward(
        grad, query, key, value, attn_bias, output, log_sumexp, philox_seed, philox_offset, dropout_p, list(wanted), is_causal, scale=scale
    )


def flash_for_cpu(grad: Any, query: Any, key: Any, value: Any, dropout_p: float, is_causal: bool, attn_mask: Any, scale: Any, output: Any,
                  logsumexp: Any) -> tuple:  # fmt: skip
    return ops._scaled_dot_product_flash_attention_for_cpu_backward(
        grad, query, key, value, output, logsumexp, dropout_p, is_causal, attn_mask=attn_mask, scale=scale
    )


def _scores(query: Any, key: Any, bias: Any, is_causal: bool, scale: Any) -> tuple[Any, float]:
    """Return the scores of attention, in float32 for half precision, and the scale."""
    scale = 1 / math.sqrt(query.shape[-1] or 1) if scale is None else scale
    scores = _wide(query).matmul(_wide(key).transpose(-2, -1)) * scale
    if is_causal:
        allowed = mt.ones(query.shape[-2], key.shape[-2], dtype=mt.bool, device=query.device).tril()
        scores = scores.masked_fill(~allowed, -math.inf)
    return scores if bias is None else scores + bias, scale


def _wide(x: Any) -> Any:
    return x.to(mt.float32) if x.itemsize == 2 else x


def _no_dropout(p: float) -> None:
    if p:
        raise NotImplementedError("attention in one kernel: only the kernel knows which weights it drops; use dropout_p=0")


def _heads(key: Any, query: Any) -> Any:
    times = query.shape[1] // key.shape[1]
    return key if times == 1 else key.repeat_interleave(times, 1)


def attention_forward(query: Any, key: Any, value: Any, bias: Any, p: float, is_causal: bool, scale: Any) -> tuple[Any, Any]:
    """Return the result of attention and the logarithm of the sum of exponentials of each row of scores."""
    _no_dropout(p)
    scores, _ = _scores(query, _heads(key, query), bias, is_causal, scale)
    result = ops._safe_softmax(scores, -1).matmul(_wide(_heads(value, query)))
    return result.to(query.dtype), scores.logsumexp(-1)


def attention_backward(
    grad: Any, query: Any, key: Any, value: Any, bias: Any, p: float, is_causal: bool, scale: Any, out: Any = None, logsumexp: Any = None
) -> tuple:
    """Return the gradients of query, key, value and bias.

    If the result and its logsumexp are given, they may be those of attention to more keys, of which the given ones are a part. If not,
    both are computed anew, and the gradients are differentiable functions of the inputs.
    """
    _no_dropout(p)
    k, v = _wide(_heads(key, query)), _wide(_heads(value, query))
    scores, factor = _scores(query, k, bias, is_causal, scale)
    g = _wide(grad)
    of_weights = g.matmul(v.transpose(-2, -1))
    if logsumexp is None:
        weights = ops._safe_softmax(scores, -1)
        of_rows = (of_weights * weights).sum(-1, True)
    else:
        rows = logsumexp.unsqueeze(-1)
        weights = (scores - rows.masked_fill(rows == -math.inf, math.inf)).exp().to(scores.dtype)  # rows without keys have weights of 0
        of_rows = (g * _wide(out)).sum(-1, True)
    of_scores = weights * (of_weights - of_rows)
    of_query = of_scores.matmul(k) * factor
    of_key = of_scores.transpose(-2, -1).matmul(_wide(query)) * factor
    of_value = weights.transpose(-2, -1).matmul(g)
    of_bias = None if bias is None else of_scores.sum_to_size(bias.shape).to(bias.dtype)
    return of_query.to(query.dtype), _summed(of_key, key), _summed(of_value, value), of_bias


def _summed(grad: Any, like: Any) -> Any:
    """Sum the gradients of heads that are the same head of key or value."""
    if grad.shape[1] != like.shape[1]:
        grad = grad.reshape(grad.shape[0], like.shape[1], grad.shape[1] // like.shape[1], *grad.shape[2:]).sum(2)
    return grad.to(like.dtype)


# The values of the operators, from the saved result and logsumexp -------------------------------------------


def flash_attention_backward(
    grad: Any, query: Any, key: Any, value: Any, out: Any, logsumexp: Any, p: float, is_causal: bool, rng_state: Any, unused: Any,
    scale: Any,
) -> tuple:  # fmt: skip
    return attention_backward(grad, query, key, value, None, p, is_causal, scale, out, logsumexp)[:3]


def efficient_attention_backward(
    grad: Any, query: Any, key: Any, value: Any, attn_bias: Any, out: Any, logsumexp: Any, seed: Any, offset: Any, p: float, mask: Any,
    is_causal: bool, scale: Any,
) -> tuple:  # fmt: skip
    kept = None if logsumexp.shape[-1] < query.shape[-2] else logsumexp[..., : query.shape[-2]]
    made = attention_backward(grad, query, key, value, attn_bias, p, is_causal, scale, out, kept)
    return made if mask[3] else (*made[:3], None)


def flash_attention_for_cpu_backward(
    grad: Any, query: Any, key: Any, value: Any, out: Any, logsumexp: Any, p: float, is_causal: bool, attn_mask: Any, scale: Any
) -> tuple:
    return attention_backward(grad, query, key, value, attn_mask, p, is_causal, scale, out, logsumexp)[:3]


# The operators as differentiable functions of the inputs ----------------------------------------------------


def flash_attention_again(
    grad: Any, query: Any, key: Any, value: Any, out: Any, logsumexp: Any, p: float, is_causal: bool, rng_state: Any, unused: Any,
    scale: Any,
) -> tuple:  # fmt: skip
    return attention_backward(grad, query, key, value, None, p, is_causal, scale)[:3]


def efficient_attention_again(
    grad: Any, query: Any, key: Any, value: Any, attn_bias: Any, out: Any, logsumexp: Any, seed: Any, offset: Any, p: float, mask: Any,
    is_causal: bool, scale: Any,
) -> tuple:  # fmt: skip
    made = attention_backward(grad, query, key, value, attn_bias, p, is_causal, scale)
    return made if mask[3] else (*made[:3], None)


def flash_attention_for_cpu_again(
    grad: Any, query: Any, key: Any, value: Any, out: Any, logsumexp: Any, p: float, is_causal: bool, attn_mask: Any, scale: Any
) -> tuple:
    return attention_backward(grad, query, key, value, attn_mask, p, is_causal, scale)[:3]


# RMS norm -----------------------------------------------------------------------------------------------------


def fused_rms_norm(grad: Any, input: Any, normalized_shape: Any, weight: Any, result1: Any, wanted: Any) -> tuple:
    return ops._fused_rms_norm_backward(grad, input, normalized_shape, result1, weight, [wanted[0], weight is not None and wanted[1]])


def rms_norm_backward(grad: Any, input: Any, shape: Any, rstd: Any, weight: Any, mask: Any) -> tuple:
    inner = tuple(range(input.dim() - len(shape), input.dim()))
    outer = tuple(range(input.dim() - len(shape)))
    normal = _wide(input) * rstd
    g = _wide(grad)
    first = second = None
    if mask[0]:
        weighted = g if weight is None else g * _wide(weight)
        first = ((weighted - normal * (weighted * normal).mean(inner, True)) * rstd).to(input.dtype)
    if mask[1]:
        second = g * normal
        second = (second.sum(outer) if outer else second).reshape(weight.shape).to(weight.dtype)
    return first, second
