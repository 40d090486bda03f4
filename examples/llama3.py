"""Llama 3 (8B, 70B) and Llama 3.1 (405B), from "The Llama 3 Herd of Models" (2024).

    metatensor estimate examples/llama3.py:llama3_70b --input "int64[1,8192]" --dtype bfloat16

A decoder of pre-norm blocks with RMS norm, grouped-query attention, rotary position embeddings and SwiGLU. Parameters
have the names that they have in the published safetensors files.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import metatensor as mt
from metatensor import nn
from metatensor.nn import functional as F


@dataclass(frozen=True)
class RopeScaling:
    """Scaling of low rotary frequencies for longer contexts in Llama 3.1. The defaults are the published values."""

    factor: float = 8.0
    low: float = 1.0
    high: float = 4.0
    trained_context: int = 8192


@dataclass(frozen=True)
class Config:
    """Sizes of a model. The defaults are those of the 8B model."""

    layers: int = 32
    heads: int = 32
    kv_heads: int = 8
    width: int = 4096
    hidden: int = 14336
    vocabulary: int = 128256
    norm_eps: float = 1e-5
    rope_theta: float = 500000.0
    rope_scaling: RopeScaling | None = None

    @property
    def head_width(self) -> int:
        return self.width // self.heads


def inverse_frequencies(config: Config) -> list[float]:
    """Return the rotation per position, in radians, of each pair of dimensions of a head.

    They are Python floats and not a buffer, so that they have values even if the model is built on meta.
    """
    count = config.head_width // 2
    plain = [config.rope_theta ** (-i / count) for i in range(count)]
    scaling = config.rope_scaling
    if scaling is None:
        return plain
    stretched = []
    for frequency in plain:
        turns = scaling.trained_context * frequency / (2 * math.pi)
        share = min(1.0, max(0.0, (turns - scaling.low) / (scaling.high - scaling.low)))
        stretched.append(frequency * (share + (1 - share) / scaling.factor))
    return stretched


def rotations(config: Config, length: int, like: mt.Tensor) -> tuple[mt.Tensor, mt.Tensor]:
    """Return cosines and sines (length, head width) of all positions, like `like` in dtype and device. All blocks use the same."""
    frequencies = mt.tensor(inverse_frequencies(config), dtype=mt.float32, device=like.device)
    positions = mt.arange(length, dtype=mt.float32, device=like.device)
    angles = mt.outer(positions, frequencies)
    angles = mt.cat((angles, angles), -1)
    return angles.cos().to(like.dtype), angles.sin().to(like.dtype)


def rotate(x: mt.Tensor, cos: mt.Tensor, sin: mt.Tensor) -> mt.Tensor:
    """Rotate each pair (i, i + half) of the last dimension by the angle of its position."""
    first, second = x.chunk(2, -1)
    return x * cos + mt.cat((-second, first), -1) * sin


class Attention(nn.Module):
    """Causal self-attention in which several query heads share one key and value head."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.head_width = config.head_width
        kv_width = config.kv_heads * config.head_width
        self.q_proj = nn.Linear(config.width, config.width, bias=False)
        self.k_proj = nn.Linear(config.width, kv_width, bias=False)
        self.v_proj = nn.Linear(config.width, kv_width, bias=False)
        self.o_proj = nn.Linear(config.width, config.width, bias=False)

    def forward(self, x: mt.Tensor, cos: mt.Tensor, sin: mt.Tensor) -> mt.Tensor:
        batch, length, _ = x.shape
        q = self.q_proj(x).view(batch, length, -1, self.head_width).transpose(1, 2)
        k = self.k_proj(x).view(batch, length, -1, self.head_width).transpose(1, 2)
        v = self.v_proj(x).view(batch, length, -1, self.head_width).transpose(1, 2)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o_proj(y.transpose(1, 2).reshape(batch, length, -1))


class MLP(nn.Module):
    """SwiGLU: the product of silu(gate) and the up projection, projected back to the width of the model."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.width, config.hidden, bias=False)
        self.up_proj = nn.Linear(config.width, config.hidden, bias=False)
        self.down_proj = nn.Linear(config.hidden, config.width, bias=False)

    def forward(self, x: mt.Tensor) -> mt.Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    """Attention and MLP, each applied to the normalised input and added to it."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.self_attn = Attention(config)
        self.mlp = MLP(config)
        self.input_layernorm = nn.RMSNorm(config.width, eps=config.norm_eps)
        self.post_attention_layernorm = nn.RMSNorm(config.width, eps=config.norm_eps)

    def forward(self, x: mt.Tensor, cos: mt.Tensor, sin: mt.Tensor) -> mt.Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    """Compute the normalised output of the last block from token ids."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocabulary, config.width)
        self.layers = nn.ModuleList([Block(config) for _ in range(config.layers)])
        self.norm = nn.RMSNorm(config.width, eps=config.norm_eps)

    def forward(self, tokens: mt.Tensor) -> mt.Tensor:
        x = self.embed_tokens(tokens)
        cos, sin = rotations(self.config, tokens.shape[1], x)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.norm(x)


class Llama3(nn.Module):
    """A language model: token ids (batch, length), int64, to logits (batch, length, vocabulary)."""

    def __init__(self, config: Config = Config()) -> None:
        super().__init__()
        self.config = config
        self.model = Decoder(config)
        self.lm_head = nn.Linear(config.width, config.vocabulary, bias=False)

    def forward(self, tokens: mt.Tensor) -> mt.Tensor:
        return self.lm_head(self.model(tokens))


def llama3_8b() -> Llama3:
    """Return the 8B model: 8,030,261,248 parameters."""
    return Llama3(Config())


def llama3_70b() -> Llama3:
    """Return the 70B model: 70,553,706,496 parameters."""
    return Llama3(Config(layers=80, heads=64, width=8192, hidden=28672))


def llama3_405b() -> Llama3:
    """Return the 405B model of release 3.1, with scaled rotary frequencies: 405,853,388,800 parameters."""
    return Llama3(Config(layers=126, heads=128, width=16384, hidden=53248, rope_scaling=RopeScaling()))


if __name__ == "__main__":
    with mt.device("meta"):
        print(mt.analysis.estimate(llama3_405b(), mt.empty(1, 8192, dtype=mt.int64)))
