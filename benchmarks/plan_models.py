"""Models for plans, as plain code: a mixture of experts with grouped or latent attention, transformers of images, a wide ResNet, a
state-space model, and a recommender. Sizes are those of the publications that each function names."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import metatensor as mt
from metatensor import nn
from metatensor.distributed.tensor import DTensor
from metatensor.nn import functional as F

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
import llama3

# Mixtures of experts --------------------------------------------------------------------------------


class Experts(nn.Module):
    """Gated feed-forward networks, for tokens in the order of their experts."""

    def __init__(self, number: int, width: int, hidden: int) -> None:
        super().__init__()
        self.w1, self.w3 = (nn.Parameter(mt.empty(number, hidden, width)) for _ in range(2))
        self.w2 = nn.Parameter(mt.empty(number, width, hidden))

    def forward(self, tokens: Any, counts: Any) -> Any:
        w1, w2, w3 = (one.to_local() if isinstance(one, DTensor) else one for one in (self.w1, self.w2, self.w3))
        ends = counts.cumsum(0, dtype=mt.int32)
        hidden = F.silu(F.grouped_mm(tokens, w1.mT, offs=ends)) * F.grouped_mm(tokens, w3.mT, offs=ends)
        return F.grouped_mm(hidden, w2.mT, offs=ends)


class Mixture(nn.Module):
    """Each token goes to the experts with the highest scores, and to one that all tokens share."""

    def __init__(self, width: int, hidden: int, number: int, active: int, shared: int = 0) -> None:
        super().__init__()
        self.active, self.gate = active, nn.Linear(width, number, bias=False)
        self.experts = Experts(number, width, hidden)
        self.shared = Gated(width, shared) if shared else None

    def forward(self, x: Any) -> Any:
        tokens = x.flatten(0, 1)
        scores, chosen = self.gate(tokens).softmax(-1).topk(self.active)
        counts = (chosen.reshape(-1, 1) == mt.arange(self.gate.out_features, device=x.device)).sum(0)
        order = chosen.flatten().argsort(stable=True)
        rows = order // self.active
        out = self.experts(tokens.index_select(0, rows), counts) * scores.flatten().index_select(0, order).unsqueeze(1)
        out = mt.zeros_like(tokens).index_add(0, rows, out).view_as(x)
        return out if self.shared is None else out + self.shared(x)


class Gated(nn.Module):
    """SwiGLU."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.w1, self.w3 = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.w2 = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Any) -> Any:
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class GroupedAttention(nn.Module):
    """Causal attention with fewer heads of keys than of queries, without positions."""

    def __init__(self, width: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        self.size = width // heads
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, kv_heads * self.size, bias=False) for _ in range(2))

    def forward(self, x: Any) -> Any:
        q, k, v = (one(x).unflatten(-1, (-1, self.size)).transpose(1, 2) for one in (self.q, self.k, self.v))
        return self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).transpose(1, 2).flatten(2))


class LatentAttention(nn.Module):
    """Attention whose queries, keys and values come from low-rank latents, as in DeepSeek-V2, with a rotary part that heads share."""

    def __init__(self, width: int, heads: int, q_rank: int, kv_rank: int, nope: int = 128, rope: int = 64, value: int = 128) -> None:
        super().__init__()
        self.heads, self.nope, self.rope, self.value = heads, nope, rope, value
        self.q_down, self.q_norm = nn.Linear(width, q_rank, bias=False), nn.RMSNorm(q_rank)
        self.q_up = nn.Linear(q_rank, heads * (nope + rope), bias=False)
        self.kv_down, self.k_rope = nn.Linear(width, kv_rank, bias=False), nn.Linear(width, rope, bias=False)
        self.kv_norm = nn.RMSNorm(kv_rank)
        self.k_up, self.v_up = nn.Linear(kv_rank, heads * nope, bias=False), nn.Linear(kv_rank, heads * value, bias=False)
        self.o = nn.Linear(heads * value, width, bias=False)

    def forward(self, x: Any) -> Any:
        q = self.q_up(self.q_norm(self.q_down(x))).unflatten(-1, (-1, self.nope + self.rope)).transpose(1, 2)
        latent = self.kv_norm(self.kv_down(x))
        k, v = (up(latent).unflatten(-1, (-1, size)).transpose(1, 2) for up, size in ((self.k_up, self.nope), (self.v_up, self.value)))
        shared = self.k_rope(x).unsqueeze(1).expand(-1, k.shape[1], -1, -1)
        out = F.scaled_dot_product_attention(q, mt.cat([k, shared], -1), v, is_causal=True)
        return self.o(out.transpose(1, 2).flatten(2))


