"""The plan found is at least as fast as those that people make."""

import pytest

import metatensor as mt
from metatensor import nn
from metatensor.plan import Degrees
from plan.transformers_like import Decoder

HAND_MADE = [
    Degrees(8), Degrees(8, shard=1), Degrees(8, shard=3, recompute="full"), Degrees(4, tensor=2, sequence=True, shard=1),
    Degrees(1, tensor=8), Degrees(4, pipeline=2, shard=1), Degrees(2, 2, 2, sequence=True), Degrees(4, pipeline=2, schedule="ZBVZeroBubble",
    virtual_stages=2), Degrees(8, shard=2, micro_batch=3), Degrees(8, shard=2, micro_batch=6),
]  # fmt: skip


class Tables(nn.Module):
    """Embeddings that are larger than what computes with them."""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(n, 64) for n in (200_000, 300_000))
        self.top = nn.Linear(128, 1)

    def forward(self, features):
        return self.top(mt.cat([table(features[:, i]) for i, table in enumerate(self.tables)], 1))


def convolutions():
    return nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1), nn.ReLU())


CASES = {
    "decoder": (lambda: Decoder(depth=4), lambda: mt.empty(1, 64, dtype=mt.int64)),
    "convolutions": (convolutions, lambda: mt.empty(1, 3, 32, 32)),
    "tables": (Tables, lambda: mt.zeros(1, 2, dtype=mt.int64)),
}


def restricted(model, x, d, memory):
    """Return the plan of a search that may try nothing but these degrees."""
    return mt.plan.search(
        model, x, devices="8xH100", global_batch=48, max_memory=memory, tensor=[d.tensor], pipeline=[d.pipeline], shard=[d.shard],
        sequence=[d.sequence], micro_batches=[d.micro_batch], recompute=[d.recompute], context=[1], expert=[1], schedules=[d.schedule],
        virtual_stages=[d.virtual_stages],
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("memory", [80 * 2**30, None], ids=["much memory", "little memory"])
def test_no_hand_made_plan_is_faster(name, memory):
    with mt.device("meta"):
        model, x = (make() for make in CASES[name])
    if memory is None:
        memory = 2**20 + 14 * sum(p.numel() for p in model.parameters())
    best = mt.plan.search(model, x, devices="8xH100", global_batch=48, max_memory=memory, keep=3, recompute=["none", "full"]).best
    plans = [restricted(model, x, degrees, memory) for degrees in HAND_MADE]
    fits = [plan.best for plan in plans if plan.fits]
    assert fits or memory < 80 * 2**30
    assert best.peak <= memory
    assert all(best.seconds <= other.seconds * (1 + 1e-9) for other in fits)


def micro_batches(batch, memory, size=16):
    """Return the micro-batches that a search tries."""
    with mt.device("meta"):
        model, x = nn.Sequential(nn.Conv2d(3, 64, 3), nn.ReLU()), mt.empty(1, 3, size, size)
    plan = mt.plan.search(model, x, devices="4xH100", global_batch=batch, max_memory=memory, tensor=[1], keep=None)
    return sorted({one.degrees.micro_batch for one in [*plan.layouts, *plan.rejected]})


def test_micro_batches_are_as_large_as_memory_allows():
    assert micro_batches(4 * 128, 2**40) == [1, 2, 4, 8, 16, 32, 64, 128]
    assert micro_batches(4 * 24, 2**40) == [1, 2, 3, 4, 6, 8, 12, 24]
    assert micro_batches(4 * 2, 2**40) == [1, 2]
    few = micro_batches(4 * 128, 2**23)
    assert few[:4] == [1, 2, 4, 8] and few[-1] < 128


def test_micro_batches_given_are_the_only_ones():
    with mt.device("meta"):
        model, x = nn.Linear(64, 64), mt.empty(1, 64)
    plan = mt.plan.search(model, x, devices="4xH100", global_batch=60, micro_batches=[5, 15], keep=None)
    assert {one.degrees.micro_batch for one in plan.layouts} == {5, 15}
