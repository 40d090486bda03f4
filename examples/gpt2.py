"""GPT-2 (124M to 1.5B parameters), from "Language Models are Unsupervised Multitask Learners" (Radford et al., 2019).

    metatensor estimate examples/gpt2.py:gpt2_xl --input "int64[1,1024]"

A decoder of pre-norm blocks with learned position embeddings and causal attention. The output projection shares its
weight with the token embedding. Linear weights are stored as ``(out, in)``, as in `nn.Linear`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import metatensor as mt
from metatensor import nn
from metatensor.nn import functional as F


@dataclass(frozen=True)
class Config:
    """Sizes of a model. The defaults are those of the smallest model."""

    layers: int = 12
    heads: int = 12
    width: int = 768
    context: int = 1024
    vocabulary: int = 50257
    dropout: float = 0.1
    norm_eps: float = 1e-5


class Attention(nn.Module):
    """Causal self-attention with one projection for queries, keys and values."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        if config.width % config.heads:
            raise ValueError(f"width {config.width} is not divisible by {config.heads} heads")
        self.heads = config.heads
        self.dropout = config.dropout
        self.c_attn = nn.Linear(config.width, 3 * config.width)
        self.c_proj = nn.Linear(config.width, config.width)

    def forward(self, x: mt.Tensor) -> mt.Tensor:
        batch, length, width = x.shape
        qkv = self.c_attn(x).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        return self.c_proj(y.transpose(1, 2).reshape(batch, length, width))


class MLP(nn.Module):
    """Two linear layers with a GELU (tanh approximation) between them. The inner width is four times the outer one."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.c_fc = nn.Linear(config.width, 4 * config.width)
        self.c_proj = nn.Linear(4 * config.width, config.width)

    def forward(self, x: mt.Tensor) -> mt.Tensor:
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    """Attention and MLP, each applied to the normalised input and added to it."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.width, eps=config.norm_eps)
        self.attn = Attention(config)
        self.ln_2 = nn.LayerNorm(config.width, eps=config.norm_eps)
        self.mlp = MLP(config)
        self.drop = nn.Dropout(config.dropout)

    def forward(self, x: mt.Tensor) -> mt.Tensor:
        x = x + self.drop(self.attn(self.ln_1(x)))
        return x + self.drop(self.mlp(self.ln_2(x)))


class GPT2(nn.Module):
    """A language model: token ids (batch, length), int64, to logits (batch, length, vocabulary)."""

    def __init__(self, config: Config = Config()) -> None:
        super().__init__()
        self.config = config
        self.wte = nn.Embedding(config.vocabulary, config.width)
        self.wpe = nn.Embedding(config.context, config.width)
        self.drop = nn.Dropout(config.dropout)
        self.h = nn.ModuleList([Block(config) for _ in range(config.layers)])
        self.ln_f = nn.LayerNorm(config.width, eps=config.norm_eps)
        self.lm_head = nn.Linear(config.width, config.vocabulary, bias=False)
        self.lm_head.weight = self.wte.weight
        self.init_weights()

    def init_weights(self) -> None:
        """Initialise weights with standard deviation 0.02, projections into the residual stream with less, and biases with 0."""
        residual = 0.02 / math.sqrt(2 * self.config.layers)
        nn.init.normal_(self.wte.weight, std=0.02)
        nn.init.normal_(self.wpe.weight, std=0.02)
        for block in self.h:
            for layer in (block.attn.c_attn, block.mlp.c_fc):
                nn.init.normal_(layer.weight, std=0.02)
                nn.init.zeros_(layer.bias)
            for layer in (block.attn.c_proj, block.mlp.c_proj):
                nn.init.normal_(layer.weight, std=residual)
                nn.init.zeros_(layer.bias)

    def forward(self, tokens: mt.Tensor) -> mt.Tensor:
        length = tokens.shape[1]
        if length > self.config.context:
            raise ValueError(f"{length} tokens are more than the context of {self.config.context}")
        positions = mt.arange(length, device=tokens.device)
        x = self.drop(self.wte(tokens) + self.wpe(positions))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


def gpt2() -> GPT2:
    """Return the smallest model: 124,439,808 parameters."""
    return GPT2(Config())


def gpt2_medium() -> GPT2:
    """Return the medium model: 354,823,168 parameters."""
    return GPT2(Config(layers=24, heads=16, width=1024))


def gpt2_large() -> GPT2:
    """Return the large model: 774,030,080 parameters."""
    return GPT2(Config(layers=36, heads=20, width=1280))


def gpt2_xl() -> GPT2:
    """Return the XL model: 1,557,611,200 parameters."""
    return GPT2(Config(layers=48, heads=25, width=1600))


if __name__ == "__main__":
    with mt.device("meta"):
        print(mt.analysis.estimate(gpt2(), mt.empty(1, 1024, dtype=mt.int64)))
