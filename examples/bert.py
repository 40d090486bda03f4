"""The BERT encoder, from "BERT: Pre-training of Deep Bidirectional Transformers" (Devlin et al., 2018).

    metatensor estimate examples/bert.py:minilm_l6 --input "int64[1,256]"

`from_config` builds an encoder from a ``config.json``. Parameters have the names that they have in published
checkpoints.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from os import PathLike
from typing import Any

import metatensor as mt
from metatensor import nn
from metatensor.nn import functional as F

ACTIVATIONS = {"gelu": F.gelu, "relu": F.relu, "silu": F.silu}


@dataclass(frozen=True)
class Config:
    """The fields of a ``config.json`` that determine the encoder, under the same names. The defaults are those of BERT base."""

    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    pad_token_id: int = 0


class Embeddings(nn.Module):
    """The normalised sum of word, position and segment embeddings."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.hidden_size
        self.word_embeddings = nn.Embedding(config.vocab_size, width, padding_idx=config.pad_token_id)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, width)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, width)
        self.LayerNorm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.register_buffer("position_ids", mt.arange(config.max_position_embeddings).unsqueeze(0))

    def forward(self, tokens: mt.Tensor, segments: mt.Tensor | None) -> mt.Tensor:
        if segments is None:
            segments = mt.zeros_like(tokens)
        x = self.word_embeddings(tokens) + self.token_type_embeddings(segments)
        x = x + self.position_embeddings(self.position_ids[:, : tokens.shape[1]])
        return self.dropout(self.LayerNorm(x))


class SelfAttention(nn.Module):
    """Self-attention with an optional mask."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        if config.hidden_size % config.num_attention_heads:
            raise ValueError(f"width {config.hidden_size} is not divisible by {config.num_attention_heads} heads")
        self.head_width = config.hidden_size // config.num_attention_heads
        self.dropout = config.attention_probs_dropout_prob
        self.query = nn.Linear(config.hidden_size, config.hidden_size)
        self.key = nn.Linear(config.hidden_size, config.hidden_size)
        self.value = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, x: mt.Tensor, mask: mt.Tensor | None) -> mt.Tensor:
        batch, length, width = x.shape
        split = (batch, length, -1, self.head_width)
        q = self.query(x).view(split).transpose(1, 2)
        k = self.key(x).view(split).transpose(1, 2)
        v = self.value(x).view(split).transpose(1, 2)
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)
        return y.transpose(1, 2).reshape(batch, length, width)


class Residual(nn.Module):
    """A linear layer to the width of the encoder, a residual connection and a layer norm."""

    def __init__(self, width_in: int, config: Config) -> None:
        super().__init__()
        self.dense = nn.Linear(width_in, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, x: mt.Tensor, residual: mt.Tensor) -> mt.Tensor:
        return self.LayerNorm(self.dropout(self.dense(x)) + residual)


class Attention(nn.Module):
    """Self-attention with a residual connection."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.self = SelfAttention(config)
        self.output = Residual(config.hidden_size, config)

    def forward(self, x: mt.Tensor, mask: mt.Tensor | None) -> mt.Tensor:
        return self.output(self.self(x, mask), x)


class Intermediate(nn.Module):
    """The first linear layer of the MLP, and its activation."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.intermediate_size)
        self.activation = ACTIVATIONS[config.hidden_act]

    def forward(self, x: mt.Tensor) -> mt.Tensor:
        return self.activation(self.dense(x))


class Layer(nn.Module):
    """One post-norm encoder layer."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.intermediate = Intermediate(config)
        self.output = Residual(config.intermediate_size, config)

    def forward(self, x: mt.Tensor, mask: mt.Tensor | None) -> mt.Tensor:
        x = self.attention(x, mask)
        return self.output(self.intermediate(x), x)


class Encoder(nn.Module):
    """A stack of layers."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.layer = nn.ModuleList([Layer(config) for _ in range(config.num_hidden_layers)])

    def forward(self, x: mt.Tensor, mask: mt.Tensor | None) -> mt.Tensor:
        for layer in self.layer:
            x = layer(x, mask)
        return x


class Pooler(nn.Module):
    """A linear layer with tanh on the first token."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, x: mt.Tensor) -> mt.Tensor:
        return self.dense(x[:, 0]).tanh()


class Bert(nn.Module):
    """An encoder of token ids (batch, length), int64.

    Returns states (batch, length, width) and the pooled first token (batch, width). ``mask`` is (batch, length) and
    nonzero at real tokens. ``segments`` has the shape of ``tokens``.
    """

    def __init__(self, config: Config = Config()) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.encoder = Encoder(config)
        self.pooler = Pooler(config)

    def forward(
        self, tokens: mt.Tensor, mask: mt.Tensor | None = None, segments: mt.Tensor | None = None
    ) -> tuple[mt.Tensor, mt.Tensor]:
        allowed = None if mask is None else (mask != 0)[:, None, None, :]
        states = self.encoder(self.embeddings(tokens, segments), allowed)
        return states, self.pooler(states)


def from_config(config: str | PathLike[str] | dict[str, Any]) -> Bert:
    """Build the encoder that ``config`` describes: a dict, or the path of a ``config.json``."""
    if not isinstance(config, dict):
        with open(config, encoding="utf-8") as file:
            config = json.load(file)
    return Bert(Config(**{field.name: config[field.name] for field in fields(Config) if field.name in config}))


def bert_base() -> Bert:
    """Return BERT base: 109,482,240 parameters."""
    return Bert(Config())


def bert_large() -> Bert:
    """Return BERT large: 335,141,888 parameters."""
    return Bert(Config(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096))


def minilm_l6() -> Bert:
    """Return an encoder with the sizes of all-MiniLM-L6-v2: 22,713,216 parameters."""
    return Bert(Config(hidden_size=384, num_hidden_layers=6, intermediate_size=1536))


if __name__ == "__main__":
    with mt.device("meta"):
        print(mt.analysis.estimate(bert_base(), mt.empty(1, 512, dtype=mt.int64)))
