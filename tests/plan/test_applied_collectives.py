"""The collectives and the memory of applied layouts, counted on simulated ranks on meta, are the planned ones."""

from collections import Counter

import pytest

import metatensor as mt
from metatensor import distributed as dist
from metatensor.distributed import CommunicationLog
from metatensor.nn import functional as F
from metatensor.plan import Degrees
from metatensor.plan.costing import Coster
from plan.transformers_like import decoder, tokens

BATCH, LENGTH = 8, 128


def loss(output, target):
    return F.cross_entropy(output.flatten(0, 1), target.flatten())


def planned_loss(output, samples):
    return loss(output, mt.zeros(samples, LENGTH, dtype=mt.int64, device="meta"))


@pytest.fixture(scope="module")
def planned():
    """A plan, and what it was put together from by precision."""
    costers = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Coster, "__init__", lambda self, *args, _make=Coster.__init__: (costers.append(self), _make(self, *args))[1])
        plan = mt.plan.search(decoder(), tokens(1, LENGTH), devices="4xH100", global_batch=BATCH, loss=planned_loss, keep=None,
                              precision=["fp32", "bf16-master"], micro_batches=[1, 2], schedules=["1F1B", "GPipe"])  # fmt: skip
    return plan, dict(zip(("fp32", "bf16-master"), costers, strict=True))


def predicted(coster, degrees, micro_batches):
    """Return for each stage how often a step has each kind of collective, with its bytes and number of ranks."""
    stages, widths, found = coster.stages(degrees), coster.widths, []
    for i, stage in enumerate(stages):
        calls, last = Counter(), i == len(stages) - 1
        for j, part in enumerate(stage.parts):
            cost, n = part.cost, degrees.data
            gradient, parameter = cost.parameters * widths.gradient, cost.parameters * widths.parameter
            for kind, nbytes in cost.forward_communication + cost.backward_communication:
                calls[kind, nbytes, degrees.tensor] += micro_batches
            if cost.reduced:
                calls["all_reduce", cost.reduced // widths.parameter * widths.gradient, degrees.tensor] += 1
            if n > 1 and degrees.shard == 0:
                calls["all_reduce", gradient, n] += 1
            elif n > 1 and degrees.shard < 3:
                calls["reduce_scatter", gradient, n] += micro_batches if degrees.shard == 2 else 1
                calls["all_gather", parameter, n] += 1
            elif n > 1:  # the last part runs backward at once, and is still whole then
                calls["reduce_scatter", gradient, n] += micro_batches
                calls["all_gather", parameter, n] += micro_batches * (1 if last and j == len(stage.parts) - 1 else 2)
        for other in ([stage] if i else []) + ([] if last else [stages[i + 1]]):
            calls["send", other.received, 2] += micro_batches
            calls["recv", other.received, 2] += micro_batches
        found.append(calls)
    return found


def counted(plan, degrees):
    """Return for each rank its stage and the communication of a step."""

    def run():
        dist.init_process_group()
        step = plan.apply(decoder(), which=degrees, loss=loss, optimizer=mt.optim.AdamW, device="meta")
        with mt.device("meta"), mt.analysis.policy("cuda"):
            batch = [step.own(tokens(BATCH, LENGTH)) for _ in range(2)]
            step.step(*batch)
            with CommunicationLog() as log:
                step.step(*batch)
        calls = ((one.kind, one.bytes, 2 if one.kind in ("send", "recv") else len(one.group)) for one in log
                 if one.bytes and len(one.group) > 1)  # fmt: skip
        return step.mesh.get_local_rank("pipeline"), Counter(calls)

    return dist.sim.run(run, world_size=4)


def fp32(*args, **kwargs):
    return Degrees(*args, precision="fp32", **kwargs)


LAYOUTS = [
    *(fp32(4, 1, 1, shard, micro_batch=1 + shard % 2) for shard in range(4)),
    fp32(2, 2), fp32(2, 2, 1, 1, True), fp32(2, 2, 1, 3), fp32(1, 4), fp32(1, 4, sequence=True),
    fp32(2, 1, 2), fp32(2, 1, 2, 1, schedule="GPipe"), fp32(2, 1, 2, 2), fp32(1, 1, 4), fp32(1, 2, 2), fp32(1, 2, 2, sequence=True),
    fp32(2, 2, recompute="full"), fp32(2, 2, recompute="selective"), fp32(4, 1, 1, 3, recompute="full"),
    Degrees(4, 1, 1, 1), Degrees(4, 1, 1, 3), Degrees(2, 2),
]  # fmt: skip


@pytest.mark.parametrize("degrees", LAYOUTS, ids=str)
def test_collectives_are_the_planned_ones(degrees, planned):
    plan, costers = planned
    layout = next(one for one in plan.layouts if one.degrees == degrees)
    expected = predicted(costers[degrees.precision], degrees, layout.micro_batches)
    ranks = counted(plan, degrees)
    assert sum(expected[0].values()) > 3
    for stage, calls in ranks:
        assert calls == expected[stage]
    assert sorted({stage for stage, _ in ranks}) == list(range(degrees.pipeline))


def test_a_sharded_pipeline_gathers_a_block_once_more(planned):
    """What differs, as the page on plans says."""
    plan, costers = planned
    degrees = fp32(2, 1, 2, 3)
    layout = next(one for one in plan.layouts if one.degrees == degrees)
    expected = predicted(costers["fp32"], degrees, layout.micro_batches)
    for stage, calls in counted(plan, degrees):
        assert not expected[stage] - calls
        assert sum((calls - expected[stage]).values()) == (stage == 0)


IN_MEMORY = [fp32(4), fp32(4, 1, 1, 1), fp32(2, 2), fp32(2, 2, 1, 1, True), fp32(1, 4), fp32(1, 4, sequence=True), Degrees(4, 1, 1, 1),
             Degrees(2, 2)]  # fmt: skip


@pytest.mark.parametrize("degrees", IN_MEMORY, ids=str)
def test_memory_is_the_planned_one(degrees, planned):
    def setup():
        dist.init_process_group()
        step = planned[0].apply(decoder(), which=degrees, loss=loss, optimizer=mt.optim.AdamW, device="meta")
        batch = [step.own(tokens(BATCH, LENGTH)) for _ in range(2)]
        step.step(*batch)
        return step, batch

    with mt.device("meta"):
        found = mt.analysis.profile_ranks(lambda step, batch: step.step(*batch), setup=setup, topology="4xH100")
    (expected,) = next(one for one in planned[0].layouts if one.degrees == degrees).memory
    for one in found.classes:
        memory = one.memory.at_peak()
        assert memory["parameter"] == expected["parameter"]
        assert memory["gradient"] == expected["gradient"]
        assert 0 < memory["optimizer state"] - expected["optimizer"] < 100  # the numbers of steps
        assert sum(memory.values()) == pytest.approx(sum(expected.values()), rel=0.015)
