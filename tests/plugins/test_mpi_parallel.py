"""Context and expert parallelism on MPI: losses are those of one process, communication is what simulated ranks predicted."""

import importlib
import json
import sys

import pytest

from metatensor.distributed import sim
from plugins import mpiexec

mpiexec.skip_without_mpi()
pytestmark = pytest.mark.slow

EXAMPLE = mpiexec.TESTS.parent / "examples" / "train_moe.py"
LAYOUTS = [  # ranks, context, tensor, experts over, method, rotation
    (2, 2, 1, 1, "ring", "alltoall"),
    (2, 2, 1, 2, "ulysses", "allgather"),
    (4, 1, 2, 2, "ring", "allgather"),
    (4, 4, 1, 1, "ring", "alltoall"),
]


@pytest.fixture(scope="module")
def example():
    sys.path.insert(0, str(EXAMPLE.parent))
    try:
        yield importlib.import_module("train_moe")
    finally:
        sys.path.remove(str(EXAMPLE.parent))
        for name in ("train_moe", "train_ddp"):
            sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def losses(example):
    return sim.run(example.train, world_size=1)[0][0]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_training_is_the_one_that_was_simulated(layout, example, losses, tmp_path):
    count, *options = layout
    simulated = sim.run(example.train, 20, "cpu", *options, world_size=count)
    predicted = sim.run(example.train, 20, "meta", *options, world_size=count)
    context, tensor, experts, method, rotate = map(str, options)
    done = mpiexec.run(
        count, str(EXAMPLE), "--log", str(tmp_path / "log"), "--context", context, "--tensor", tensor, "--experts-over", experts,
        "--method", method, "--rotate", rotate,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    for rank in range(count):
        real = json.loads((tmp_path / f"log.{rank}").read_text())
        assert real["losses"] == pytest.approx(losses, rel=1e-5)
        log = simulated[rank][1]
        assert real["log"] == json.loads(json.dumps(log.what())) and len(log) > 100
        # On meta the numbers of tokens are not known: how many bytes they are is assumed, everything else is the same.
        assert len(log) == len(predicted[rank][1])
        different = [(one, other) for one, other in zip(log, predicted[rank][1]) if one.what() != other.what()]
        for one, other in different:
            assert one.kind in ("all_to_all", "all_reduce") and one.dtype == "float32"
            assert one._replace(bytes=0).what() == other._replace(bytes=0).what()
        # In each of 20 steps and 2 layers: to the experts and back, forward and backward, and sums over parts of experts.
        assert len(different) <= (20 * 2 * (4 + 2 * (tensor != "1")) if experts != "1" else 0)
