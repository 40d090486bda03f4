"""Programs to draw, and a headless Chromium to draw them in."""

import pytest

import metatensor as mt
from metatensor import nn


class Attention(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.qkv, self.out = nn.Linear(n, 3 * n), nn.Linear(n, n)

    def forward(self, x, mask):
        q, k, v = self.qkv(x).chunk(3, -1)
        return self.out((q @ k.mT + mask).softmax(-1) @ v)


class Block(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(n), Attention(n)
        self.mlp = nn.Sequential(nn.Linear(n, 4 * n), nn.GELU(), nn.Linear(4 * n, n))

    def forward(self, x, mask):
        x = x + self.attention(self.norm(x), mask)
        return x + self.mlp(x)


class Model(nn.Module):
    def __init__(self, depth=12, n=16):
        super().__init__()
        self.embed, self.layers, self.head = nn.Embedding(100, n), nn.ModuleList([Block(n) for _ in range(depth)]), nn.Linear(n, 100)

    def forward(self, x, mask):
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(x)


def traced(depth=12, train=False):
    with mt.device("meta"):
        model, x, mask = Model(depth), mt.zeros(2, 8, dtype=mt.int64), mt.zeros(8, 8)
        if not train:
            with mt.no_grad():
                return mt.program.trace(model.eval(), x, mask)
        optimizer = mt.optim.AdamW(model.parameters())

    def step(x, mask):
        optimizer.zero_grad()
        loss = model(x, mask).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    step(x, mask)
    return mt.program.trace(step, x, mask)


@pytest.fixture(scope="session")
def program():
    return traced()


@pytest.fixture(scope="session")
def training():
    return traced(depth=2, train=True)
