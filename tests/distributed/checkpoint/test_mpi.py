"""Checkpoints of processes that ``mpiexec`` starts."""

import os

import pytest

pytest.importorskip("metatensor_cpu")

from plugins import mpiexec

mpiexec.skip_without_mpi()

import metatensor as mt

from . import programs

MODULE = ("-m", "distributed.checkpoint.programs")


def run(count, program, folder):
    done = mpiexec.run(count, *MODULE, program, str(folder))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split("\n")[-2] == f"passed {count}"


@pytest.mark.slow
@pytest.mark.parametrize("saving, loading", [(4, 2), (2, 4)])
def test_saved_by_some_and_loaded_by_others(tmp_path, saving, loading):
    run(saving, "save", tmp_path)
    assert sorted(os.listdir(tmp_path)) == [".metadata", *(f"__{rank}_0.distcp" for rank in range(saving))]
    run(loading, "load", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("program", ["save_later", "fail"])
def test_in_threads_and_with_failures(tmp_path, program):
    run(2, program, tmp_path)
    run(2, "load", tmp_path)


@pytest.mark.slow
def test_each_process_reads_its_part(tmp_path):
    run(4, "load_into", tmp_path)


@pytest.mark.slow
def test_a_process_dies_while_saving(tmp_path):
    done = mpiexec.run(3, *MODULE, "die", str(tmp_path))
    assert done.returncode != 0 and "not reached" not in done.stdout
    found = mt.load(tmp_path, "cpu")
    assert found["model.w3"].tolist() == programs.whole(3).tolist() and found["step"] == 7
    run(2, "save", tmp_path)
    assert len(os.listdir(tmp_path)) == 3, os.listdir(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.05, 0.3, 0.61])
def test_a_process_is_killed_at_some_time(tmp_path, seconds):
    run(3, "save", tmp_path)
    done = mpiexec.run(3, *MODULE, "generations", str(tmp_path), "2", str(seconds))
    assert done.returncode != 0
    told = ([1] + [int(line) for line in done.stdout.split() if line.isdigit()])[-1]
    found = mt.load(tmp_path, "cpu")
    scale = int(found["half"][0].item())
    assert scale in (told, told + 1)
    assert found["step"] == 7 * scale
    for i in range(len(programs.PLACEMENTS)):
        assert found[f"model.w{i}"].tolist() == programs.whole(i, scale).tolist()
