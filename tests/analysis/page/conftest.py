"""Reports to draw, and a headless Chromium to draw them in."""

import pytest

import metatensor as mt
from metatensor.analysis import estimate


class Attention(mt.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.qkv, self.out = mt.nn.Linear(n, 3 * n), mt.nn.Linear(n, n)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = q @ k.mT
        return self.out(scores.softmax(-1) @ v)


class Model(mt.nn.Module):
    def __init__(self, n=64, depth=6):
        super().__init__()
        self.layers = mt.nn.ModuleList([mt.nn.Sequential(mt.nn.LayerNorm(n), Attention(n)) for _ in range(depth)])
        self.head = mt.nn.Linear(n, 10)

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return self.head(x)


def report(depth=6, **options):
    with mt.device("meta"):
        model, x = Model(depth=depth), mt.empty(4, 512, 64)
    return estimate(model, x, timeline=True, **options)


@pytest.fixture(scope="session")
def training():
    return report(training=True, device="h100-80gb")


@pytest.fixture(scope="session")
def inference():
    return report()


@pytest.fixture(scope="session")
def browser(browser):
    """The Chromium, if Plotly is there as well."""
    pytest.importorskip("plotly", reason="Plotly is not installed")
    return browser
