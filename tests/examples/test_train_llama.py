"""The example that trains Llama with data, tensor and pipeline parallelism."""

import pytest

from metatensor.distributed import sim
from plugins import mpiexec

pytest.importorskip("metatensor_cpu")
pytestmark = pytest.mark.slow


@pytest.fixture
def llama(example):
    return example("train_llama")


def losses_of(results):
    return next(losses for losses, _ in results if losses)


ALONE = {}  # the losses of one process by the number of steps


def alone(llama, steps):
    if steps not in ALONE:
        ALONE[steps] = losses_of(simulated(llama, steps, dp=1))
    return ALONE[steps]


def simulated(llama, steps, device="cpu", ranks="all", **sizes):
    count = 1
    for size in sizes.values():
        count *= size
    return sim.run(llama.train, llama.MODELS["tiny"], sizes, device, steps=steps, world_size=count, ranks=ranks)


@pytest.mark.parametrize("sizes", [{"tp": 2}, {"dp": 2}, {"pp": 2}, {"dp": 2, "tp": 2}, {"pp": 2, "tp": 2}, {"pp": 2, "dp": 2, "tp": 2}])
def test_losses_are_those_of_one_process(llama, sizes):
    one = alone(llama, 3)
    assert len(one) == 3
    assert losses_of(simulated(llama, 3, **sizes)) == pytest.approx(one, rel=1e-5)


def test_what_is_predicted_without_data_is_communicated(llama):
    sizes = {"pp": 2, "dp": 2, "tp": 2}
    run, predicted = simulated(llama, 1, **sizes), simulated(llama, 1, "meta", "all", **sizes)
    for (_, log), (_, expected) in zip(run, predicted, strict=True):
        assert len(log) > 50 and log.what() == expected.what()


def test_one_rank_of_each_stage_is_enough(llama):
    every, some = (simulated(llama, 1, "meta", ranks, pp=2, dp=2, tp=2) for ranks in ("all", "groups"))
    assert some.classes == [[0, 1, 2, 3], [4, 5, 6, 7]]
    for (_, log), (_, expected) in zip(some, every, strict=True):
        found, wanted = log.bytes_by_kind(), expected.bytes_by_kind()
        # Stages that run tell the next one the shapes of what they send, once.
        messages = [wanted.pop(kind, 0) - found.pop(kind, 0) for kind in ("send", "recv")]
        assert found == wanted and all(0 <= size < 100 for size in messages)


def test_512_ranks(llama):
    sizes = {"pp": 8, "dp": 8, "tp": 8}
    results = sim.run(llama.train, llama.MODELS["405b"], sizes, "meta", 8192, 64, 8, 1, world_size=512, ranks="groups")
    assert [len(members) for members in results.classes] == [64] * 8
    # A stage sends each microbatch of a "dp" rank, an eighth of its sequence in float32, to the next.
    assert results[0][1].bytes_by_kind()["send"] == 8 * 8192 // 8 * 16384 * 4


@pytest.mark.parametrize("mesh", ["dp=2,tp=2", "pp=2,tp=2"])
def test_processes(llama, mesh):
    mpiexec.skip_without_mpi()
    done = mpiexec.run(4, llama.__file__, "--cpu", "--mesh", mesh)
    assert done.returncode == 0, done.stderr
    expected = " ".join(f"{loss:.4f}" for loss in alone(llama, 20))
    lines = {line for line in done.stdout.splitlines() if line.startswith("losses")}
    assert lines == {f"losses {expected}"}
