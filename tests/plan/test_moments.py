"""The moments of a schedule at which a rank may need most memory."""

import random

import pytest

from metatensor.distributed.pipelining import _orders
from metatensor.distributed.pipelining._timing import with_communication
from metatensor.plan import Degrees
from metatensor.plan.moments import HELD, alone, moments, wasted_gathers
from metatensor.plan.schedules import CODES, rank_style, table_of

SCHEDULES = {"GPipe": [1], "1F1B": [1], "LoopedBFS": [2], "Interleaved1F1B": [2, 3], "InterleavedZeroBubble": [1, 2], "ZBVZeroBubble": [2]}


def highest(actions, number, sizes, needs, loss):
    """Return the peak of a rank from the tensors that exist before each action, listed one by one.

    ``sizes`` are bytes by kind and stage, ``needs`` those of passes by code and stage.
    """
    own = {action.stage_index for action in actions}
    alive, sending, peak, losses = {}, {}, 0, 0

    def used(code, stage):
        nonlocal peak
        peak = max(peak, sum(sizes[kind, s] for kind, s, _ in alive) + needs[code, stage] + losses * loss)

    def sent(kind, stage, i):
        if (kind, stage) in sending:
            del alive[kind, stage, sending[kind, stage]]
        sending[kind, stage] = i

    for stage, kind, i, _ in actions:
        name = str(kind)
        if name == "F":
            alive.pop(("received", stage, i), None)
            used(0, stage)
            alive["saved", stage, i] = True
            if stage + 1 in own:
                alive["received", stage + 1, i] = True
            elif stage < number - 1:
                alive["output", stage, i] = True
        elif name in "BI":
            alive.pop(("gradient", stage, i), None)
            del alive["saved", stage, i]
            used(1 if name == "B" else 2, stage)
            losses += stage == number - 1
            if name == "I":
                alive["deferred", stage, i] = True
            if stage - 1 in own:
                alive["gradient", stage - 1, i] = True
            elif stage:
                alive["returned", stage, i] = True
        elif name == "W":
            del alive["deferred", stage, i]
            used(3, stage)
        elif name.startswith("RECV"):
            alive["received" if name == "RECV_F" else "gradient", stage, i] = True
        else:
            sent("output" if name == "SEND_F" else "returned", stage, i)
    return peak


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("p", "m"), [(2, 2), (2, 6), (3, 12), (4, 16)])
def test_peaks_are_those_of_the_actions(schedule, p, m):
    rng = random.Random(p + m)
    for v in SCHEDULES[schedule]:
        style, number = rank_style(schedule), p * v
        table = with_communication(table_of(schedule, p, v, m), _orders.stage_to_rank(p, number, style))
        found = moments(schedule, p, v, m)
        for _ in range(20):
            sizes = {(kind, stage): rng.randrange(100, 300) if kind in ("saved", "deferred") else rng.randrange(101)
                     for kind in HELD for stage in range(number)}  # fmt: skip
            needs = {(code, stage): rng.randrange(200) for code in CODES.values() for stage in range(number)}
            loss = rng.randrange(3)
            for rank in range(p):
                own = sorted(_orders.stages_of_rank(rank, p, v, style))
                weights = [sizes[kind, stage] for stage in own for kind in HELD]
                peak = max(sum(map(int.__mul__, one.held, weights)) + needs[one.code, own[one.stage]] + one.losses * loss
                           for one in found[rank])  # fmt: skip
                assert peak == highest(table[rank], number, sizes, needs, loss)


def test_long_steps_have_the_moments_of_short_ones():
    short, long = moments("1F1B", 4, 1, 16), moments("1F1B", 4, 1, 4096)
    assert [[one._replace(losses=0) for one in rank] for rank in short] == [[one._replace(losses=0) for one in rank] for rank in long]
    assert max(one.losses for one in long[3]) - max(one.losses for one in short[3]) == 4096 - 16


@pytest.mark.parametrize("schedule", ["GPipe", "LoopedBFS"])
@pytest.mark.parametrize(("p", "m"), [(2, 40), (4, 36), (3, 13)])
def test_long_steps_that_hold_all_micro_batches(schedule, p, m):
    v = SCHEDULES[schedule][0]
    table = with_communication(table_of(schedule, p, v, m), _orders.stage_to_rank(p, p * v))
    for rank, found in enumerate(moments(schedule, p, v, m)):
        own = _orders.stages_of_rank(rank, p, v)
        sizes = {(kind, stage): 100 * len(kind) if kind in ("saved", "deferred") else len(kind) for kind in HELD for stage in own}
        needs = {(code, stage): 0 for code in CODES.values() for stage in own}
        weights = [sizes[kind, stage] for stage in own for kind in HELD]
        peak = max(sum(map(int.__mul__, one.held, weights)) + one.losses for one in found)
        assert peak == highest(table[rank], p * v, sizes, needs, 1)


def test_one_rank():
    assert [(one.code, sum(one.held), one.losses) for one in alone(1)] == [(0, 0, 0), (1, 0, 0)]
    assert [one.losses for one in alone(5)] == [1, 1]


def test_refused_numbers_of_micro_batches():
    with pytest.raises(ValueError, match="multiple of 3"):
        moments("Interleaved1F1B", 2, 2, 7)


def test_wasted_gathers():
    def of(schedule, m, virtual_stages=1, **options):
        given = {"data": 2, "pipeline": 2, "shard": 3, "virtual_stages": virtual_stages, **options}
        return wasted_gathers(Degrees(**given, schedule=schedule), m)

    assert of("1F1B", 8) == of("1F1B", 800) == [1, 0]  # the last stage runs backward after each forward pass
    assert of("GPipe", 8) == [1, 1]
    assert of("Interleaved1F1B", 16, 2) == [7, 1, 8, 0] and of("Interleaved1F1B", 80, 2) == [39, 1, 40, 0]
    assert of("GPipe", 8, shard=2) == of("GPipe", 8, data=1) == [0, 0] and wasted_gathers(Degrees(4, shard=3), 8) == [0]
