"""Timelines of ranks, with times worked out by hand."""

import pytest

import metatensor as mt
from metatensor import distributed as dist
from metatensor.analysis.calls import Call
from metatensor.analysis.collectives import collective_time
from metatensor.analysis.ranks.recording import Mark
from metatensor.analysis.ranks.scheduling import Program, schedule
from metatensor.devices.topologies import topology
from metatensor.distributed.communication_log import Communication

CLUSTER = topology("16xH100")
SIZE = 1 << 28


def work(seconds):
    return Call("mm", round(seconds * 1e15), 0, 0, "bfloat16", "forward", 0, "", "")


def program(rank, *events):
    """Return what a rank does: seconds of an operator, ("+", number, kind, ranks or text) and ("-", number)."""
    calls, marks, entries = [], [], []
    for event in events:
        if isinstance(event, float):
            calls.append(work(event))
            continue
        if event[0] == "+":
            _, number, kind, group = event
            message = kind in ("send", "recv")
            entries.append(Communication(number, kind, SIZE, (0, 1) if message else tuple(group), rank, group if message else "", "float32",
                                         (SIZE // 4,), "meta", True, ""))  # fmt: skip
        marks.append(Mark(len(calls), event[0] == "+", event[1]))
    return Program(calls, marks, entries)


def run(*programs, class_of=None):
    found = schedule(dict(enumerate(programs)), class_of or (lambda rank: rank), CLUSTER, lambda call: call.flops / 1e15)
    return [found[rank] for rank in range(len(programs))]


def seconds(kind, group):
    return collective_time(kind, SIZE, group, CLUSTER).seconds


REDUCE = seconds("all_reduce", (0, 1))


def test_a_blocking_operation_is_exposed():
    one, two = run(*(program(rank, 0.5, ("+", 0, "all_reduce", (0, 1)), ("-", 0), 0.25) for rank in range(2)))
    assert one.end == two.end == pytest.approx(0.75 + REDUCE)
    assert one.exposed == one.operations[0].exposed == pytest.approx(REDUCE)
    assert one.operations[0].overlap == 0 and one.compute == 0.75
    assert one.starts == [0.0, pytest.approx(0.5 + REDUCE)]


def test_an_operation_hides_behind_operators_until_it_is_waited_for():
    one = run(*(program(rank, ("+", 0, "all_reduce", (0, 1)), REDUCE / 4, ("-", 0), 0.25) for rank in range(2)))[0]
    operation = one.operations[0]
    assert operation.overlap == pytest.approx(REDUCE / 4) and operation.exposed == pytest.approx(0.75 * REDUCE)
    assert one.end == pytest.approx(REDUCE + 0.25)
    hidden = run(*(program(rank, ("+", 0, "all_reduce", (0, 1)), 1.0, ("-", 0)) for rank in range(2)))[0]
    assert hidden.exposed == hidden.operations[0].exposed == 0 and hidden.end == 1.0


def test_the_slower_rank_delays_the_others():
    fast, slow = run(
        program(0, 0.25, ("+", 0, "all_reduce", (0, 1)), ("-", 0)), program(1, 1.0, ("+", 0, "all_reduce", (0, 1)), ("-", 0))
    )
    assert fast.operations[0].start == 1.0 and fast.operations[0].issued == 0.25
    assert fast.exposed == pytest.approx(REDUCE)  # the 0.75 s before are not communication
    assert fast.end == slow.end == pytest.approx(1 + REDUCE)


def test_operations_of_one_group_run_one_after_the_other_and_of_two_groups_beside_each_other():
    same = run(*(program(rank, ("+", 0, "all_reduce", (0, 1)), ("+", 1, "all_reduce", (0, 1)), ("-", 1)) for rank in range(2)))[0]
    assert same.end == pytest.approx(2 * REDUCE) and same.operations[1].start == pytest.approx(REDUCE)
    other = seconds("all_reduce", (0, 1, 2))
    groups = [program(rank, ("+", 0, "all_reduce", (0, 1)), ("+", 1, "all_reduce", (0, 1, 2)), ("-", 0), ("-", 1)) for rank in range(2)]
    found = run(*groups, program(2, ("+", 0, "all_reduce", (0, 1, 2)), ("-", 0)))
    assert found[0].end == pytest.approx(max(REDUCE, other))


def test_operations_that_nobody_waits_for_still_take_time():
    one = run(*(program(rank, ("+", 0, "all_reduce", (0, 1))) for rank in range(2)))[0]
    assert one.end == pytest.approx(REDUCE) and one.operations[0].waited is None and one.exposed == pytest.approx(REDUCE)


def test_messages_of_a_pipeline():
    message = seconds("send", (0, 1))
    first = program(0, 1.0, ("+", 0, "send", "to 1"), ("-", 0), 1.0, ("+", 1, "send", "to 1"), ("-", 1))
    second = program(1, ("+", 0, "recv", "from 0"), ("-", 0), 1.0, ("+", 1, "recv", "from 0"), ("-", 1), 1.0)
    one, two = run(first, second)
    assert two.operations[0].start == 1.0 and two.starts[0] == pytest.approx(1 + message)
    # The second message is sent at 2 + message, when the second stage has just finished its first part.
    assert one.end == pytest.approx(2 + 2 * message) and two.end == pytest.approx(3 + 2 * message)
    assert two.compute == 2.0 and two.exposed == pytest.approx(2 * message)


def test_both_directions_of_a_pair_run_at_the_same_time():
    message = seconds("send", (0, 1))
    def both(rank):
        return program(rank, ("+", 0, "send", f"to {1 - rank}"), ("+", 1, "recv", f"from {1 - rank}"), ("-", 0), ("-", 1))

    assert run(both(0), both(1))[0].end == pytest.approx(message)


def test_one_rank_stands_for_its_class():
    # Two stages of two ranks each: rank 0 stands for 0 and 1, rank 2 for 2 and 3. Rank 2 receives from rank 0's class.
    first = program(0, ("+", 0, "all_reduce", (0, 1)), ("-", 0), ("+", 1, "send", "to 2"), ("-", 1))
    second = program(2, ("+", 0, "recv", "from 0"), ("-", 0), ("+", 1, "all_reduce", (2, 3)), ("-", 1))
    found = schedule({0: first, 2: second}, lambda rank: rank // 2 * 2, CLUSTER, lambda call: 0.0)
    assert found[2].end == pytest.approx(2 * REDUCE + seconds("send", (0, 2)))
    # A group across both classes, which both ranks see with other members.
    first = program(0, 1.0, ("+", 0, "all_reduce", (0, 2)), ("-", 0))
    second = program(2, 0.5, ("+", 0, "all_reduce", (0, 2)), ("-", 0))
    found = schedule({0: first, 2: second}, lambda rank: rank // 2 * 2, CLUSTER, lambda call: call.flops / 1e15)
    assert found[0].end == found[2].end == pytest.approx(1 + seconds("all_reduce", (0, 2)))


def test_ranks_of_a_class_send_to_each_other():
    ring = program(0, ("+", 0, "send", "to 1"), ("+", 1, "recv", "from 3"), ("-", 0), ("-", 1))
    found = schedule({0: ring}, lambda rank: 0, CLUSTER, lambda call: 0.0)
    assert found[0].end == pytest.approx(seconds("send", (0, 1)))


def test_an_operation_that_the_other_rank_never_begins():
    with pytest.raises(RuntimeError, match="the timeline of rank 0 stops at 0: all_reduce.* use ranks='all'"):
        run(program(0, ("+", 0, "all_reduce", (0, 1)), ("-", 0)), program(1, 1.0))


def test_operations_ahead_of_operators():
    """Gathering the parameters of the next layer begins when those of this layer have been gathered."""

    def layers(rank, ahead):
        made = program(rank, ("+", 0, "all_gather", (0, 1)), ("-", 0), 1.0, ("+", 1, "all_gather", (0, 1)), ("-", 1), 1.0)
        return Program(made.calls, made.marks, [entry._replace(ahead=ahead) for entry in made.entries])

    gather = seconds("all_gather", (0, 1))
    late, early = (run(layers(0, ahead), layers(1, ahead))[0] for ahead in (False, True))
    assert late.end == pytest.approx(2 + 2 * gather) and early.end == pytest.approx(2 + gather)
    assert early.operations[1].issued == pytest.approx(gather) and early.operations[1].start == pytest.approx(gather)
    assert early.operations[1].overlap == pytest.approx(1.0) and early.operations[1].exposed == 0


def test_the_mark_is_in_the_log():
    from metatensor.distributed.communication_log import ahead_of_operators

    def step():
        dist.init_process_group()
        x = mt.empty(4, device="meta")
        with ahead_of_operators():
            dist.all_reduce(x)
        dist.all_reduce(x)

    assert [entry.ahead for entry in dist.sim.run(step, world_size=2, record=True).logs[1]] == [True, False]
