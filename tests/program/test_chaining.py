"""`chain`: parts that take what the one before returns."""

import pytest

import metatensor as mt
from metatensor import nn
from metatensor.program.passes.chaining import chain, crossing_bytes, hazards

pytest.importorskip("metatensor_cpu")


class Skipping(nn.Module):
    """Values that skip parts, random numbers, and results that are made early."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x, y):
        a = self.first(x)
        b = nn.functional.dropout(a, 0.5).tanh()
        c = nn.functional.dropout(b * 2, 0.5)
        return self.last(c) + a, y, self.last.bias, a


def test_any_division_computes_the_same():
    mt.manual_seed(0)
    model, x, y = Skipping(), mt.randn(3, 4), mt.randn(2)
    program = mt.program.trace(model, x, y)
    mt.manual_seed(1)
    expected = program(x, y)
    bad = hazards(program)
    assert {program.calls[i].op.name for i in bad.values()} == {"bernoulli_", "div_"}
    good = [i for i in range(1, len(program.calls)) if i not in bad]
    for starts in ([], good[:1], good[1::2], good):
        parts = mt.program.chain(program, starts)
        assert len(parts) == len(starts) + 1 and sum(map(len, parts)) == len(program)
        mt.manual_seed(1)
        found = (x, y)
        for part in parts:
            found = part(*found)
        assert all(mt.equal(a, b) for a, b in zip(found, expected))


def test_bytes_that_cross():
    program = mt.program.trace(lambda x: (x.exp() + x).sum(), mt.ones(5))
    assert [call.op.name for call in program.calls] == ["exp", "add", "sum"]
    assert crossing_bytes(program) == [20, 40, 20, 4] and hazards(program) == {}
    changing = mt.program.trace(lambda x: x.exp().add_(1).sum(), mt.ones(5))
    assert hazards(changing) == {1: 1}


def test_what_is_refused():
    model, x = nn.Linear(3, 3), mt.ones(2, 3)
    program = mt.program.trace(model, x)
    with pytest.raises(ValueError, match=r"parts must begin with calls 1 to 0, got \[1\]"):
        chain(program, [1])
    with pytest.raises(ValueError, match="has a backward pass; trace the forward pass"):
        chain(mt.program.trace(lambda x: model(x).sum().backward(), x), [1])
