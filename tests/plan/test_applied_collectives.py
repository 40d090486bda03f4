"""The collectives of applied layouts, counted on simulated ranks on meta, are the planned ones."""

from collections import Counter
from dataclasses import replace

import pytest

import metatensor as mt
from metatensor import distributed as dist
from metatensor.distributed import CommunicationLog
from metatensor.nn import functional as F
from metatensor.plan import Degrees
from plan.mixtures import SparseLayer
from plan.transformers_like import decoder, tokens

BATCH, LENGTH = 8, 128


def loss(output, target):
    return F.cross_entropy(output.flatten(0, 1), target.flatten())


def planned_loss(output, samples):
    return loss(output, mt.zeros(samples, LENGTH, dtype=mt.int64, device="meta"))


@pytest.fixture(scope="module")
def plan():
    return searched(decoder(), precision=["fp32", "bf16-master"], micro_batches=[1, 2], virtual_stages=[1, 2])


def searched(model, **options):
    return mt.plan.search(model, tokens(1, LENGTH), devices="4xH100", global_batch=BATCH, loss=planned_loss, keep=None, **options)


def counted(plan, degrees, make=decoder):
    """Return for each rank its place in the pipeline and the communication of a step."""

    def run():
        dist.init_process_group()
        step = plan.apply(make(), which=degrees, loss=loss, optimizer=mt.optim.AdamW, device="meta")
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
    fp32(2, 2), fp32(2, 2, micro_batch=2), fp32(2, 2, 1, 1, True), fp32(2, 2, 1, 3), fp32(2, 2, 1, 3, True),
    fp32(1, 4), fp32(1, 4, sequence=True),
    fp32(2, 1, 2), fp32(2, 1, 2, 1, schedule="GPipe"), fp32(2, 1, 2, 2), fp32(2, 1, 2, 3), fp32(2, 1, 2, 3, schedule="GPipe"),
    fp32(1, 1, 4), fp32(1, 2, 2), fp32(1, 2, 2, sequence=True),
    fp32(2, 1, 2, schedule="Interleaved1F1B", virtual_stages=2), fp32(1, 2, 2, schedule="Interleaved1F1B", virtual_stages=2),
    fp32(2, 1, 2, 1, schedule="InterleavedZeroBubble", virtual_stages=2), fp32(1, 1, 4, schedule="InterleavedZeroBubble"),
    fp32(1, 2, 2, schedule="InterleavedZeroBubble"), fp32(2, 1, 2, 2, schedule="ZBVZeroBubble", virtual_stages=2),
    fp32(1, 2, 2, sequence=True, schedule="ZBVZeroBubble", virtual_stages=2),
    fp32(2, 2, recompute="full"), fp32(2, 2, recompute="selective"), fp32(4, 1, 1, 3, recompute="full"),
    Degrees(4, 1, 1, 1), Degrees(4, 1, 1, 3), Degrees(2, 2), Degrees(2, 2, 1, 3, True),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("degrees", LAYOUTS, ids=str)
def test_collectives_are_the_planned_ones(degrees, plan):
    expected = plan.collectives(degrees)
    ranks = counted(plan, degrees)
    assert sum(expected[0].values()) > 3
    for place, calls in ranks:
        assert calls == expected[place]
    assert sorted({place for place, _ in ranks}) == list(range(degrees.pipeline))


@pytest.fixture(scope="module")
def divided():
    """Plans of a dense model and of one with experts, with context and expert parallelism."""
    options = {"precision": "fp32", "micro_batches": [1], "recompute": ["none"], "schedules": ["1F1B"]}
    return {make: searched(make(), **options, context=[1, 2]) for make in (decoder, sparse)}


def sparse():
    return decoder(layer=SparseLayer, depth=2)


DIVIDED = [
    (decoder, fp32(2, context=2)), (decoder, fp32(2, shard=1, context=2)), (decoder, fp32(2, shard=3, context=2)),
    (decoder, fp32(1, 2, context=2)), (decoder, fp32(1, 1, 2, 2, context=2)),
    (sparse, fp32(4)), (sparse, fp32(4, expert=2)), (sparse, fp32(4, shard=1, expert=4)), (sparse, fp32(4, shard=2, expert=2)),
    (sparse, fp32(4, shard=3, expert=2)), (sparse, fp32(2, 2, expert=2)), (sparse, fp32(1, 4)), (sparse, fp32(2, 2, 1, 1, True, expert=2)),
    (sparse, fp32(2, 1, 2, expert=2)), (sparse, fp32(2, context=2, expert=4)), (sparse, fp32(1, 2, context=2, expert=2)),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("make", "degrees"), DIVIDED, ids=lambda one: getattr(one, "__name__", str(one)))
def test_collectives_of_divided_sequences_and_experts(make, degrees, divided):
    expected = divided[make].collectives(degrees)
    for place, calls in counted(divided[make], degrees, make):
        assert calls == expected[place]


@pytest.mark.slow
def test_collectives_of_what_was_not_costed(plan):
    with pytest.raises(ValueError, match="collectives: the layout data 8.*was not costed"):
        plan.collectives(fp32(8))
    elsewhere = replace(plan, _costers=None)
    with pytest.raises(ValueError, match="collectives: the search ran in another process"):
        elsewhere.collectives(fp32(4))
