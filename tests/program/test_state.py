"""Parameters and buffers of the modules that a traced callable refers to."""

import pytest

import metatensor as mt
from metatensor import nn


@pytest.fixture
def x():
    return mt.ones(4, 2, device="meta")


def linear(*sizes):
    with mt.device("meta"):
        return nn.Linear(*sizes)


def test_names_begin_with_the_class_where_there_are_several_modules(x):
    a, b = linear(2, 2), nn.Sequential(linear(2, 2))
    program = mt.program.trace(lambda x: b(a(x)), x)
    assert set(program.held) == {"Linear0.weight", "Linear0.bias", "Sequential1.0.weight", "Sequential1.0.bias"}
    assert set(program.kinds.values()) == {"parameter"}
    assert [program.modules[call.module] for call in program.calls] == ["Linear", "0"]


def test_further_names_of_a_tensor(x):
    shared = linear(2, 2)
    program = mt.program.trace(nn.Sequential(shared, nn.Sequential(shared)), x)
    assert set(program.held) == {"0.weight", "0.bias"}
    assert program.tied == {"1.0.weight": "0.weight", "1.0.bias": "0.bias"}


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", mt.zeros((), device="meta"))
        self.register_buffer("none", None)
        self.scale = mt.ones(2, device="meta")  # neither a parameter nor a buffer

    def forward(self, x):
        self.calls = self.calls + 1
        return x * self.scale


def test_buffers_that_are_replaced_and_constants(x):
    model = Counts()
    program = mt.program.trace(model, x)
    assert program.kinds == {"calls": "buffer", "constant0": "constant"}
    assert [(effect.kind, effect.name) for effect in program.effects] == [("replaced", "calls")]
    assert program.tensors["calls"] is model.calls and program.tensors["constant0"] is model.scale


def test_gradients_of_tied_parameters_are_one_effect(x):
    shared = linear(2, 2)
    model = nn.Sequential(shared, nn.Sequential(shared))
    program = mt.program.trace(lambda x: model(x).sum().backward(), x)
    assert sorted(effect.name for effect in program.effects) == ["0.bias", "0.weight"]
    again = mt.program.trace(lambda x: model(x), x)  # gradients that existed before are not an effect
    assert not again.effects


def test_a_module_that_contains_itself(x):
    model = nn.Sequential(nn.ReLU())
    model.append(model)
    with pytest.raises(RecursionError, match="contains itself"):
        mt.program.trace(lambda x: model[0](x), x)
