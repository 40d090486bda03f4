"""The communicator for NCCL, over stand-ins for CuPy and NCCL: ranks are threads with worlds of their own."""

import threading

import pytest

import metatensor as mt
from devices.fake_cupy import FakeCupy
from distributed import rank_programs
from metatensor import distributed as dist
from metatensor import plugins
from metatensor.distributed._world import World, use_world
from plugins import fake_nccl

backend_module = pytest.importorskip("metatensor_cuda.backend")
communicator_module = pytest.importorskip("metatensor_nccl.communicator")
pytest.importorskip("metatensor_cpu")

# NCCL has no tags, no messages from any rank, and no bitwise reductions, and its groups begin with a collective.
SKIPPED = ("any_source", "first_message", "messages", "reductions")
PROGRAMS = [one for one in rank_programs.PROGRAMS if one.__name__ not in SKIPPED]


@pytest.fixture
def nccl(monkeypatch):
    """The communicator with the stand-ins, in place of the installed one, for one test."""
    xp = FakeCupy(count=2)
    before = plugins.backend("cuda")
    plugins.register_backend(backend_module.CudaBackend(xp, xp.special), override=True)
    found = communicator_module.NcclCommunicator(fake_nccl)
    monkeypatch.setattr(plugins, "communicator", lambda name: found if name == "nccl" else None)
    yield found
    plugins.register_backend(before, override=True)


def on_threads(function, size=3, store=None):
    """Run a function on ranks that are threads. Return its results, or raise the first error."""
    results, errors, store = [None] * size, [], store or dist.HashStore()

    def live(rank):
        use_world(World())
        try:
            dist.init_process_group("nccl", rank=rank, world_size=size, store=store)
            results[rank] = function("cuda")
            dist.destroy_process_group()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=live, args=(rank,), daemon=True) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    if errors:
        raise errors[0]
    return results


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_programs(nccl, program):
    on_threads(program)


def test_reductions(nccl):
    def reduced(place):
        rank = dist.get_rank()
        found = []
        for dtype in (mt.float32, mt.float16, mt.bfloat16, mt.int64, mt.int16, mt.complex64, mt.bool):
            for op in ("SUM",) if dtype == mt.complex64 else ("SUM", "MAX", "MIN", "PRODUCT"):
                x = mt.full((2,), rank + (dtype != mt.bool), dtype=dtype, device=place)
                dist.all_reduce(x, dist.ReduceOp[op])
                found.append(x.tolist()[0])
        mean = mt.full((2,), float(rank), device=place)
        dist.all_reduce(mean, dist.ReduceOp.AVG)
        return found, mean.tolist()

    numbers = [6, 3, 1, 6]
    assert on_threads(reduced) == [([*numbers * 5, 6, True, True, False, False], [1.0, 1.0])] * 3


def test_messages(nccl):
    def sent(place):
        rank, size = dist.get_rank(), dist.get_world_size()
        got = mt.empty(3, device=place)
        x = mt.full((3,), float(rank), device=place)
        both = [dist.P2POp(dist.irecv, got, (rank - 1) % size), dist.P2POp(dist.isend, x, (rank + 1) % size)]
        for work in dist.batch_isend_irecv(both):
            work.wait()
        if rank == 0:
            dist.send(mt.ones(2, device=place), 1)
        elif rank == 1:
            assert dist.recv(mt.empty(2, device=place), 0) == 0
        return got.tolist()

    assert on_threads(sent) == [[2.0] * 3, [0.0] * 3, [1.0] * 3]


def test_what_nccl_cannot_do(nccl):
    def refused(place):
        x = mt.ones(2, dtype=mt.int32, device=place)
        with pytest.raises(ValueError, match="NCCL cannot reduce"):
            dist.all_reduce(x, dist.ReduceOp.BXOR)
        with pytest.raises(RuntimeError, match="NCCL cannot receive from any"):
            dist.recv(x)
        with pytest.raises(RuntimeError, match="NCCL has no tags"):
            dist.isend(x, 1 - dist.get_rank(), tag=1)
        with pytest.raises(RuntimeError, match="does not communicate tensors on cpu"):
            dist.all_reduce(mt.ones(2))
        y = mt.empty(2, device="meta")
        dist.all_reduce(y)
        dist.barrier()

    on_threads(refused, 2)


def test_a_store_is_needed(nccl, monkeypatch):
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    with pytest.raises(RuntimeError, match="MASTER_ADDR"):
        dist.init_process_group("nccl", rank=0, world_size=2)
    assert not dist.is_initialized()
