"""Simulated worlds: results, errors that explain themselves, logs, and their independence from the process."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import metatensor as mt
from distributed.rank_programs import PROGRAMS
from metatensor import distributed as dist
from metatensor.distributed import _functional_collectives as functional
from metatensor.distributed import sim
from metatensor.distributed._world import observed


def world(function):
    """Return a function that connects its rank and then calls another one."""

    def connected(*args):
        dist.init_process_group("nccl")
        try:
            return function(*args)
        finally:
            dist.destroy_process_group()

    return connected


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_programs(program, size, device):
    sim.run(world(program), device, world_size=size)
    assert not dist.is_initialized()


def test_the_rank_is_that_of_the_simulation():
    def who():
        dist.init_process_group("gloo", world_size=3)
        return dist.get_rank(), dist.get_world_size(), dist.get_backend(), dist.is_available()

    assert sim.run(who, world_size=3) == [(rank, 3, "gloo", True) for rank in range(3)]
    assert not dist.is_available()
    for options in ({"rank": 5}, {"world_size": 2}):
        with pytest.raises(ValueError, match="started with"):
            sim.run(lambda: dist.init_process_group(**options), world_size=3)
    with pytest.raises(ValueError, match="positive"):
        sim.run(who, world_size=0)


def test_meta_moves_nothing_and_is_checked():
    def shapes():
        x = mt.empty(4, 6, device="meta")
        out = [mt.empty(4, 6, device="meta") for _ in range(2)]
        dist.all_gather(out, x)
        small = mt.empty(2, 6, device="meta")
        dist.reduce_scatter_tensor(small, x)
        return small.device.type

    assert sim.run(world(shapes), world_size=2) == ["meta", "meta"]

    def wrong():
        dist.all_gather_into_tensor(mt.empty(7, device="meta"), mt.empty(4, device="meta"))

    with pytest.raises(ValueError, match="7 elements, the input 4.*2 times as large"):
        sim.run(world(wrong), world_size=2)


# Errors ---------------------------------------------------------------------------------------------------------------


def test_a_mismatch_shows_both_calls():
    def different_shapes():
        dist.all_reduce(mt.empty(2 + dist.get_rank() // 2, device="meta"))

    with pytest.raises(dist.DistBackendError) as caught:
        sim.run(world(different_shapes), world_size=4)
    text = str(caught.value)
    assert "ranks 0 and 2 disagree" in text and "different shape" in text and "test_sim.py" in text
    assert "rank 0: all_reduce(shape [2]" in text and "rank 2: all_reduce(shape [3]" in text

    def different_operations():
        x = mt.empty(2, device="meta")
        dist.all_reduce(x) if dist.get_rank() else dist.broadcast(x, 0)

    with pytest.raises(dist.DistBackendError, match=r"different operations\n  rank 0: broadcast.*\n  rank 1: all_reduce"):
        sim.run(world(different_operations), world_size=2)
    for options, name in (({"op": dist.ReduceOp.MAX}, "op"), ({}, "dtype")):

        def other(options=options):
            mine = dist.get_rank() == 1
            kind = mt.float64 if mine and not options else mt.float32
            dist.all_reduce(mt.empty(2, dtype=kind, device="meta"), **(options if mine else {}))

        with pytest.raises(dist.DistBackendError, match=f"different {name}"):
            sim.run(world(other), world_size=2)


def test_splits_that_do_not_fit():
    def uneven():
        out = mt.empty(4, device="meta")
        sizes = [1, 3] if dist.get_rank() else [2, 2]
        dist.all_to_all_single(out, mt.empty(4, device="meta"), sizes, [2, 2])

    with pytest.raises(dist.DistBackendError, match=r"sends 2 elements to rank 1, which expects 1"):
        sim.run(world(uneven), world_size=2)


def test_messages_that_do_not_fit():
    def wrong():
        if dist.get_rank():
            dist.recv(mt.empty(3, device="meta"), 0)
        else:
            dist.send(mt.empty(2, device="meta"), 1)

    with pytest.raises(dist.DistBackendError, match=r"disagree about a message: different shape\n  rank 0: send\(shape \[2\]"):
        sim.run(world(wrong), world_size=2)


@pytest.mark.slow
def test_deadlocks_are_found_at_once():
    def missing():
        if dist.get_rank() != 1:
            dist.all_reduce(mt.empty(2, device="meta"))

    start = time.monotonic()
    with pytest.raises(sim.Deadlock) as caught:
        sim.run(world(missing), world_size=3)
    text = str(caught.value)
    assert "rank 0 waits in all_reduce(shape [2]" in text and "ranks 1, which have not called it" in text
    assert "ranks 1 have finished" in text and "test_sim.py" in text

    def everybody_sends():
        dist.send(mt.empty(2, device="meta"), 1 - dist.get_rank())
        dist.recv(mt.empty(2, device="meta"), 1 - dist.get_rank())

    with pytest.raises(sim.Deadlock, match="until rank 1 receives it"):
        sim.run(world(everybody_sends), world_size=2)

    def crosswise():
        one, two = dist.new_group([0, 1]), dist.new_group([0, 1])
        for group in (one, two) if dist.get_rank() else (two, one):
            dist.barrier(group)

    with pytest.raises(sim.Deadlock, match="rank 0 waits in barrier"):
        sim.run(world(crosswise), world_size=2)

    def asks():
        work = dist.irecv(mt.empty(1, device="meta"), 1 - dist.get_rank())
        while not work.is_completed():
            pass

    with pytest.raises(sim.Deadlock, match="recv"):
        sim.run(world(asks), world_size=2)
    assert time.monotonic() - start < 10


def test_a_rank_that_raises_fails_the_others():
    seen = {}

    def one_raises():
        if dist.get_rank() == 2:
            raise KeyError("no such layer")
        try:
            dist.all_reduce(mt.empty(2, device="meta"))
        except sim.RankFailed as error:
            seen[dist.get_rank()] = str(error)
            raise

    with pytest.raises(KeyError, match="no such layer") as caught:
        sim.run(world(one_raises), world_size=4)
    assert "raised by rank 2 of 4" in caught.value.__notes__
    assert sorted(seen) == [0, 1]  # rank 3 had not begun
    assert all("rank 2 failed at" in text and "KeyError: 'no such layer'" in text and "all_reduce" in text for text in seen.values())


def test_a_rank_that_hangs():
    def hangs():
        if dist.get_rank() == 1:
            time.sleep(3)
        dist.barrier()

    with pytest.raises(TimeoutError, match=r"Rank 1 runs at .*test_sim.py:\d+.*\n  rank 0 waits for barrier"):
        sim.run(world(hangs), world_size=2, timeout=0.3)


@pytest.mark.slow
def test_the_time_ends_while_ranks_take_turns():
    """A rank may just have been given the turn, when all that wait are woken to end."""

    def never_ends():
        while True:
            dist.all_reduce(mt.ones(2, device="cpu"))

    for _ in range(20):
        with pytest.raises(TimeoutError, match=r"no result after 0.02 s. Rank \d runs"):
            sim.run(world(never_ends), world_size=4, timeout=0.02)


def test_threads_end():
    before = threading.active_count()
    for _ in range(3):
        with pytest.raises(ValueError):
            sim.run(world(lambda: dist.broadcast(mt.empty(2, device="meta"), 0) if dist.get_rank() else int("x")), world_size=8)
    deadline = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before


# Logs and state -------------------------------------------------------------------------------------------------------


def test_logs():
    def talk():
        x = mt.empty(4, 2, dtype=mt.bfloat16, device="meta")
        dist.all_reduce(x)
        group = dist.new_group([0, 2])
        if dist.get_rank() != 1:
            dist.all_gather_into_tensor(mt.empty(8, 2, dtype=mt.bfloat16, device="meta"), x, group=group, async_op=True).wait()
        with dist.CommunicationLog() as log:
            dist.send(x, 1) if dist.get_rank() == 0 else dist.recv(x, 0) if dist.get_rank() == 1 else None
        return log.what()

    results = sim.run(world(talk), world_size=3, record=True)
    assert results == [
        [("send", 16, (0, 1, 2), "to 1", "bfloat16")], [("recv", 16, (0, 1, 2), "from 0", "bfloat16")], [],
    ]  # fmt: skip
    first = results.logs[0]
    assert [(one.order, one.kind, one.bytes, one.group) for one in first] == [
        (0, "all_reduce", 16, (0, 1, 2)), (1, "all_gather", 32, (0, 2)), (2, "send", 16, (0, 1, 2)),
    ]  # fmt: skip
    assert first[0].line.rpartition(":")[0] == __file__ and first[1].asynchronous and not first[0].asynchronous
    assert first.bytes_by_kind() == {"all_reduce": 16, "all_gather": 32, "send": 16}
    assert "all_reduce, sum, 16 bytes, bfloat16 [4, 2], ranks 0, 1, 2 at" in str(first)


def test_ranks_have_their_own_random_numbers():
    def draw():
        first = mt.rand(2, device="cpu").tolist()
        dist.barrier()
        mt.manual_seed(7)
        dist.barrier()
        return first, mt.rand(2, device="cpu").tolist()

    pytest.importorskip("metatensor_cpu")
    mt.manual_seed(3)
    expected = mt.rand(2, device="cpu").tolist()
    mt.manual_seed(3)
    found = sim.run(world(draw), world_size=3)
    assert mt.rand(2, device="cpu").tolist() == expected
    assert len({tuple(first) for first, _ in found}) == 3 and len({tuple(second) for _, second in found}) == 1
    mt.manual_seed(3)
    assert sim.run(world(draw), world_size=3) == found


def test_modes_do_not_see_what_moves_data():
    from metatensor import analysis

    pytest.importorskip("metatensor_cpu")

    def profiled():
        def gather():
            out = mt.empty(2, 1000)
            dist.all_gather_into_tensor(out, mt.ones(1000))
            return out

        found = analysis.profile(gather)
        return [(one.operator, one.nbytes) for one in found.storages]

    assert sim.run(world(profiled), world_size=2) == [[("empty", 8000), ("ones", 4000)]] * 2


def test_buffers_are_communication():
    from metatensor import analysis

    def profiled():
        x = mt.empty(100, device="meta")

        def step():
            return (functional.all_gather_tensor(x * 1, 0, [0, 1]) * 2).sum()

        found = analysis.profile(step)
        return [(one.operator, one.category) for one in found.storages if one.nbytes], found.at_peak()["communication"]

    storages = [("mul", "temporary"), ("empty", "communication"), ("mul", "temporary"), ("sum", "output")]
    assert sim.run(world(profiled), world_size=2) == [(storages, 800)] * 2


def test_a_world_of_which_one_rank_is_run():
    dist.init_process_group("fake", rank=3, world_size=512)
    try:
        assert (dist.get_rank(), dist.get_world_size()) == (3, 512)
        out = mt.empty(1024, device="meta")
        with dist.CommunicationLog() as log:
            dist.all_gather_into_tensor(out, mt.empty(2, device="meta"))
            dist.recv(out, 2)
        assert log.bytes_by_kind() == {"all_gather": 4096, "recv": 4096}
        with pytest.raises(RuntimeError, match="only rank 3 is run"):
            dist.all_gather_object([None] * 512, 1)
        pytest.importorskip("metatensor_cpu")
        with pytest.raises(RuntimeError, match="tensors with data, here on cpu"):
            dist.all_reduce(mt.ones(2))
    finally:
        dist.destroy_process_group()


def test_stores_give_way():
    store = dist.HashStore()

    def talk():
        if dist.get_rank() == 0:
            return store.get("answer")
        store.set("answer", "42")
        return b""

    assert sim.run(world(talk), world_size=2)[0] == b"42"


# Classes of ranks -----------------------------------------------------------------------------------------------------


def test_one_rank_of_each_class():
    runs = []

    def everybody_the_same():
        runs.append(None)
        x = mt.empty(dist.get_world_size(), 4, device="meta")
        dist.all_reduce(x)
        return x.shape

    results = sim.run(world(everybody_the_same), world_size=512, ranks="groups", record=True)
    assert len(runs) == 2 and len(results) == 512 and results[511] == (512, 4)  # the last rank confirms the first
    assert results.classes == [list(range(512))] and results.logs[77].bytes_by_kind() == {"all_reduce": 512 * 16}

    def stages():
        runs.append(None)
        stage = observed(lambda rank: rank // 128)
        if stage:
            dist.recv(mt.empty(4, device="meta"), 0)
        return stage

    runs.clear()
    results = sim.run(world(stages), world_size=512, ranks="groups", record=True)
    assert list(results) == [rank // 128 for rank in range(512)] and len(runs) == 8
    assert [len(one) for one in results.classes] == [128] * 4 and [len(results.logs[rank]) for rank in (0, 200)] == [0, 1]

    def reads_its_rank():
        return dist.get_rank()

    assert sim.run(world(reads_its_rank), world_size=5, ranks="groups") == list(range(5))


def test_classes_are_checked():
    turn = []

    def differs():
        turn.append(None)
        dist.all_reduce(mt.empty(len(turn), device="meta"))

    with pytest.raises(dist.DistBackendError, match="ranks 0 and 3 learn the same about their ranks, but do different things"):
        sim.run(world(differs), world_size=4, ranks="groups")
    with pytest.raises(ValueError, match="'all' or 'groups'"):
        sim.run(world(differs), world_size=4, ranks="some")


def test_collectives_are_not_lost_in_traced_programs():
    def traced():
        return mt.program.trace(lambda x: dist.all_reduce(x * 2), mt.empty(2, device="meta"))

    with pytest.raises(NotImplementedError, match="all_reduce in a group of 2 ranks cannot be traced"):
        sim.run(world(traced), world_size=2)
    assert len(sim.run(world(traced), world_size=1)[0].calls) > 0
    with pytest.raises(TypeError, match="expected a tensor, got tuple"):
        sim.run(world(lambda: dist.all_reduce((mt.empty(2, device="meta"),))), world_size=1)


def test_ranks_that_differ_only_in_which_sub_mesh_they_have_do_the_same():
    def shapes():
        mesh = dist.init_device_mesh("meta", (4, 2, 2), mesh_dim_names=("dp", "pp", "tp"))
        from metatensor.distributed.tensor import Shard, distribute_tensor

        x = distribute_tensor(mt.empty(8, 6, device="meta"), mesh["tp"], [Shard(0)])
        flat = distribute_tensor(mt.empty(6, 6, device="meta"), mesh["dp", "tp"]._flatten("both"), [Shard(0)])
        return tuple(x.to_local().shape), tuple(flat.to_local().shape), mesh["pp"].get_local_rank()

    every = dist.sim.run(shapes, world_size=16)
    some = dist.sim.run(shapes, world_size=16, ranks="groups")
    assert list(every) == list(some)
    # The index along pp is asked for; six rows on eight ranks are uneven; dp and tp alone tell nobody apart.
    assert some.classes == [[0, 1, 4, 5, 8, 9], [2, 3, 6, 7, 10, 11], [12, 13], [14, 15]]


def test_equal_meshes_of_different_origin_tell_different_ranks_apart():
    def shapes():
        mesh = dist.init_device_mesh("meta", (2, 2), mesh_dim_names=("dp", "tp"))
        from metatensor.distributed.tensor import DeviceMesh, Shard, distribute_tensor

        part = distribute_tensor(mt.empty(4, 2, device="meta"), mesh["tp"], [Shard(0)]).to_local()
        fixed = DeviceMesh("meta", [0, 1], mesh_dim_names=("tp",))  # for rank 0, equal to its sub-mesh
        here = fixed.get_coordinate() is not None
        return tuple(part.shape), here

    every, some = (dist.sim.run(shapes, world_size=4, ranks=ranks) for ranks in ("all", "groups"))
    assert list(every) == list(some) == [((2, 2), True)] * 2 + [((2, 2), False)] * 2


def test_threads_of_a_rank_belong_to_it():
    def run():
        dist.init_process_group()
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(lambda _: dist.get_rank(), range(4)))

    assert sim.run(run, world_size=3) == [[rank] * 4 for rank in range(3)]
    assert not dist.is_initialized()
