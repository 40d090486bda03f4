"""Multi-head attention as a layer."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.nn import functional as F
from metatensor.nn import init
from metatensor.nn.module import Module
from metatensor.nn.modules.linear import NonDynamicallyQuantizableLinear
from metatensor.nn.parameter import Parameter

__all__ = ["MultiheadAttention"]


class MultiheadAttention(Module):
    """Scaled dot-product attention of ``num_heads`` heads, with projections (Vaswani and others, 2017).

    Query (L, N, embed_dim), key (S, N, kdim) and value (S, N, vdim) give (L, N, embed_dim), N first with
    ``batch_first``, or without N. The input projections are one weight (3 embed_dim, embed_dim) where ``kdim`` and
    ``vdim`` are ``embed_dim``, else three. ``add_bias_kv`` adds a learned key and value, ``add_zero_attn`` a zero
    one. ValueError for sizes that are not positive or heads that do not divide ``embed_dim``.
    """

    __constants__ = ["batch_first"]
    bias_k: Parameter | None
    bias_v: Parameter | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"MultiheadAttention: embed_dim={embed_dim} and num_heads={num_heads} must both be positive"
            )
        if embed_dim % num_heads:
            raise AssertionError(
                f"MultiheadAttention: embed_dim={embed_dim} is not divisible by num_heads={num_heads}"
            )
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads

        def parameter(*shape: int) -> Parameter:
            return Parameter(mt.empty(shape, device=device, dtype=dtype))

        if self._qkv_same_embed_dim:
            self.in_proj_weight = parameter(3 * embed_dim, embed_dim)
            for name in ("q", "k", "v"):
                self.register_parameter(f"{name}_proj_weight", None)
        else:
            self.q_proj_weight = parameter(embed_dim, embed_dim)
            self.k_proj_weight = parameter(embed_dim, self.kdim)
            self.v_proj_weight = parameter(embed_dim, self.vdim)
            self.register_parameter("in_proj_weight", None)
        if bias:
            self.in_proj_bias = parameter(3 * embed_dim)
        else:
            self.register_parameter("in_proj_bias", None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        self.bias_k = parameter(1, 1, embed_dim) if add_bias_kv else None
        self.bias_v = parameter(1, 1, embed_dim) if add_bias_kv else None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        for learned in (self.bias_k, self.bias_v):
            if learned is not None:
                init.xavier_normal_(learned)

    def forward(
        self,
        query: mt.Tensor,
        key: mt.Tensor,
        value: mt.Tensor,
        key_padding_mask: mt.Tensor | None = None,
        need_weights: bool = True,
        attn_mask: mt.Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[mt.Tensor, mt.Tensor | None]:
        """The output, and the attention weights (N, L, S) or None; by head where they are not averaged."""
        batched = query.dim() == 3
        if not batched and query.dim() != 2:
            raise AssertionError(
                f"MultiheadAttention: expected a query of 2 or 3 dimensions, got shape {list(query.shape)}"
            )
        if is_causal and attn_mask is None:
            raise RuntimeError("MultiheadAttention: is_causal only says what attn_mask is; give that too")
        if not batched:
            query, key, value = (x.unsqueeze(1) for x in (query, key, value))
        elif self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        hint = is_causal and key_padding_mask is None and not need_weights
        mask = None if hint else self._mask(query, key, attn_mask, key_padding_mask)
        q, k, v = self._heads(query, key, value)
        if mask is not None and k.shape[2] > mask.shape[-1]:
            mask = F.pad(mask, (0, k.shape[2] - mask.shape[-1]))  # what was added is always seen
        output, weights = self._attend(q, k, v, mask, hint, need_weights)
        output = self.out_proj(output.permute(2, 0, 1, 3).flatten(2))
        if weights is not None and average_attn_weights:
            weights = weights.mean(1)
        if not batched:
            return output.squeeze(1), None if weights is None else weights.squeeze(0)
        return output.transpose(0, 1) if self.batch_first else output, weights

    def _mask(
        self, query: mt.Tensor, key: mt.Tensor, attn_mask: mt.Tensor | None, key_padding_mask: mt.Tensor | None
    ) -> mt.Tensor | None:
        """What is added to the scores (N, heads, L, S), or broadcasts to that; None where nothing is masked."""
        (length, batch), source = query.shape[:2], key.shape[0]
        mask = None
        if attn_mask is not None:
            mask = _additive(attn_mask, query.dtype)
            if mask.dim() == 2:
                mask = mask.unsqueeze(0).unsqueeze(0)
                expected = [1, 1, length, source]
            else:
                expected = [batch, self.num_heads, length, source]
                if list(mask.shape) == [batch * self.num_heads, length, source]:
                    mask = mask.view(expected)
            if list(mask.shape) != expected:
                raise RuntimeError(
                    f"MultiheadAttention: attn_mask has shape {list(attn_mask.shape)}, which is neither "
                    f"{[length, source]} nor {[batch * self.num_heads, length, source]}"
                )
        if key_padding_mask is not None:
            padding = _additive(key_padding_mask, query.dtype)
            if padding.numel() != batch * source:
                raise RuntimeError(
                    f"MultiheadAttention: key_padding_mask has shape {list(padding.shape)}, not {[batch, source]}"
                )
            padding = padding.view(batch, 1, 1, source)
            mask = padding if mask is None else mask + padding
        return mask

    def _heads(
        self, query: mt.Tensor, key: mt.Tensor, value: mt.Tensor
    ) -> tuple[mt.Tensor, mt.Tensor, mt.Tensor]:
        """Query, key and value of each head, (N, heads, L or S, head_dim), with what is added to key and value."""
        if self._qkv_same_embed_dim:
            weights = self.in_proj_weight.chunk(3)
        else:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        q, k, v = (F.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases))
        if self.bias_k is not None and self.bias_v is not None:
            k = mt.cat([k, self.bias_k.expand(1, k.shape[1], -1)])
            v = mt.cat([v, self.bias_v.expand(1, v.shape[1], -1)])
        if self.add_zero_attn:
            zeros = k.new_zeros((1, *k.shape[1:]))
            k, v = mt.cat([k, zeros]), mt.cat([v, zeros])
        q, k, v = (x.unflatten(2, (self.num_heads, self.head_dim)).permute(1, 2, 0, 3) for x in (q, k, v))
        return q, k, v

    def _attend(
        self, q: mt.Tensor, k: mt.Tensor, v: mt.Tensor, mask: mt.Tensor | None, is_causal: bool, need_weights: bool
    ) -> tuple[mt.Tensor, mt.Tensor | None]:
        dropout = self.dropout if self.training else 0.0
        if not need_weights:
            return F.scaled_dot_product_attention(q, k, v, mask, dropout, is_causal), None
        scores = q * self.head_dim**-0.5 @ k.transpose(2, 3)
        weights = F.softmax(scores if mask is None else scores + mask, -1)
        if dropout > 0.0:
            weights = F.dropout(weights, dropout)
        return weights @ v, weights


def _additive(mask: mt.Tensor, dtype: mt.dtype) -> mt.Tensor:
    """A mask whose True means "not seen" as one that is added; one of numbers as it is."""
    if mask.dtype != mt.bool:
        return mask
    return mt.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(mask, float("-inf"))
