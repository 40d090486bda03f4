"""Layouts of plans on MPI processes: losses are those of one process, communication is that of simulated ranks on meta."""

import json
from collections import Counter

import pytest

import metatensor as mt
from metatensor.distributed import sim
from plan import chosen_on_mpi
from plan.on_mpi import BATCH, LAYOUTS, LENGTH, STEPS, VOCABULARY, decoder, loss, run, searched
from plugins import mpiexec

mpiexec.skip_without_mpi()


def trained(make, samples, targets, loss, optimizer):
    """Return the losses of a few steps of one process."""
    with mt.device("cpu"):
        model, losses = make(), []
        updates = optimizer(model.parameters())
        for _ in range(STEPS):
            value = loss(model(samples), targets)
            value.backward()
            updates.step()
            updates.zero_grad()
            losses.append(value.item())
    return losses


def alone():
    mt.manual_seed(0)
    with mt.device("cpu"):
        x, target = (mt.randint(0, VOCABULARY, (BATCH, LENGTH)) for _ in range(2))
    return trained(decoder, x, target, loss, lambda ps: mt.optim.AdamW(ps, lr=0.01))


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


@pytest.mark.slow
def test_chosen_plans_run_on_mpi(tmp_path):
    """The fastest plans of three models have the planned collectives, and the planned memory within a tenth."""
    done = mpiexec.run(4, "-m", "plan.chosen_on_mpi", str(tmp_path), timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    real = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(4)]
    for name, (make, _, _) in chosen_on_mpi.MODELS.items():
        plan = chosen_on_mpi.chosen(name)
        samples, targets = chosen_on_mpi.made(name, "cpu")
        mt.manual_seed(0)
        expected = trained(make, samples, targets, chosen_on_mpi.loss, lambda ps: mt.optim.SGD(ps, lr=0.1))
        assert expected[-1] < expected[0]
        simulated = sim.run(chosen_on_mpi.run, plan, name, "meta", world_size=4)
        for rank in range(4):
            place, losses, log, peak = real[rank][name]
            assert losses == pytest.approx(expected, rel=1e-5), (name, rank)
            assert (place, log, peak) == (simulated[rank][0], simulated[rank][2], simulated[rank][3]), (name, rank)
            calls = Counter((kind, nbytes, 2 if kind in ("send", "recv") else len(group)) for kind, nbytes, group in log if nbytes)
            assert calls == plan.collectives()[place], (name, rank)
            passes = sum(plan.best.memory[place][part] for part in ("saved", "temporary", "communication"))
            assert peak == pytest.approx(passes, rel=0.1), (name, rank)
