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
        """The output, and the attention weights (N, L, S) or None; by head where they are not averaged.

        AssertionError for masks that are neither bool nor floating-point.
        """
        for name, mask in (("key_padding_mask", key_padding_mask), ("attn_mask", attn_mask)):
            if mask is not None and mask.dtype is not mt.bool and not mask.is_floating_point():
                raise AssertionError(f"MultiheadAttention: {name} must be bool or floating-point, got {mask.dtype}")
        swap = self.batch_first and query.dim() == 3 == key.dim() == value.dim()
        if swap:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        output, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return output.transpose(0, 1) if swap else output, weights

    def merge_masks(
        self, attn_mask: mt.Tensor | None, key_padding_mask: mt.Tensor | None, query: mt.Tensor
    ) -> tuple[mt.Tensor | None, int | None]:
        """Both masks as one, for a query (N, L, E), and its kind; (None, None) without masks.

        A padding mask alone stays as it is, of kind 1. An attention mask (L, L) or (N heads, L, L) becomes
        (N, heads, L, L), of kind 2, with a padding mask (N, L) added to it.
        """
        if attn_mask is None:
            return key_padding_mask, None if key_padding_mask is None else 1
        batch, length, _ = query.shape
        if attn_mask.dim() == 3:
            merged = attn_mask.view(batch, -1, length, length)
        else:
            merged = attn_mask.view(1, 1, length, length).expand(batch, self.num_heads, -1, -1)
        if key_padding_mask is not None:
            merged = merged + key_padding_mask.view(batch, 1, 1, length).expand(-1, self.num_heads, -1, -1)
        return merged, 2
