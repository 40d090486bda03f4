"""Layouts of a plan on MPI processes: losses are those of one process, communication is that of simulated ranks on meta."""

import json

import pytest

import metatensor as mt
from metatensor.distributed import sim
from plan.on_mpi import BATCH, LAYOUTS, LENGTH, STEPS, VOCABULARY, decoder, loss, run, searched
from plugins import mpiexec

mpiexec.skip_without_mpi()


def alone():
    mt.manual_seed(0)
    with mt.device("cpu"):
        x, target = (mt.randint(0, VOCABULARY, (BATCH, LENGTH)) for _ in range(2))
        model, losses = decoder(), []
        optimizer = mt.optim.AdamW(model.parameters(), lr=0.01)
        for _ in range(STEPS):
            value = loss(model(x), target)
            value.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(value.item())
    return losses


@pytest.mark.slow
def test_planned_layouts_run_on_mpi(tmp_path):
    done = mpiexec.run(4, "-m", "plan.on_mpi", str(tmp_path), timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    real = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(4)]
    plan, expected = searched(), alone()
    assert expected[-1] < expected[0] - 0.5
    for i, degrees in enumerate(LAYOUTS):
        simulated = sim.run(run, plan, degrees, "meta", world_size=4)
        for rank in range(4):
            losses, log = real[rank][i]
            assert losses == pytest.approx(expected, rel=1e-5), (degrees, rank)
            assert log, (degrees, rank)
            assert log == simulated[rank][1], (degrees, rank)
