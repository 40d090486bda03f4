"""Load the examples as modules."""

import importlib
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def example(monkeypatch):
    """A function that loads an example: `example("gpt2")` returns its module."""
    monkeypatch.syspath_prepend(str(FOLDER))

    def load(name):
        return importlib.import_module(name)

    yield load
    for name in [name for name, module in sys.modules.items() if str(getattr(module, "__file__", "")).startswith(str(FOLDER))]:
        del sys.modules[name]
