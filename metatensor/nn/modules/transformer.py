"""Transformer layers, stacks of them, and the full encoder-decoder model."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import metatensor as mt
from metatensor._core.late import later
from metatensor.nn import functional as F
from metatensor.nn import init
from metatensor.nn.module import Module
from metatensor.nn.modules.activation import GELU, ReLU
from metatensor.nn.modules.attention import MultiheadAttention
from metatensor.nn.modules.container import ModuleList
from metatensor.nn.modules.dropout import Dropout
from metatensor.nn.modules.linear import Linear
from metatensor.nn.modules.normalization import LayerNorm

__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]

Activation = str | Callable[[mt.Tensor], mt.Tensor]


def _activation(given: Activation) -> Any:
    if not isinstance(given, str):
        return given
    if given not in ("relu", "gelu"):
        raise RuntimeError(f"activation must be 'relu', 'gelu' or a function, not {given!r}")
    return F.relu if given == "relu" else F.gelu


def _get_activation_fn(activation: str) -> Any:
    if not isinstance(activation, str):
        raise RuntimeError(f"activation must be 'relu' or 'gelu', not {activation!r}")
    return _activation(activation)


def _get_clones(module: Any, N: int) -> ModuleList:
    return ModuleList([copy.deepcopy(module) for _ in range(N)])


def _additive(mask: mt.Tensor | None, name: str, dtype: mt.dtype) -> mt.Tensor | None:
    """Return an additive mask: minus infinity where a bool mask is True. A floating-point mask is returned unchanged."""
    if mask is None or mask.is_floating_point():
        return mask
    if mask.dtype != mt.bool:
        raise AssertionError(f"{name} must be bool or floating-point, not {mask.dtype}")
    return mt.zeros_like(mask, dtype=dtype).masked_fill_(mask, float("-inf"))


def _generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> mt.Tensor:
    """Return the additive causal mask (sz, sz): minus infinity above the diagonal, 0 elsewhere."""
    return mt.triu(mt.full((sz, sz), float("-inf"), dtype=dtype, device=device), diagonal=1)


def _get_seq_len(src: mt.Tensor, batch_first: bool) -> int:
    """Return the sequence length of an input (S, E), (S, N, E) or, if ``batch_first``, (N, S, E)."""
    return src.shape[1 if src.dim() == 3 and batch_first else 0]


def _detect_is_causal_mask(mask: mt.Tensor | None, is_causal: bool | None = None, size: int | None = None) -> bool:
    """Return ``is_causal`` or, if that is None, whether ``mask`` is the causal mask.

    The result for a mask without values is False.
    """
    if is_causal is not None or mask is None:
        return bool(is_causal)
    causal = _generate_square_subsequent_mask(mask.size(-2) if size is None else size, mask.device, mask.dtype)
    if mask.size() != causal.size() or not later("has_values")(mask):
        return False
    return bool((mask == causal).all())


class _Layer(Module):
    """Base of encoder and decoder layers: the feed-forward block, and a norm before or after each block."""

    __constants__ = ["norm_first"]
    _attentions: tuple[str, ...] = ()

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        options: Any = {"device": device, "dtype": dtype}
        for name in self._attentions:
            attention = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **options)
            setattr(self, name, attention)
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **options)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **options)
        self.norm_first = norm_first
        numbers = range(1, len(self._attentions) + 2)
        for i in numbers:
            setattr(self, f"norm{i}", LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **options))
        for i in numbers:
            setattr(self, f"dropout{i}", Dropout(dropout))
        self.activation = _activation(activation)
        self._note_activation()

    def _note_activation(self) -> None:
        """Store attributes that a subclass computes from the activation."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "activation" not in self.__dict__ and "activation" not in self._modules:
            self.activation = F.relu

    def _sublayer(self, x: mt.Tensor, i: int, block: Callable[[mt.Tensor], mt.Tensor]) -> mt.Tensor:
        """Return ``x`` plus the output of ``block``, with the norm applied before the block or after the sum."""
        norm = getattr(self, f"norm{i}")
        return x + block(norm(x)) if self.norm_first else norm(x + block(x))

    # These methods have PyTorch's names because subclasses call and override them. The last step of each is dropout.

    def _ff_block(self, x: mt.Tensor) -> mt.Tensor:
        x = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return getattr(self, f"dropout{len(self._attentions) + 1}")(x)

    def _sa_block(
        self, x: mt.Tensor, attn_mask: mt.Tensor | None, key_padding_mask: mt.Tensor | None, is_causal: bool = False
    ) -> mt.Tensor:
        x = self.self_attn(
            x, x, x, attn_mask=attn_mask, key_padding_mask=key_padding_mask, is_causal=is_causal, need_weights=False
        )[0]
        return self.dropout1(x)


