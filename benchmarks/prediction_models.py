"""Ten small models of different kinds, whose predicted and measured times `benchmarks.prediction` compares.

Each function returns a model and its inputs on the default device. Their steps take some milliseconds to some hundred
milliseconds with NumPy's kernels on one core.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import metatensor as mt
from metatensor import nn
from metatensor.nn import functional as F

from .models import example

__all__ = ["MODELS"]

Made = tuple[Any, tuple[Any, ...]]


def mlp() -> Made:
    """Three layers of 1024 units, batch 128."""
    model = nn.Sequential(nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
    return model, (mt.randn(128, 784),)


def lenet() -> Made:
    """LeNet-5 with ReLU and max pooling, batch 64 of 28 by 28."""
    model = nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip
    return model, (mt.randn(64, 1, 28, 28),)


class Residual(nn.Module):
    """The basic block of ResNet-18."""

    def __init__(self, width_in: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(width_in, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or width_in != width:
            self.shortcut = nn.Sequential(nn.Conv2d(width_in, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x: Any) -> Any:
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


def resnet18() -> Made:
    """ResNet-18, batch 4 of 64 by 64."""
    layers: list[Any] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    width = 64
    for stage, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Residual(width, stage, stride), Residual(stage, stage, 1)]
        width = stage
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))
    return model, (mt.randn(4, 3, 64, 64),)


class ViT(nn.Module):
    """A vision transformer: patches of 8, four layers of 192, three heads."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 192, 8, 8)
        self.position = nn.Parameter(mt.zeros(1, 65, 192))
        self.cls = nn.Parameter(mt.zeros(1, 1, 192))
        layer = [nn.TransformerEncoderLayer(192, 3, 768, 0.0, "gelu", batch_first=True, norm_first=True) for _ in range(4)]
        self.layers, self.norm, self.head = nn.Sequential(*layer), nn.LayerNorm(192), nn.Linear(192, 100)

    def forward(self, x: Any) -> Any:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = mt.cat([self.cls.expand(x.shape[0], -1, -1), x], 1) + self.position
        return self.head(self.norm(self.layers(x))[:, 0])


def vit() -> Made:
    """A small vision transformer, batch 8 of 64 by 64."""
    return ViT(), (mt.randn(8, 3, 64, 64),)


class Encoder(nn.Module):
    """The architecture of MiniLM: six layers of 384 after layer norm, twelve heads."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places, self.norm = nn.Embedding(8192, 384), nn.Embedding(512, 384), nn.LayerNorm(384)
        self.layers = nn.Sequential(*[nn.TransformerEncoderLayer(384, 12, 1536, 0.0, "gelu", batch_first=True) for _ in range(6)])

    def forward(self, tokens: Any) -> Any:
        x = self.norm(self.words(tokens) + self.places(mt.arange(tokens.shape[1], device=tokens.device)))
        return F.normalize(self.layers(x).mean(1), dim=-1)


def minilm() -> Made:
    """The architecture of MiniLM with a smaller vocabulary, batch 4 of 64 tokens."""
    return Encoder(), (mt.arange(256).remainder(97).view(4, 64),)


def gpt2() -> Made:
    """GPT-2 with four layers of 256 and 4096 tokens, batch 4 of 64 tokens."""
    module: Any = example("gpt2", "metatensor")
    model = module.GPT2(module.Config(layers=4, heads=4, width=256, context=128, vocabulary=4096, dropout=0.0))
    return model, (mt.arange(256).remainder(97).view(4, 64),)


class Recurrent(nn.Module):
    """Two layers of LSTM and a classifier of the last state."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.lstm, self.head = nn.Embedding(1000, 128), nn.LSTM(128, 256, 2, batch_first=True), nn.Linear(256, 10)

    def forward(self, tokens: Any) -> Any:
        return self.head(self.lstm(self.embedding(tokens))[0][:, -1])


def lstm() -> Made:
    """Two LSTM layers of 256, batch 16 of 64 tokens."""
    return Recurrent(), (mt.arange(1024).remainder(97).view(16, 64),)


def _twice(width_in: int, width: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(width_in, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
                         nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU())  # fmt: skip


class UNet(nn.Module):
    """Three levels with skip connections, up by transposed convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([_twice(3, 16), _twice(16, 32), _twice(32, 64)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(64, 32, 2, 2), nn.ConvTranspose2d(32, 16, 2, 2)])
        self.join, self.head = nn.ModuleList([_twice(64, 32), _twice(32, 16)]), nn.Conv2d(16, 4, 1)

    def forward(self, x: Any) -> Any:
        first = self.down[0](x)
        second = self.down[1](F.max_pool2d(first, 2))
        x = self.down[2](F.max_pool2d(second, 2))
        for skip, up, join in zip((second, first), self.up, self.join, strict=True):
            x = join(mt.cat([up(x), skip], 1))
        return self.head(x)


def unet() -> Made:
    """A small U-Net, batch 2 of 64 by 64."""
    return UNet(), (mt.randn(2, 3, 64, 64),)


class Mixing(nn.Module):
    """A layer of MLP-Mixer: an MLP over tokens, and one over channels."""

    def __init__(self, tokens: int, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.tokens = nn.Sequential(nn.Linear(tokens, 128), nn.GELU(), nn.Linear(128, tokens))
        self.channels = nn.Sequential(nn.Linear(width, 1024), nn.GELU(), nn.Linear(1024, width))

    def forward(self, x: Any) -> Any:
        x = x + self.tokens(self.first(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.second(x))


class Mixer(nn.Module):
    """MLP-Mixer with patches of 8 and four layers of 256."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.layers = nn.Conv2d(3, 256, 8, 8), nn.Sequential(*[Mixing(64, 256) for _ in range(4)])
        self.norm, self.head = nn.LayerNorm(256), nn.Linear(256, 100)

    def forward(self, x: Any) -> Any:
        return self.head(self.norm(self.layers(self.patches(x).flatten(2).transpose(1, 2))).mean(1))


def mixer() -> Made:
    """A small MLP-Mixer, batch 8 of 64 by 64."""
    return Mixer(), (mt.randn(8, 3, 64, 64),)


class DLRM(nn.Module):
    """Embedding tables, a bottom MLP, dot products of all pairs, a top MLP."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList([nn.EmbeddingBag(2000, 64, mode="sum") for _ in range(8)])
        self.bottom = nn.Sequential(nn.Linear(13, 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(64 + 81, 256), nn.ReLU(), nn.Linear(256, 1), nn.Sigmoid())

    def forward(self, dense: Any, *sparse: Any) -> Any:
        x = self.bottom(dense)
        rows = mt.stack([x, *(table(index) for table, index in zip(self.tables, sparse, strict=True))], 1)
        pairs = mt.bmm(rows, rows.transpose(1, 2)).flatten(1)
        return self.top(mt.cat([x, pairs], 1))


def dlrm() -> Made:
    """A recommendation model with eight tables of 2000 rows, batch 256."""
    indices = [mt.arange(1024).remainder(1999).view(256, 4) for _ in range(8)]
    return DLRM(), (mt.randn(256, 13), *indices)


MODELS: dict[str, Callable[[], Made]] = {
    "MLP": mlp, "LeNet-5": lenet, "ResNet-18": resnet18, "ViT": vit, "MiniLM": minilm, "GPT-2": gpt2, "LSTM": lstm, "U-Net": unet,
    "MLP-Mixer": mixer, "DLRM": dlrm,
}  # fmt: skip
"""The functions by name."""
