"""The multi-head attention layer."""

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
    """Multi-head scaled dot-product attention with input and output projections (Vaswani et al., 2017).

    The inputs are a query (L, N, embed_dim), a key (S, N, kdim) and a value (S, N, vdim), and the output has the shape
    of the query. With ``batch_first`` N is the first dimension. Inputs without N are accepted too. If ``kdim`` and
    ``vdim`` equal ``embed_dim``, the input projections are one parameter ``in_proj_weight`` (3 * embed_dim, embed_dim).
    Otherwise they are ``q_proj_weight``, ``k_proj_weight`` and ``v_proj_weight``.

    Parameters
    ----------
    embed_dim : int
        Features of query and output.
    num_heads : int
        Number of heads. It must divide ``embed_dim``.
    dropout : float
        Probability of dropping an attention weight in training. Default 0.
    bias : bool
        Add biases to the projections. Default True.
    add_bias_kv : bool
        Append one learned key and value to each sequence. Default False.
    add_zero_attn : bool
        Append a key and a value of zeros to each sequence. Default False.
    kdim, vdim : int, optional
        Features of key and value. Default ``embed_dim``.
    batch_first : bool
        Take and return tensors of shape (N, L, features). Default False.
    device, dtype : optional
        Device and dtype of the parameters.

    Raises
    ------
    ValueError
        If ``embed_dim`` or ``num_heads`` is not positive.
    AssertionError
        If ``num_heads`` does not divide ``embed_dim``.

    Examples
    --------
    >>> import metatensor as mt
    >>> layer = mt.nn.MultiheadAttention(16, 4, batch_first=True)
    >>> query, memory = mt.empty(2, 5, 16), mt.empty(2, 7, 16)
    >>> output, weights = layer(query, memory, memory)
    >>> output.shape, weights.shape
    (metatensor.Size([2, 5, 16]), metatensor.Size([2, 5, 7]))
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
        """Return the attention output and, if requested, the attention weights.

        Parameters
        ----------
        query, key, value : Tensor
            Shapes as in the class documentation.
        key_padding_mask : Tensor, optional
            Shape (N, S) or (S,). A bool mask is True for keys to ignore. A floating-point mask is added to the scores.
        need_weights : bool
            Return the attention weights. Default True.
        attn_mask : Tensor, optional
            Shape (L, S) or (N * num_heads, L, S), bool or floating-point as above.
        average_attn_weights : bool
            Average the returned weights over the heads. Default True.
        is_causal : bool
            Declare that ``attn_mask``, which must be given too, is the causal mask. Default False.

        Returns
        -------
        output : Tensor
            Shape of ``query``.
        weights : Tensor or None
            Shape (N, L, S) if averaged, else (N, num_heads, L, S). None without ``need_weights``.

        Raises
        ------
        AssertionError
            If a mask is neither bool nor floating-point.
        """
        for name, mask in (("key_padding_mask", key_padding_mask), ("attn_mask", attn_mask)):
            if mask is not None and mask.dtype is not mt.bool and not mask.is_floating_point():
                raise AssertionError(f"MultiheadAttention: {name} must be bool or floating-point, got {mask.dtype}")
        swap = self.batch_first and query.dim() == 3 == key.dim() == value.dim()
        if swap:
            # If two of them are the same tensor, keep them so, because their projections are then computed together.
            moved = key.transpose(0, 1)
            query, value = (moved if x is key else x.transpose(0, 1) for x in (query, value))
            key = moved
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
        """Combine an attention mask and a padding mask for a query (N, L, E).

        Returns
        -------
        mask : Tensor or None
            Without ``attn_mask``, ``key_padding_mask`` itself. Otherwise a mask (N, num_heads, L, L): ``attn_mask``, of
            shape (L, L) or (N * num_heads, L, L), plus ``key_padding_mask``, of shape (N, L), if there is one.
        kind : int or None
            None without masks, 1 for a padding mask alone, 2 if there is an attention mask.
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
