"""Tables of schedules: each can run, waits as long as the formulas say, and is PyTorch's."""

import csv
from collections import deque

import pytest

from metatensor.distributed import pipelining
from metatensor.distributed.pipelining import schedules
from metatensor.distributed.pipelining._actions import _Action, _ComputationType, format_table
from metatensor.distributed.pipelining._orders import stage_to_rank, stages_of_rank
from metatensor.distributed.pipelining._timing import check_table, forward_only, timeline, with_communication

SINGLE = ["GPipe", "1F1B"]
LOOPED = ["LoopedBFS", "Interleaved1F1B", "InterleavedZeroBubble"]
SHAPED_LIKE_V = ["ZBVZeroBubble", "DualPipeV"]
NAMES = SINGLE + LOOPED + SHAPED_LIKE_V


def tables(name, ranks=(1, 2, 3, 4, 6), most=14):
    """Yield ranks, stages on each, microbatches, the table and the rank of each stage, wherever a schedule can run."""
    cls = pipelining.get_schedule_class(name)
    for p in ranks:
        for v in [1] if name in SINGLE else [2] if name in SHAPED_LIKE_V else [1, 2, 3]:
            for m in range(1, most + 1):
                try:
                    table = cls.table(p, m, v)
                except ValueError:
                    continue
                yield p, v, m, table, stage_to_rank(p, p * v, cls._style)


def run_blocking(table):
    """Run a table in which a rank waits at each message until the other rank has reached it. Return the actions that did not run."""
    queues = {rank: deque(actions) for rank, actions in table.items()}
    where = {}
    for rank, actions in table.items():
        for action in actions:
            where[action] = rank
    pairs = {_ComputationType.SEND_F: (1, _ComputationType.RECV_F), _ComputationType.SEND_B: (-1, _ComputationType.RECV_B)}
    moved = True
    while moved:
        moved = False
        for queue in queues.values():
            while queue:
                action = queue[0]
                if action.is_compute_op:
                    queue.popleft()
                elif action.computation_type in pairs:
                    step, kind = pairs[action.computation_type]
                    peer = _Action(action.stage_index + step, kind, action.microbatch_index)
                    if not queues[where[peer]] or queues[where[peer]][0] != peer:
                        break
                    queue.popleft()
                    queues[where[peer]].popleft()
                else:
                    break
                moved = True
    return {rank: list(queue) for rank, queue in queues.items() if queue}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_table_can_run(name):
    """Each pass occurs once, after the passes that it needs. Messages come in pairs and block no rank. Both hold in evaluation too."""
    count = 0
    for _p, _v, m, table, places in tables(name):
        count += 1
        check_table(table, places, m)
        for one, backward in ((table, True), (forward_only(table), False)):
            check_table(one, places, m, backward)
            full = with_communication(one, places)
            assert {rank: [action for action in row if action.is_compute_op] for rank, row in full.items()} == one
            assert run_blocking(full) == {}
            sent = sum(action.computation_type is _ComputationType.SEND_F for row in full.values() for action in row)
            assert sent == m * sum(places[stage] != places[stage + 1] for stage in range(len(places) - 1))
            # What a pass needs has arrived.
            for row in full.values():
                arrived = set()
                for action in row:
                    for part in action.parts:
                        stage, kind, i = part.stage_index, part.computation_type, part.microbatch_index
                        if kind.value.startswith("RECV"):
                            arrived.add((stage, kind.value[-1], i))
                        elif kind is _ComputationType.FORWARD and stage and places[stage - 1] != places[stage]:
                            assert (stage, "F", i) in arrived
                        elif kind.value in "BI" and stage < len(places) - 1 and places[stage + 1] != places[stage]:
                            assert (stage, "B", i) in arrived
    assert count > 20