class TransformerEncoderLayer(_Layer):
    """Self-attention followed by a feed-forward block, each with dropout, a residual sum and a `LayerNorm`.

    Input and output have shape (S, N, d_model), (N, S, d_model) if ``batch_first``, or (S, d_model).

    Parameters
    ----------
    d_model : int
        Features of input and output.
    nhead : int
        Number of attention heads. It must divide ``d_model``.
    dim_feedforward : int
        Hidden features of the feed-forward block. Default 2048.
    dropout : float
        Probability of dropout. Default 0.1.
    activation : str or callable
        "relu" (the default), "gelu" or a function, for the feed-forward block.
    layer_norm_eps : float
        ``eps`` of the norms. Default 1e-5.
    batch_first : bool
        Whether N is the first dimension. Default False.
    norm_first : bool
        Normalize before each block instead of after each sum. Default False.
    bias : bool
        Give linear layers, attention and norms biases. Default True.
    device, dtype : optional
        Device and dtype of the parameters.

    Raises
    ------
    RuntimeError
        If ``activation`` is another string.

    Examples
    --------
    >>> import metatensor as mt
    >>> layer = mt.nn.TransformerEncoderLayer(16, 4, dim_feedforward=32, device="meta")
    >>> layer(mt.empty(5, 2, 16, device="meta")).shape
    metatensor.Size([5, 2, 16])
    """

    _attentions = ("self_attn",)
    self_attn: MultiheadAttention

    def _note_activation(self) -> None:
        made = self.activation
        self.activation_relu_or_gelu = (
            1 if made is F.relu or isinstance(made, ReLU) else 2 if made is F.gelu or isinstance(made, GELU) else 0
        )

    def forward(
        self,
        src: mt.Tensor,
        src_mask: mt.Tensor | None = None,
        src_key_padding_mask: mt.Tensor | None = None,
        is_causal: bool = False,
    ) -> mt.Tensor:
        padding = _additive(src_key_padding_mask, "src_key_padding_mask", src.dtype)
        mask = _additive(src_mask, "src_mask", src.dtype)

        def attend(x: mt.Tensor) -> mt.Tensor:
            return self._sa_block(x, mask, padding, is_causal=is_causal)

        return self._sublayer(self._sublayer(src, 1, attend), 2, self._ff_block)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the encoder's output, and a feed-forward block.

    It is called with a target (T, N, d_model) and a memory (S, N, d_model). The output has the shape of the target. See
    `TransformerEncoderLayer` for the parameters and the position of N.

    Examples
    --------
    >>> import metatensor as mt
    >>> layer = mt.nn.TransformerDecoderLayer(16, 4, dim_feedforward=32, device="meta")
    >>> layer(mt.empty(7, 2, 16, device="meta"), mt.empty(5, 2, 16, device="meta")).shape
    metatensor.Size([7, 2, 16])
    """

    _attentions = ("self_attn", "multihead_attn")
    self_attn: MultiheadAttention
    multihead_attn: MultiheadAttention

    def _mha_block(
        self, x: mt.Tensor, mem: mt.Tensor, attn_mask: mt.Tensor | None, key_padding_mask: mt.Tensor | None,
        is_causal: bool = False,
    ) -> mt.Tensor:  # fmt: skip
        x = self.multihead_attn(
            x, mem, mem, attn_mask=attn_mask, key_padding_mask=key_padding_mask, is_causal=is_causal, need_weights=False
        )[0]
        return self.dropout2(x)

    def forward(
        self,
        tgt: mt.Tensor,
        memory: mt.Tensor,
        tgt_mask: mt.Tensor | None = None,
        memory_mask: mt.Tensor | None = None,
        tgt_key_padding_mask: mt.Tensor | None = None,
        memory_key_padding_mask: mt.Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> mt.Tensor:
        def attend_self(x: mt.Tensor) -> mt.Tensor:
            return self._sa_block(x, tgt_mask, tgt_key_padding_mask, tgt_is_causal)

        def attend_memory(x: mt.Tensor) -> mt.Tensor:
            return self._mha_block(x, memory, memory_mask, memory_key_padding_mask, memory_is_causal)

        x = self._sublayer(self._sublayer(tgt, 1, attend_self), 2, attend_memory)
        return self._sublayer(x, 3, self._ff_block)


class TransformerEncoder(Module):
    """Stack of copies of an encoder layer, with an optional norm at the end.

    Input and output have the shape that the layer takes.

    Parameters
    ----------
    encoder_layer : TransformerEncoderLayer
        Layer to copy.
    num_layers : int
        Number of copies.
    norm : Module, optional
        Applied to the output.
    enable_nested_tensor, mask_check : bool
        Stored and otherwise unused: padded positions are computed like all others.

    Examples
    --------
    >>> import metatensor as mt
    >>> layer = mt.nn.TransformerEncoderLayer(16, 4, dim_feedforward=32, device="meta")
    >>> mt.nn.TransformerEncoder(layer, 2)(mt.empty(5, 2, 16, device="meta")).shape
    metatensor.Size([5, 2, 16])
    """

    __constants__ = ["norm"]

    def __init__(
        self,
        encoder_layer: TransformerEncoderLayer,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _get_clones(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.use_nested_tensor = False
        self.mask_check = mask_check

    def forward(
        self,
        src: mt.Tensor,
        mask: mt.Tensor | None = None,
        src_key_padding_mask: mt.Tensor | None = None,
        is_causal: bool | None = None,
    ) -> mt.Tensor:
        padding = _additive(src_key_padding_mask, "src_key_padding_mask", src.dtype)
        mask = _additive(mask, "mask", src.dtype)
        for layer in self.layers:
            src = layer(src, src_mask=mask, is_causal=bool(is_causal), src_key_padding_mask=padding)
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """Stack of copies of a decoder layer, with an optional norm at the end.

    It is called with a target and a memory, as the layer is. The output has the shape of the target.

    Parameters
    ----------
    decoder_layer : TransformerDecoderLayer
        Layer to copy.
    num_layers : int
        Number of copies.
    norm : Module, optional
        Applied to the output.

    Examples
    --------
    >>> import metatensor as mt
    >>> layer = mt.nn.TransformerDecoderLayer(16, 4, dim_feedforward=32, device="meta")
    >>> decoder = mt.nn.TransformerDecoder(layer, 2)
    >>> decoder(mt.empty(7, 2, 16, device="meta"), mt.empty(5, 2, 16, device="meta")).shape
    metatensor.Size([7, 2, 16])
    """

    __constants__ = ["norm"]

    def __init__(self, decoder_layer: TransformerDecoderLayer, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _get_clones(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: mt.Tensor,
        memory: mt.Tensor,
        tgt_mask: mt.Tensor | None = None,
        memory_mask: mt.Tensor | None = None,
        tgt_key_padding_mask: mt.Tensor | None = None,
        memory_key_padding_mask: mt.Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> mt.Tensor:
        for layer in self.layers:
            tgt = layer(
                tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask, tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=bool(tgt_is_causal),
                memory_is_causal=memory_is_causal,
            )  # fmt: skip
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """Encoder-decoder transformer (Vaswani et al., 2017).

    It is called with a source (S, N, d_model) and a target (T, N, d_model). The output has the shape of the target. N
    is the first dimension if ``batch_first``, and is optional. Parameters of 2 and more dimensions are initialized with
    `init.xavier_uniform_`.

    Parameters
    ----------
    d_model : int
        Features of source and target. Default 512.
    nhead : int
        Number of attention heads. Default 8.
    num_encoder_layers, num_decoder_layers : int
        Numbers of layers. Default 6.
    dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias, device, dtype
        As in `TransformerEncoderLayer`.
    custom_encoder, custom_decoder : Module, optional
        Use these modules instead of the stacks of layers.

    Raises
    ------
    RuntimeError
        On a call if the batch sizes differ or the last dimension of an input is not ``d_model``.

    Examples
    --------
    >>> import metatensor as mt
    >>> model = mt.nn.Transformer(device="meta")
    >>> model(mt.empty(5, 2, 512, device="meta"), mt.empty(7, 2, 512, device="meta")).shape
    metatensor.Size([7, 2, 512])
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        options = {"device": device, "dtype": dtype}
        layer = (
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias, device, dtype
        )  # fmt: skip

        def norm() -> LayerNorm:
            return LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **options)

        self.encoder = custom_encoder
        if custom_encoder is None:
            self.encoder = TransformerEncoder(TransformerEncoderLayer(*layer), num_encoder_layers, norm())
        self.decoder = custom_decoder
        if custom_decoder is None:
            self.decoder = TransformerDecoder(TransformerDecoderLayer(*layer), num_decoder_layers, norm())
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def _reset_parameters(self) -> None:
        for parameter in self.parameters():
            if parameter.dim() > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self,
        src: mt.Tensor,
        tgt: mt.Tensor,
        src_mask: mt.Tensor | None = None,
        tgt_mask: mt.Tensor | None = None,
        memory_mask: mt.Tensor | None = None,
        src_key_padding_mask: mt.Tensor | None = None,
        tgt_key_padding_mask: mt.Tensor | None = None,
        memory_key_padding_mask: mt.Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> mt.Tensor:
        batch = 0 if self.batch_first else 1
        shapes = f"got src {list(src.shape)} and tgt {list(tgt.shape)}"
        if src.dim() == 3 and src.size(batch) != tgt.size(batch):
            raise RuntimeError(f"Transformer: src and tgt must have the same batch size, {shapes}")
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError(f"Transformer: the last dimension must be d_model={self.d_model}, {shapes}")
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(
            tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask, tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )  # fmt: skip

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> mt.Tensor:
        """Return the additive causal mask (sz, sz): minus infinity above the diagonal, 0 elsewhere.

        Each position attends to itself and to earlier positions only.

        Examples
        --------
        >>> import metatensor as mt
        >>> mt.nn.Transformer.generate_square_subsequent_mask(2, device="cpu")
        tensor([[  0., -inf],
                [  0.,   0.]])
        """
        return _generate_square_subsequent_mask(sz, device, dtype)
