"""The communicator for MPI: the programs of the simulated ranks on real processes, and processes that fail."""

import importlib
import json
import re
import time
from pathlib import Path

import pytest

import metatensor as mt
from distributed.rank_programs import PROGRAMS
from metatensor import distributed as dist
from metatensor.distributed import sim
from metatensor.distributed.communicators import find_communicator
from plugins import mpiexec

mpiexec.skip_without_mpi()

EXAMPLES = mpiexec.TESTS.parent / "examples"
FAULTS = str(Path(__file__).with_name("mpi_faults.py"))


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2, 4])
def test_programs(count):
    done = mpiexec.run(count, "-m", "distributed.run_programs", "cpu")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split("\n")[:-1] == [f"{program.__name__} passed mpi {count}" for program in PROGRAMS]


@pytest.mark.slow
@pytest.mark.parametrize("kind, expected", [
    ("raises", r"RankFailed: rank 1 failed at .*mpi_faults.py:\d+ with KeyError: 'no such layer'\n  meanwhile rank [02] was in all_reduce"),
    ("hangs", r"rank [02] has waited 2 s in all_reduce\(shape \[4\], .*\) at .*mpi_faults.py:\d+(\n.*)*  rank 1 does not answer"),
    ("finishes", r"rank [02] has waited [\d.]+ s in all_reduce(.|\n)*  rank 1 has finished"),
    ("dies", r"rank 1 .*\n?.*signal 9"),
    ("size", "MPI_ERR_TRUNCATE"),
])  # fmt: skip
def test_a_rank_that_fails(kind, expected):
    start = time.monotonic()
    done = mpiexec.run(3, FAULTS, kind)
    assert done.returncode != 0 and "not reached" not in done.stdout
    assert re.search(expected, done.stderr), done.stderr
    assert time.monotonic() - start < 30


@pytest.mark.slow
def test_ranks_that_disagree_are_explained_on_demand():
    done = mpiexec.run(3, FAULTS, "disagrees", TORCH_DISTRIBUTED_DEBUG="DETAIL")
    assert done.returncode != 0
    assert re.search(r"ranks 0 and 1 disagree about a collective: different operation and detail\n  rank 0: operation all_reduce.*\n"
                     r"  rank 1: operation broadcast", done.stderr), done.stderr  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name, count", [("train_ddp", 2), ("train_fsdp", 4)])
def test_training_is_the_one_that_was_simulated(name, count, tmp_path, monkeypatch):
    """Losses are those of one process; what MPI communicates is what meta predicted, on each rank."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    example = importlib.import_module(name)
    losses = sim.run(example.train, world_size=1)[0][0]
    assert len(losses) == 20 and losses[-1] < losses[0] / 2
    simulated = sim.run(example.train, world_size=count)
    predicted = sim.run(example.train, 20, "meta", world_size=count)
    done = mpiexec.run(count, str(EXAMPLES / f"{name}.py"), "--log", str(tmp_path / "log"))
    assert done.returncode == 0, done.stdout + done.stderr
    for rank in range(count):
        real = json.loads((tmp_path / f"log.{rank}").read_text())
        assert real["losses"] == pytest.approx(losses, rel=1e-5)
        assert simulated[rank][0] == pytest.approx(losses, rel=1e-5)
        assert json.loads(json.dumps(predicted[rank][1].what())) == real["log"] and len(real["log"]) > 40
        assert simulated[rank][1].what() == predicted[rank][1].what()


def test_messages_have_a_limit(monkeypatch):
    from metatensor_mpi import group

    monkeypatch.setattr(group, "LARGEST", 7)
    with pytest.raises(dist.DistBackendError, match=r"at most 7 bytes in one message, got a tensor of shape \[2\] with 8"):
        group._bytes(mt.ones(2))


def test_without_mpiexec(monkeypatch):
    for name in ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    found = find_communicator("mpi")
    assert found.name == "mpi" and found.device_types == ("cpu",) and found.launched() is None
    assert dist.is_mpi_available()
    with pytest.raises(ValueError, match="WORLD_SIZE"):
        dist.init_process_group("mpi")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "1")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "3")
    assert found.launched() == (1, 3) and dist.is_available()
    with pytest.raises(ValueError, match="world_size is 4, but this process was started with 3"):
        dist.init_process_group("mpi", world_size=4)
    dist.init_process_group("gloo", rank=0, world_size=1)  # a world of its own needs no communicator
    dist.all_reduce(mt.ones(2))
    dist.destroy_process_group()