@pytest.mark.parametrize("name", NAMES)
def test_bubbles_are_those_of_the_papers(name):
    for p, v, m, table, _places in tables(name):
        times = timeline(table)
        if name in SINGLE or name == "LoopedBFS" and m >= p or name == "Interleaved1F1B" and m % p == 0:
            assert times.bubble_fraction == pytest.approx((p - 1) / (v * m + p - 1))
        elif name == "InterleavedZeroBubble" and m % p == 0 or name == "ZBVZeroBubble" and m >= 2 * p - 1:
            # F, I and W take 1 each: the bubble of 3 (p - 1) is a third.
            assert times.bubble_fraction == pytest.approx((p - 1) / (3 * v * m + p - 1))
        assert all(times.busy(rank) == 3 * v * m for rank in range(p))


@pytest.mark.parametrize("name", NAMES)
def test_microbatches_in_flight(name):
    for p, v, m, table, _places in tables(name):
        times = timeline(table)
        for rank in range(p):
            found = times.in_flight(rank)
            if name == "GPipe" or name == "LoopedBFS":
                assert found == v * m
            elif name == "1F1B":
                assert found == min(m, p - rank)
            elif name == "Interleaved1F1B" and m % p == 0:
                assert found == min(v * m, (v - 1) * p + 2 * (p - 1 - rank) + 1)
            elif name == "ZBVZeroBubble" and m >= 2 * p:
                assert found == 2 * p  # each covers half of the layers of a rank, so this equals 1F1B on its first rank
            elif name == "DualPipeV" and m > 2 * p:
                assert found == 2 * p + 1


def test_times_of_passes():
    table = pipelining.ScheduleGPipe.table(2, 4)
    even = timeline(table, {_ComputationType.FORWARD: 1.0, _ComputationType.FULL_BACKWARD: 3.0})
    assert even.total == 4 * 4 + 1 * 4 and even.idle(0) == 4
    slow = timeline(table, {(1, _ComputationType.FORWARD): 2.0})
    assert slow.total == 1 + 4 * 2 + 4 * 2 + 2 and slow.busy(1) == 16
    assert timeline(table, latency=0.5).total == timeline(table).total + 1
    assert repr(even) == "<Timeline of 2 ranks, total 20, bubble 20.0%>"
    assert timeline({0: []}).bubble_fraction == 0


def test_tables_that_cannot_run_are_explained():
    F, B = _ComputationType.FORWARD, _ComputationType.FULL_BACKWARD
    places = {0: 0, 1: 1}
    good = pipelining.ScheduleGPipe.table(2, 2)
    with pytest.raises(ValueError, match=r"rank 0 waits in 0B0 for 1B0, which no rank runs"):
        timeline({0: good[0], 1: good[1][:2]}, num_stages=2)
    with pytest.raises(ValueError, match=r"(?s)rank 1 waits in 1B1 for 1F1, which rank 1 runs later.*Rank 0  Rank 1"):
        check_table({0: good[0], 1: [good[1][0], _Action(1, B, 1), _Action(1, F, 1), _Action(1, B, 0)]}, places, 2)
    with pytest.raises(ValueError, match="no rank runs 1F1"):
        check_table({0: good[0], 1: [good[1][0], *good[1][2:]]}, places, 2)
    with pytest.raises(ValueError, match="0F0 occurs twice"):
        check_table({0: [good[0][0], *good[0]], 1: good[1]}, places, 2)
    with pytest.raises(ValueError, match=r"rank 0 has the action 1F0, but the stage is on rank 1"):
        check_table({0: [*good[0], good[1][0]], 1: good[1]}, places, 2)
    with pytest.raises(ValueError, match="rank 0 has the action 7F0, but there is no such stage"):
        check_table({0: [_Action(7, F, 0)], 1: []}, places, 2)
    with pytest.raises(ValueError, match="0F5, but there are 2 microbatches"):
        check_table({0: [_Action(0, F, 5)], 1: []}, places, 2)
    with pytest.raises(ValueError, match="microbatch 1 of stage 0 needs either 0B1 or 0I1 and 0W1"):
        check_table({0: good[0][:3], 1: good[1]}, places, 2)
    with pytest.raises(ValueError, match="stage 0 has a backward pass"):
        check_table(good, places, 2, backward=False)


