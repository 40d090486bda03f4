"""The example that trains a model of characters."""

import math

import pytest

import metatensor as mt
from metatensor.plugins import device_types

pytestmark = pytest.mark.slow

pytest.importorskip("pydoc_data.topics")


@pytest.fixture
def characters(example):
    if "cpu" not in device_types():
        pytest.skip("the cpu plugin is not installed")
    return example("characters")


def test_the_loss_falls(characters, capsys):
    losses = characters.main(60)
    assert losses[0] == pytest.approx(math.log(101), abs=0.5)
    assert sum(losses[-10:]) / 10 < 3.2
    out, err = capsys.readouterr()
    assert "The loss fell from 4." in out and "guessing costs" in out and "AdamW's state" in out
    assert f"[{'#' * 40}] 60/60" in err and f"[{'.' * 40}] 1/60" in err


def test_the_step_on_meta_has_the_sizes_of_the_step_on_cpu(characters):
    sizes = []
    for device in ("meta", "cpu"):
        model = characters.Writer(20).to(device)
        optimizer = mt.optim.AdamW(model.parameters())
        characters.step(model, optimizer, mt.zeros(4, characters.CONTEXT + 1, dtype=mt.int64, device=device))
        sizes.append([(name, p.grad.shape, p.grad.stride(), optimizer.state[p]["exp_avg"].shape)
                      for name, p in model.named_parameters()])  # fmt: skip
    assert sizes[0] == sizes[1]


@pytest.mark.slow
def test_what_it_learns(characters):
    losses = characters.main()
    assert sum(losses[-20:]) / 20 < 1.95
