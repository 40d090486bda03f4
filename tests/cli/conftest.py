"""Fixtures that run commands in this process, and a file of models for them."""

import sys
import textwrap

import pytest

MODELS = '''
import metatensor as mt
from metatensor import nn


class Net(nn.Module):
    def __init__(self, width=8, depth=2):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])

    def forward(self, x, scale=1.0, mask=None):
        for layer in self.layers:
            x = layer(x)
        return x * scale if mask is None else x * mask


class Broken(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 4)
        self.second = nn.Sequential(nn.ReLU(), nn.Linear(5, 2))

    def forward(self, x):
        return self.second(self.first(x))


def wide():
    return Net(width=64)


def cannot():
    raise ValueError("no such configuration")


def product(a, b):
    return a @ b


def squared(out):
    return out.square().sum()


def make_product():
    return product


class zoo:
    small = Net


model = Net()
number = 3


class Double(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x):
        return self.inner(x)
'''


@pytest.fixture
def models(tmp_path, monkeypatch):
    """A temporary folder with `models.py`, made the current one."""
    (tmp_path / "models.py").write_text(textwrap.dedent(MODELS))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run():
    """A function that runs a command: `run("estimate", ...)` returns click's result."""
    testing = pytest.importorskip("click.testing")
    pytest.importorskip("rich")
    from metatensor.cli.app import app

    def call(*args):
        return testing.CliRunner().invoke(app, list(args), prog_name="metatensor")

    yield call
    torch_api = sys.modules.get("metatensor.torch_api")
    if torch_api is not None:  # commands replace PyTorch for the rest of their process
        torch_api.uninstall()