class SparseBlock(nn.Module):
    """Attention and a mixture of experts, or a dense network."""

    def __init__(self, width: int, attention: nn.Module, network: nn.Module) -> None:
        super().__init__()
        self.first, self.second = nn.RMSNorm(width), nn.RMSNorm(width)
        self.attention, self.network = attention, network

    def forward(self, x: Any) -> Any:
        x = x + self.attention(self.first(x))
        return x + self.network(self.second(x))


class Decoder(nn.Module):
    """Tokens to logits."""

    def __init__(self, vocabulary: int, width: int, blocks: list[nn.Module]) -> None:
        super().__init__()
        self.embed, self.layers = nn.Embedding(vocabulary, width), nn.ModuleList(blocks)
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Any) -> Any:
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def mixtral(layers: int = 32, width: int = 4096, heads: int = 32, kv_heads: int = 8, hidden: int = 14336, number: int = 8) -> nn.Module:
    """Mixtral 8x7B (Jiang et al. 2024)."""
    return Decoder(32000, width, [SparseBlock(width, GroupedAttention(width, heads, kv_heads), Mixture(width, hidden, number, 2))
                                  for _ in range(layers)])  # fmt: skip


def deepseek_v3(layers: int = 61, dense: int = 3, width: int = 7168, heads: int = 128, number: int = 256) -> nn.Module:
    """DeepSeek-V3 (2024), without multi-token prediction."""
    return Decoder(129280, width, [
        SparseBlock(width, LatentAttention(width, heads, 1536, 512),
                    Gated(width, 18432) if i < dense else Mixture(width, 2048, number, 8, 2048)) for i in range(layers)])  # fmt: skip


# Images ---------------------------------------------------------------------------------------------


class ImageBlock(nn.Module):
    """A transformer block; with ``condition``, normalization is scaled, shifted and gated by a vector, as in DiT."""

    def __init__(self, width: int, heads: int, hidden: int, condition: bool = False) -> None:
        super().__init__()
        self.size = width // heads
        self.first, self.second = (nn.LayerNorm(width, elementwise_affine=not condition) for _ in range(2))
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.modulation = nn.Linear(width, 6 * width) if condition else None

    def attention(self, x: Any) -> Any:
        q, k, v = (one(x).unflatten(-1, (-1, self.size)).transpose(1, 2) for one in (self.q, self.k, self.v))
        return self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

    def forward(self, x: Any, condition: Any = None) -> Any:
        if self.modulation is None:
            x = x + self.attention(self.first(x))
            return x + self.down(F.gelu(self.up(self.second(x))))
        a, b, c, d, e, f = self.modulation(F.silu(condition)).unsqueeze(1).chunk(6, -1)
        x = x + c * self.attention(self.first(x) * (1 + a) + b)
        return x + f * self.down(F.gelu(self.up(self.second(x) * (1 + d) + e)))


class VisionTransformer(nn.Module):
    """Images to classes."""

    def __init__(self, layers: int, width: int, heads: int, hidden: int, size: int, patch: int, classes: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.places = nn.Parameter(mt.empty(1, (size // patch) ** 2, width))
        self.layers = nn.ModuleList(ImageBlock(width, heads, hidden) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, images: Any) -> Any:
        x = self.patches(images).flatten(2).transpose(1, 2) + self.places
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x).mean(1))


def vit_2b() -> nn.Module:
    """ViT-G/14 (Zhai et al. 2022), 1.8 billion parameters."""
    return VisionTransformer(48, 1664, 16, 8192, 224, 14, 1000)


class DiffusionTransformer(nn.Module):
    """Noisy latents, times and labels to noise."""

    def __init__(self, layers: int, width: int, heads: int, size: int, patch: int, channels: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(channels, width, patch, patch)
        self.places = nn.Parameter(mt.empty(1, (size // patch) ** 2, width))
        self.time, self.label = nn.Sequential(nn.Linear(256, width), nn.SiLU(), nn.Linear(width, width)), nn.Embedding(1001, width)
        self.layers = nn.ModuleList(ImageBlock(width, heads, 4 * width, True) for _ in range(layers))
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, patch * patch * 2 * channels)

    def forward(self, latents: Any, times: Any, labels: Any) -> Any:
        x = self.patches(latents).flatten(2).transpose(1, 2) + self.places
        condition = self.time(times) + self.label(labels)
        for layer in self.layers:
            x = layer(x, condition)
        return self.out(self.norm(x))


def dit() -> nn.Module:
    """DiT-XL/2 (Peebles, Xie 2023) for images of 512 x 512."""
    return DiffusionTransformer(28, 1152, 16, 64, 2, 4)


class Bottleneck(nn.Module):
    """A residual block of three convolutions."""

    def __init__(self, inputs: int, middle: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(inputs, middle, 1, bias=False), nn.BatchNorm2d(middle)
        self.conv2, self.norm2 = nn.Conv2d(middle, middle, 3, stride, 1, bias=False), nn.BatchNorm2d(middle)
        self.conv3, self.norm3 = nn.Conv2d(middle, outputs, 1, bias=False), nn.BatchNorm2d(outputs)
        self.skip = nn.Identity()
        if stride > 1 or inputs != outputs:
            self.skip = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Any) -> Any:
        y = F.relu(self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x))))))
        return F.relu(self.norm3(self.conv3(y)) + self.skip(x))


