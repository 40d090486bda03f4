"""The Sobol sequence, held against SciPy and against what scrambling must keep."""

import copy

import pytest
from scipy.stats import qmc

from metatensor.torch_api import torch

Engine = torch.quasirandom.SobolEngine


def test_the_sequence_is_scipys():
    engine, expected = Engine(5), qmc.Sobol(5, scramble=False).random(16)
    assert engine.draw(16, dtype=torch.float64).tolist() == expected.tolist() and engine.num_generated == 16
    assert engine.reset().draw_base2(3).dtype is torch.float32
    assert engine.fast_forward(2).draw(2, dtype=torch.float64).tolist() == expected[10:12].tolist()
    out = torch.empty(0)
    assert engine.reset().draw(2, out=out) is out and out.shape == (2, 5)


def test_scrambled_points_are_as_even():
    """Each of 64 equal intervals of each coordinate holds one of the first 64 points, before and after scrambling."""
    engine = Engine(7, scramble=True, seed=3)
    points = engine.draw(64, dtype=torch.float64)
    assert ((points * 64).long().sort(0).values == torch.arange(64)[:, None]).all() and (points != 0).all()
    assert torch.equal(Engine(7, scramble=True, seed=3).draw(64, dtype=torch.float64), points)
    assert not torch.equal(Engine(7, scramble=True, seed=4).draw(64, dtype=torch.float64), points)
    assert torch.equal(engine.reset().draw(64, dtype=torch.float64), points)
    later = copy.deepcopy(engine.reset().fast_forward(32))
    assert torch.equal(later.draw(32, dtype=torch.float64), points[32:])


def test_what_is_refused():
    with pytest.raises(ValueError, match="21201"):
        Engine(Engine.MAXDIM + 1)
    engine = Engine(2)
    engine.draw(3)
    with pytest.raises(ValueError, match="power of 2"):
        engine.draw_base2(1)
    assert repr(Engine(2, scramble=True, seed=1)) == "SobolEngine(dimension=2, scramble=True, seed=1)"
