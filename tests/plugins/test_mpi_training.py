"""Small models on MPI under each parallelism: losses are those of one process, communication is what simulated ranks predicted."""

import json

import pytest

from distributed.training import LAYOUTS, STEPS, layers_for, run
from metatensor.distributed import sim
from plugins import mpiexec

mpiexec.skip_without_mpi()


@pytest.fixture(scope="module")
def losses():
    found = {(model, layers): sim.run(run, model, "cpu", {}, layers, world_size=1)[0][0] for model in LAYOUTS for layers in (2, 4)}
    assert all(len(one) == STEPS and one[-1] < one[0] - 0.5 for one in found.values())
    return found


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_training_is_the_one_that_was_simulated(count, losses, tmp_path):
    done = mpiexec.run(count, "-m", "distributed.training", str(tmp_path), timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    real = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(count)]
    for model, layouts in LAYOUTS.items():
        for name, layout in layouts[count].items():
            # How many tokens experts on other ranks receive depends on values, everything else is known without them.
            device = "cpu" if model == "moe" and (layout.get("ep", 1) > 1 or layout.get("tp", 1) > 1) else "meta"
            predicted = sim.run(run, model, device, layout, world_size=count)
            told = 0
            for rank in range(count):
                found, log = real[rank][f"{model} {name}"]
                assert log == json.loads(json.dumps(predicted[rank][1].what())), (model, name, rank)
                assert len(log) > STEPS, (model, name)
                if found:
                    assert found == pytest.approx(losses[model, layers_for(**layout)], rel=1e-5), (model, name, rank)
                    told += 1
            assert told == count // layout.get("pp", 1), (model, name)