class WideResNet(nn.Module):
    """Images to classes."""

    def __init__(self, base: int, factor: int, counts: tuple[int, ...] = (3, 4, 6, 3), classes: int = 1024) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, base, 7, 2, 3, bias=False), nn.BatchNorm2d(base), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        inputs, groups = base, []
        for i, count in enumerate(counts):
            blocks = []
            for j in range(count):
                blocks.append(Bottleneck(inputs, base * 2**i * factor, 4 * base * 2**i, 2 if i and not j else 1))
                inputs = 4 * base * 2**i
            groups.append(nn.Sequential(*blocks))
        self.group1, self.group2, self.group3, self.group4 = groups
        self.head = nn.Linear(inputs, classes)

    def forward(self, images: Any) -> Any:
        x = self.stem(images)
        for group in (self.group1, self.group2, self.group3, self.group4):
            x = group(x)
        return self.head(x.mean((2, 3)))


def wide_resnet() -> nn.Module:
    """The Wide-ResNet of Alpa (Zheng et al. 2022) with one billion parameters: 50 layers, 320 channels, factor 2."""
    return WideResNet(320, 2)


# State spaces and recommendation --------------------------------------------------------------------


class StateSpaceBlock(nn.Module):
    """The block of Mamba-2, with the state-space dual form in chunks (Dao, Gu 2024)."""

    def __init__(self, width: int, state: int = 128, size: int = 64, chunk: int = 256) -> None:
        super().__init__()
        self.inner, self.state, self.size, self.chunk = 2 * width, state, size, chunk
        self.heads = self.inner // size
        self.norm, self.gated = nn.RMSNorm(width), nn.RMSNorm(self.inner)
        self.x, self.z = nn.Linear(width, self.inner, bias=False), nn.Linear(width, self.inner, bias=False)
        self.bc, self.dt = nn.Linear(width, 2 * state, bias=False), nn.Linear(width, self.heads, bias=False)
        self.conv = nn.Conv1d(self.inner, self.inner, 4, padding=3, groups=self.inner)
        self.decay, self.skip = nn.Parameter(mt.empty(self.heads)), nn.Parameter(mt.empty(self.heads))
        self.out = nn.Linear(self.inner, width, bias=False)

    def forward(self, x: Any) -> Any:
        batch, length, _ = x.shape
        y = self.norm(x)
        z, steps = self.z(y), F.softplus(self.dt(y))
        values = F.silu(self.conv(self.x(y).transpose(1, 2))[..., :length]).transpose(1, 2)
        values = values.reshape(batch, -1, self.chunk, self.heads, self.size)
        b, c = self.bc(y).reshape(batch, -1, self.chunk, 2 * self.state).chunk(2, -1)
        rates = (steps * -self.decay.exp()).reshape(batch, -1, self.chunk, self.heads).transpose(2, 3).cumsum(-1)
        within = (rates.unsqueeze(-1) - rates.unsqueeze(-2)).tril().exp() * (c @ b.mT).unsqueeze(2)
        values = values.transpose(2, 3)
        inside = within @ values
        decays = (rates[..., -1:] - rates).exp().unsqueeze(-1)
        states = b.mT.unsqueeze(2) @ (values * decays)
        passed = states.cumsum(1) - states
        across = (c.unsqueeze(2) @ passed) * rates.exp().unsqueeze(-1)
        out = (inside + across + values * self.skip.view(-1, 1, 1)).transpose(2, 3).reshape(batch, length, self.inner)
        return x + self.out(self.gated(out * F.silu(z)))


