"""Pipelines on MPI processes: losses are those of one process, messages those that simulated ranks on meta predict."""

import importlib.util
import json

import pytest

from distributed.pipelining.models import plain
from distributed.pipelining.run_pipelines import KINDS, run
from metatensor.distributed import sim
from plugins import mpiexec

mpiexec.skip_without_mpi()

EXAMPLE = mpiexec.TESTS.parent / "examples" / "train_pipeline.py"


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_all_schedules(count, tmp_path):
    predicted = sim.run(run, "meta", world_size=count)
    simulated = sim.run(run, world_size=count)
    done = mpiexec.run(count, "-m", "distributed.pipelining.run_pipelines", str(tmp_path), "cpu")
    assert done.returncode == 0, done.stdout + done.stderr
    losses, _ = plain(20)
    told = dict.fromkeys(predicted[0], 0)
    for rank in range(count):
        real = json.loads((tmp_path / f"{rank}.json").read_text())
        for name, (found, log) in real.items():
            assert log == json.loads(json.dumps(predicted[rank][name][1])) and len(log) > 10, (name, rank)
            assert log == json.loads(json.dumps(simulated[rank][name][1]))
            assert found == pytest.approx(simulated[rank][name][0], rel=1e-5)
            if found and name != "by hand":
                assert found == pytest.approx(losses[: len(found)], rel=1e-5)
            told[name] += bool(found)
    assert set(told) == {*dict(KINDS), "by hand"} and all(told.values())


@pytest.mark.slow
@pytest.mark.parametrize("schedule, replicas", [("1F1B", 2), ("ZBVZeroBubble", 1)])
def test_the_example(schedule, replicas, tmp_path):
    """A GPT with a tied embedding, also with two replicas of each stage."""
    spec = importlib.util.spec_from_file_location("train_pipeline", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    losses = sim.run(example.train, world_size=1)[0][0]
    assert len(losses) == 20 and losses[-1] < losses[0] / 2
    predicted = sim.run(example.train, 20, "meta", schedule, 8, replicas, world_size=4)
    done = mpiexec.run(4, str(EXAMPLE), "--schedule", schedule, "--replicas", str(replicas), "--log", str(tmp_path / "log"))
    assert done.returncode == 0, done.stdout + done.stderr
    seen = 0
    for rank in range(4):
        real = json.loads((tmp_path / f"log.{rank}").read_text())
        assert json.loads(json.dumps(predicted[rank][1].what())) == real["log"] and len(real["log"]) > 40
        if real["losses"]:
            assert real["losses"] == pytest.approx(losses, rel=1e-5)
            seen += 1
    assert seen == replicas
