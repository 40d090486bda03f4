"""Attention."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor._core.tensor import Tensor
from metatensor.nn import functional as F
from metatensor.program.onnx.importing.operators import CONTRIB, Node, operator
from metatensor.program.onnx.importing.values import OnnxError

__all__: list[str] = []


def _heads(x: Tensor, heads: int) -> Tensor:
    """Turn (batch, length, heads * size) into (batch, heads, length, size)."""
    if heads < 1 or x.shape[-1] % heads:
        raise OnnxError(f"{x.shape[-1]} channels cannot be divided among {heads} heads")
    return x.reshape(x.shape[0], x.shape[1], heads, x.shape[-1] // heads).transpose(1, 2)


def _joined(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)


def _additive(mask: Tensor, dtype: mt.dtype) -> Tensor:
    """Return a boolean mask as an additive mask: 0 where it is true, else minus infinity."""
    zero = mt.zeros((), dtype=dtype, device=mask.device)
    return mt.where(mask, zero, mt.full((), float("-inf"), dtype=dtype, device=mask.device))


# Rotary embedding -------------------------------------------------------------------------------------


def _rotated(x: Tensor, cos: Tensor, sin: Tensor, size: int, interleaved: bool) -> Tensor:
    """Rotate pairs of channels of (batch, heads, length, size). `cos` and `sin` are (batch, length, size / 2)."""
    turned, rest = (x[..., :size], x[..., size:]) if size < x.shape[-1] else (x, None)
    cos, sin = cos[:, None].to(x.dtype), sin[:, None].to(x.dtype)
    if interleaved:
        a, b = turned[..., 0::2], turned[..., 1::2]
        y = mt.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)
    else:
        a, b = turned.chunk(2, -1)
        y = mt.cat([a * cos - b * sin, b * cos + a * sin], -1)
    return y if rest is None else mt.cat([y, rest], -1)


@operator("RotaryEmbedding", domain=CONTRIB)
def _rotary(node: Node, x: Tensor, places: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    size = node.get("rotary_embedding_dim", 0) or 2 * cos.shape[1]
    flat = x.ndim == 3
    heads = node.get("num_heads", 0) or (x.shape[2] // size if flat else x.shape[1])
    y = _heads(x, heads) if flat else x
    length = y.shape[2]
    if places.numel() == 1:
        places = places.reshape(1, 1).to(mt.int64) + mt.arange(length, device=x.device)
    at = places.to(mt.int64)
    made = _rotated(y, F.embedding(at, cos), F.embedding(at, sin), size, bool(node.get("interleaved", 0)))
    return _joined(made) if flat else made


@operator("Attention")
def _standard(
    node: Node, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, past_k: Tensor | None = None, past_v: Tensor | None = None,
    lengths: Tensor | None = None,
) -> Any:
    causal = bool(node.get("is_causal", 0))
    usual = {"is_causal", "kv_num_heads", "q_num_heads", "qk_matmul_output_mode", "scale", "softcap", "softmax_precision"}
    if lengths is not None or node.get("softcap", 0.0) or node.wants(3) or set(node.step.attributes) - usual:
        return NotImplemented
    if causal and (mask is not None or past_k is not None) or mask is not None and mask.dtype is mt.bool:
        return NotImplemented
    flat = q.ndim == 3
    if flat:
        q, k, v = _heads(q, node.need("q_num_heads")), _heads(k, node.need("kv_num_heads")), _heads(v, node.need("kv_num_heads"))
    if past_k is not None and past_v is not None:
        k, v = mt.cat([past_k, k], 2), mt.cat([past_v, v], 2)
    if mask is not None and mask.shape[-1] != k.shape[2]:
        return NotImplemented
    y = F.scaled_dot_product_attention(q, k, v, mask, 0.0, causal, scale=node.get("scale"), enable_gqa=q.shape[1] != k.shape[1])
    return _joined(y) if flat else y, k, v


# Fused operators of onnxruntime -----------------------------------------------------------------------


def _attended(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float | None) -> Tensor:
    """Return the attention of (batch, heads, length, size). The last query is aligned with the last key."""
    if causal and q.shape[2] != 1:
        rows, columns = q.shape[2], k.shape[2]
        own = mt.ones((rows, columns), dtype=mt.bool, device=q.device).tril(columns - rows)
        if mask is None and rows == columns:
            return F.scaled_dot_product_attention(q, k, v, None, 0.0, True, scale=scale, enable_gqa=q.shape[1] != k.shape[1])
        mask = own if mask is None else _additive(own, q.dtype) + mask
    return F.scaled_dot_product_attention(q, k, v, mask, 0.0, False, scale=scale, enable_gqa=q.shape[1] != k.shape[1])


def _padding(mask: Tensor | None, q: Tensor, k: Tensor, value: float) -> Tensor | None:
    """Return a mask of (batch, keys) or of lengths (batch) as an additive mask for the scores."""
    if mask is None:
        return None
    total = k.shape[2]
    if mask.ndim == 1:
        if mask.shape[0] != q.shape[0]:
            raise NotImplementedError(f"a mask of shape {list(mask.shape)} is not supported")
        kept = mt.arange(total, device=q.device) < mask.to(mt.int64)[:, None]
    else:
        kept = mask.to(mt.bool)
    low = mt.full((), value, dtype=q.dtype, device=q.device)
    added = mt.where(kept, mt.zeros((), dtype=q.dtype, device=q.device), low)
    return added[:, None, None] if added.ndim == 2 else added[:, None] if added.ndim == 3 else added


@operator("Attention", domain=CONTRIB)
def _attention(
    node: Node, x: Tensor, weight: Tensor, bias: Tensor | None = None, mask: Tensor | None = None, past: Tensor | None = None,
    scores: Tensor | None = None,
) -> Any:
    heads = node.need("num_heads")
    if node.get("do_rotary", 0):
        raise NotImplementedError("Attention with rotary embeddings is not supported")
    sizes = node.get("qkv_hidden_sizes") or [weight.shape[1] // 3] * 3
    y = mt.matmul(x, weight)
    y = y if bias is None else y + bias
    q, k, v = (_heads(part, heads) for part in mt.split(y, list(sizes), -1))
    if past is not None:
        k, v = mt.cat([past[0], k], 2), mt.cat([past[1], v], 2)
    added = _padding(mask, q, k, node.get("mask_filter_value", -10000.0))
    if scores is not None:
        added = scores if added is None else added + scores
    out = _attended(q, k, v, added, bool(node.get("unidirectional", 0)), node.get("scale") or None)
    return _joined(out), mt.stack([k, v]) if node.wants(1) else None


@operator("MultiHeadAttention", domain=CONTRIB)
def _multi_head(
    node: Node, q: Tensor, k: Tensor | None = None, v: Tensor | None = None, bias: Tensor | None = None, mask: Tensor | None = None,
    scores: Tensor | None = None, past_k: Tensor | None = None, past_v: Tensor | None = None, *rest: Any,
) -> Any:
    heads = node.need("num_heads")
    if any(one is not None for one in rest):
        raise NotImplementedError("MultiHeadAttention with buffers of the past is not supported")
    if q.ndim == 5:  # (batch, length, heads, 3, size)
        q, k, v = (q[:, :, :, i].transpose(1, 2) for i in range(3))
    else:
        if k is not None and k.ndim == 5:  # (batch, length, heads, 2, size)
            k, v = k[:, :, :, 0].transpose(1, 2), k[:, :, :, 1].transpose(1, 2)
        if k is None or v is None:
            raise OnnxError("keys or values are missing")
        if bias is not None:
            n = q.shape[-1]
            q = q + bias[:n]
            if k.ndim == 3:
                k, v = k + bias[n : n + k.shape[-1]], v + bias[n + k.shape[-1] :]
        q = _heads(q, heads)
        k, v = (_heads(one, heads) if one.ndim == 3 else one for one in (k, v))
    if past_k is not None and past_v is not None:
        k, v = mt.cat([past_k, k], 2), mt.cat([past_v, v], 2)
    added = _padding(mask, q, k, node.get("mask_filter_value", -10000.0))
    if scores is not None:
        added = scores if added is None else added + scores
    out = _attended(q, k, v, added, bool(node.get("unidirectional", 0)), node.get("scale") or None)
    return _joined(out), k, v


@operator("GroupQueryAttention", domain=CONTRIB)
def _group_query(
    node: Node, q: Tensor, k: Tensor | None, v: Tensor | None, past_k: Tensor | None, past_v: Tensor | None, lengths: Tensor, total: Tensor,
    cos: Tensor | None = None, sin: Tensor | None = None, *rest: Any,
) -> Any:
    heads, groups = node.need("num_heads"), node.need("kv_num_heads")
    if any(one is not None for one in rest) or node.get("softcap", 0.0) or node.get("local_window_size", -1) > 0:
        raise NotImplementedError("GroupQueryAttention with a local window, a soft cap or further inputs is not supported")
    if k is None or v is None:
        size = q.shape[-1] // (heads + 2 * groups)
        q, k, v = mt.split(q, [heads * size, groups * size, groups * size], -1)
    q, k, v = _heads(q, heads), _heads(k, groups), _heads(v, groups)
    before = 0 if past_k is None else past_k.shape[2]
    if node.get("do_rotary", 0):
        if cos is None or sin is None:
            raise OnnxError("the tables of the rotary embedding are missing")
        at = (mt.arange(q.shape[2], device=q.device) + before)[None]
        tables = F.embedding(at, cos), F.embedding(at, sin)
        whole, mixed = 2 * cos.shape[1], bool(node.get("rotary_interleaved", 0))
        q, k = _rotated(q, *tables, whole, mixed), _rotated(k, *tables, whole, mixed)
    if past_k is not None and past_v is not None:
        k, v = mt.cat([past_k, k], 2), mt.cat([past_v, v], 2)
    kept = mt.arange(k.shape[2], device=q.device) <= lengths.to(mt.int64).reshape(-1, 1)
    out = _attended(q, k, v, _additive(kept, q.dtype)[:, None, None], True, node.get("scale") or None)
    return _joined(out), k, v
