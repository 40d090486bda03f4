"""Conventions of MFU, by hand."""

import pytest

import metatensor as mt
from metatensor.analysis.utilization import CONVENTIONS, batch_of, model_flops


class Decoder(mt.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = mt.nn.Embedding(100, 16)
        self.layers = mt.nn.ModuleList([mt.nn.Linear(16, 16) for _ in range(3)])

    def forward(self, tokens):
        x = self.words(tokens)
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.fixture
def decoder():
    with mt.device("meta"):
        return Decoder(), (mt.empty(2, 5, dtype=mt.int64),)


def test_formulas(decoder):
    model, inputs = decoder
    n = 100 * 16 + 3 * (16 * 16 + 16)
    assert model_flops("torch", model, inputs, 60, True) == (60.0, "")
    assert model_flops("macs", model, inputs, 60, True) == (30.0, "")
    assert model_flops("6nd", model, inputs, 60, True) == (6.0 * n * 10, "")
    assert model_flops("6nd", model, inputs, 60, False)[0] == pytest.approx(2.0 * n * 10)
    # Layer by layer: 24 B s h^2 + 4 B s^2 h forward, 2 B s h V for the logits, and twice that backward.
    forward = 3 * (24 * 2 * 5 * 16**2 + 4 * 2 * 5**2 * 16) + 2 * 2 * 5 * 16 * 100
    assert model_flops("megatron", model, inputs, 60, True)[0] == pytest.approx(3 * forward)


def test_what_cannot_be_counted_is_unknown():
    with mt.device("meta"):
        model, x = mt.nn.Linear(4, 4), mt.empty(2, 4)
    for convention in ("6nd", "megatron"):
        value, why = model_flops(convention, model, (x,), 1, True)
        assert value is None and "tokens" in why
    value, why = model_flops("megatron", model, (mt.empty(2, 4, dtype=mt.int64, device="meta"),), 1, True)
    assert value is None and "equal layers" in why
    time = mt.analysis.estimate_training(model, x, device="h100-80gb", convention="6nd").time
    assert time.mfu is None and time.seconds and "unknown" in str(time)


def test_conventions_are_documented():
    for name, convention in CONVENTIONS.items():
        assert convention.name == name and convention.formula and convention.source and convention.leaves_out


def test_batch():
    assert batch_of(((mt.empty(3, 2, device="meta"),), {})) == 3
    assert batch_of(((2, "text"), {})) is None
