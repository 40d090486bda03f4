"""The best layout is that of a brute force over the same space that is written differently."""

import random
from itertools import product

import pytest

import metatensor as mt
from metatensor import nn
from metatensor.distributed import pipelining
from metatensor.plan.candidates import Ranking
from metatensor.plan.costing import Coster
from metatensor.plan.layouts import Degrees
from metatensor.plan.schedules import run_times, table_of
from metatensor.plan.times import Impossible

SCHEDULES = {"GPipe": [1], "1F1B": [1], "Interleaved1F1B": [2], "InterleavedZeroBubble": [1, 2], "ZBVZeroBubble": [2]}


def model_of(rng):
    """Return a small model of random sizes."""
    width, layers = 64 * rng.choice([1, 2, 4]), rng.choice([2, 3, 4, 6])
    with mt.device("meta"):
        made = [nn.TransformerEncoderLayer(width, 4, width * rng.choice([2, 4]), dropout=0.0, batch_first=True) for _ in range(layers)]
        return nn.Sequential(*made), mt.empty(1, rng.choice([64, 128]), width)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(6, 50))])
def test_optimum(seed, monkeypatch):
    rng = random.Random(seed)
    model, x = model_of(rng)
    batch = rng.choice([8, 16, 24])
    kept = []
    monkeypatch.setattr(Coster, "__init__", lambda self, *args, _make=Coster.__init__: (kept.append(self), _make(self, *args))[1])
    settings = {
        "tensor": rng.choice([[1, 2], [1, 4], [2]]), "micro_batches": rng.choice([[1], [1, 2]]),
        "shard": rng.choice([[0, 3], [1, 2], [0, 1]]),
        "recompute": rng.choice([["none"], ["none", "full"]]), "sequence": [rng.random() < 0.5],
    }  # fmt: skip
    whole = mt.plan.search(model, x, devices="8xH100", global_batch=batch, **settings, keep=None, max_memory=2**40, virtual_stages=[1, 2])
    limit = sorted(layout.peak for layout in whole.layouts)[rng.randrange(len(whole.layouts))]
    plan = mt.plan.search(model, x, devices="8xH100", global_batch=batch, **settings, keep=3, max_memory=limit, virtual_stages=[1, 2])
    best = None
    for numbers in product(range(1, 9), settings["tensor"], range(1, 9), settings["shard"], settings["sequence"], settings["micro_batches"],
                           settings["recompute"], SCHEDULES.items(), [1, 2]):  # fmt: skip
        data, tensor, pipeline, shard, sequence, micro, recompute, (schedule, stages), v = numbers
        if data * tensor * pipeline != 8 or pipeline * v > len(model) or batch % (data * micro):
            continue
        if pipeline == 1 and (schedule, v) != ("1F1B", 1) or v not in stages or shard and data == 1 or sequence and tensor == 1:
            continue
        degrees = Degrees(data, tensor, pipeline, shard, sequence, micro, recompute, schedule=schedule, virtual_stages=v)
        try:
            layout = kept[0].layout(kept[0].candidate(degrees, batch))
        except Impossible:
            continue
        if layout.peak <= limit and (best is None or layout.seconds < best.seconds):
            best = layout
    assert plan.best.seconds == best.seconds and plan.best.peak <= limit
    assert plan.best.seconds >= kept[0].candidate(plan.best.degrees, batch).bound * (1 - 1e-9)


@pytest.mark.slow
def test_bounds_leave_out_nothing_that_is_faster():
    with mt.device("meta"):
        layers = [nn.TransformerEncoderLayer(256, 4, dropout=0.0, batch_first=True) for _ in range(4)]
        model, x = nn.Sequential(*layers), mt.empty(1, 128, 256)
    every = mt.plan.search(model, x, devices="4xH100", global_batch=16, keep=None, recompute=["none"])
    few = mt.plan.search(model, x, devices="4xH100", global_batch=16, keep=5, recompute=["none"])
    assert [one.seconds for one in few.layouts[:5]] == [one.seconds for one in every.layouts[:5]]
    assert len(few.layouts) < len(every.layouts) and "bounds of their time show" in few.remarks[-1]
    assert Ranking(1, None).surpassed(1e9) is False


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("p", "m"), [(2, 4), (3, 12), (4, 8), (4, 64), (8, 16)])
def test_times_are_those_of_the_tables(schedule, p, m):
    """Also where they are extended from tables with fewer micro-batches."""
    rng = random.Random(p * m)
    for v in SCHEDULES[schedule]:
        costs = [(rng.uniform(1, 2), 0.0, rng.uniform(1, 2), rng.uniform(1, 2)) for _ in range(p * v)]
        costs = [(f, i + w, i, w) for f, _, i, w in costs]
        table = pipelining.get_schedule_class(schedule).table(p, m, v)
        kinds = pipelining._timing._K
        named = {(i, kind): seconds for i, (f, b, i_, w) in enumerate(costs) for kind, seconds in (
            (kinds.FORWARD, f), (kinds.FULL_BACKWARD, b), (kinds.BACKWARD_INPUT, i_), (kinds.BACKWARD_WEIGHT, w))}  # fmt: skip
        times = pipelining.timeline(table, named, num_stages=p * v, latency=0.1)
        assert max(run_times(schedule, p, v, m, costs, [0.1] * (p * v)).ends) == pytest.approx(times.total)


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["1F1B", "InterleavedZeroBubble"])
def test_many_micro_batches_are_extended_from_fewer(schedule):
    rng = random.Random(1)
    costs = [(f, i + w, i, w) for f, i, w in ((rng.uniform(1, 2), rng.uniform(1, 2), rng.uniform(1, 2)) for _ in range(4))]
    found = run_times(schedule, 4, 1, 4096, costs, [0.05] * 4).ends
    kinds = pipelining._timing._K
    named = {(i, kind): c[j] for i, c in enumerate(costs) for j, kind in enumerate(
        (kinds.FORWARD, kinds.FULL_BACKWARD, kinds.BACKWARD_INPUT, kinds.BACKWARD_WEIGHT))}  # fmt: skip
    times = pipelining.timeline(table_of(schedule, 4, 1, 4096), named, num_stages=4, latency=0.05)
    assert max(found) == pytest.approx(times.total, rel=1e-6)