def mamba2() -> nn.Module:
    """Mamba-2 with 2.7 billion parameters."""
    return Decoder(50288, 2560, [StateSpaceBlock(2560) for _ in range(64)])


class Recommender(nn.Module):
    """DLRM (Naumov et al. 2019): embeddings of features, dense features, and their products."""

    def __init__(self, rows: tuple[int, ...], width: int, dense: int = 13) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(n, width) for n in rows)
        self.bottom = _mlp(dense, 512, 256, width)
        self.top = _mlp(width + len(rows) * (len(rows) + 1) // 2, 1024, 1024, 512, 256, 1)

    def forward(self, dense: Any, features: Any) -> Any:
        x = self.bottom(dense)
        every = mt.stack([x, *(table(features[:, i]) for i, table in enumerate(self.tables))], 1)
        products = (every @ every.mT).flatten(1)[:, : (len(self.tables) + 1) * len(self.tables) // 2]
        return self.top(mt.cat([x, products], 1))


def _mlp(*sizes: int) -> nn.Module:
    parts: list[nn.Module] = []
    for i, (a, b) in enumerate(zip(sizes, sizes[1:], strict=False)):
        parts += [nn.Linear(a, b), *([nn.ReLU()] if i + 2 < len(sizes) else [])]
    return nn.Sequential(*parts)


def recommender() -> nn.Module:
    """A DLRM with the tables of Criteo's terabyte data set, limited to 10 million rows as in MLPerf: 8.6 billion parameters."""
    rows = (9980333, 36084, 17217, 7378, 20134, 3, 7112, 1442, 61, 9758201, 1333352, 313829, 10, 2208, 11156, 122, 4, 970, 14, 9994222,
            7267859, 9946608, 415421, 12420, 101, 36)  # fmt: skip
    return Recommender(rows, 128)


# What is planned ------------------------------------------------------------------------------------


class Planned(NamedTuple):
    """A model with its inputs."""

    name: str
    made: Callable[[], nn.Module]
    inputs: Callable[[], tuple[Any, ...]]
    batch: dict[int, int]
    """Samples of a step by the number of devices."""
    loss: Callable[..., Any] | None = None


def next_token(output: Any, samples: int) -> Any:
    """Return the cross entropy of tokens."""
    return F.cross_entropy(output.flatten(0, 1), mt.empty(output.shape[0] * output.shape[1], dtype=mt.int64, device="meta"))


def classes(output: Any, samples: int) -> Any:
    """Return the cross entropy of images."""
    return F.cross_entropy(output, mt.empty(samples, dtype=mt.int64, device="meta"))


def _tokens(length: int) -> Callable[[], tuple[Any, ...]]:
    return lambda: (mt.empty(1, length, dtype=mt.int64),)


LANGUAGE = {8: 128, 64: 512, 512: 1024}
IMAGES = {8: 512, 64: 2048, 512: 8192}
MODELS = [
    Planned("Llama-3 8B", llama3.llama3_8b, _tokens(8192), LANGUAGE, next_token),
    Planned("Llama-3 70B", llama3.llama3_70b, _tokens(8192), LANGUAGE, next_token),
    Planned("Llama-3 405B", llama3.llama3_405b, _tokens(8192), LANGUAGE, next_token),
    Planned("DeepSeek-V3", deepseek_v3, _tokens(4096), {8: 256, 64: 1024, 512: 4096}, next_token),
    Planned("Mixtral 8x7B", mixtral, _tokens(4096), LANGUAGE, next_token),
    Planned("ViT-G/14", vit_2b, lambda: (mt.empty(1, 3, 224, 224),), IMAGES, classes),
    Planned("DiT-XL/2", dit, lambda: (mt.empty(1, 4, 64, 64), mt.empty(1, 256), mt.empty(1, dtype=mt.int64)), IMAGES),
    Planned("Wide ResNet", wide_resnet, lambda: (mt.empty(1, 3, 224, 224),), {8: 512, 64: 1536, 512: 4096}, classes),
    Planned("Mamba-2 2.7B", mamba2, _tokens(2048), LANGUAGE, next_token),
    Planned("DLRM", recommender, lambda: (mt.empty(1, 13), mt.empty(1, 26, dtype=mt.int64)), {8: 65536, 64: 65536, 512: 65536}),
]