def test_names():
    assert pipelining.get_schedule_class("interleaved1f1b") is pipelining.ScheduleInterleaved1F1B
    assert pipelining.get_schedule_class("PipelineScheduleMulti") is schedules.PipelineScheduleMulti
    with pytest.raises(ValueError, match="no schedule 'zero'; the schedules are 1F1B"):
        pipelining.get_schedule_class("zero")
    with pytest.raises(ValueError, match="8 stages on 4 ranks need at least 8 microbatches, got 7"):
        pipelining.ScheduleDualPipeV.table(4, 7)
    with pytest.raises(ValueError, match="Schedule1F1B: 4 stages on 4 ranks need at least 4 microbatches"):
        pipelining.Schedule1F1B.table(4, 3)
    with pytest.raises(ValueError, match="each rank has 2 stages, got 3"):
        pipelining.ScheduleZBVZeroBubble.table(4, 8, 3)
    with pytest.raises(ValueError, match="ScheduleInterleaved1F1B: .* must be a multiple of 2, got 5"):
        pipelining.ScheduleInterleaved1F1B.table(2, 5)
    with pytest.raises(ValueError, match="PipelineScheduleMulti: has no table"):
        schedules.PipelineScheduleMulti.table(2, 2)


def test_text_of_actions():
    overlapped = _Action.from_str("(0F3;3B1)OVERLAP_F_B")
    assert overlapped.sub_actions == (_Action(0, _ComputationType.FORWARD, 3), _Action(3, _ComputationType.FULL_BACKWARD, 1))
    for text in ("2F0", "11SEND_F3", "0RECV_B12", "4I1", "4W1", "(0F3;3B1)OVERLAP_F_B"):
        assert str(_Action.from_str(text)) == text
    assert _Action.from_str(" ") is None
    with pytest.raises(RuntimeError, match="'2Z0' is no action"):
        _Action.from_str("2Z0")
    with pytest.raises(RuntimeError, match="no computation type 'Z'; the types are F, B, I"):
        _ComputationType.from_str("Z")
    assert _ComputationType.from_str("W") is _ComputationType.BACKWARD_WEIGHT and f"{_ComputationType.FORWARD:>3}" == "  F"
    assert format_table(pipelining.Schedule1F1B.table(2, 2)).split("\n") == [
        "        Rank 0  Rank 1", "Step 0  0F0     1F0", "Step 1  0F1     1B0", "Step 2  0B0     1F1", "Step 3  0B1     1B1",
    ]  # fmt: skip


@pytest.mark.torch
@pytest.mark.parametrize("name", [name for name in NAMES if name != "1F1B"])  # its table in PyTorch repeats microbatches
def test_tables_are_those_of_pytorch(name):
    torch = pytest.importorskip("torch")
    from torch.distributed.pipelining import schedules as theirs

    class Stage:
        submod = group = None
        device, has_backward, group_rank = "cpu", True, 0

        def __init__(self, index, count, p):
            self.stage_index, self.num_stages, self.group_size = index, count, p
            self.is_first, self.is_last = index == 0, index == count - 1

    cls, compared = theirs.get_schedule_class(name), 0
    for p, v, m, table, _places in tables(name, (2, 3, 4), 13):
        stages = [Stage(index, p * v, p) for index in stages_of_rank(0, p, v, pipelining.get_schedule_class(name)._style)]
        schedule = cls(stages[0] if name in SINGLE else stages, m, loss_fn=lambda a, b: a)
        order = schedule._get_pipeline_order() if name in SINGLE else schedule.pipeline_order
        for rank in range(p):
            passes = [str(one) for one in order[rank] if one is not None and one.computation_type.value != "REDUCE_GRAD"]
            assert passes == list(map(str, table[rank])), (p, v, m, rank)
        compared += 1
    assert compared > 10 and torch is not None


def test_tables_are_csv(tmp_path):
    table = pipelining.ScheduleDualPipeV.table(2, 4)
    path = tmp_path / "table.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(table[rank] for rank in sorted(table))
    with open(path, newline="", encoding="utf-8") as file:
        assert {rank: [_Action.from_str(cell) for cell in row] for rank, row in enumerate(csv.reader(file))} == table
