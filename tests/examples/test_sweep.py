"""The example that estimates many models on an executor."""

import sys

import pytest

from plugins import mpiexec


@pytest.mark.slow
def test_the_example(example, capsys, monkeypatch):
    sweep = example("sweep")
    monkeypatch.setattr(sys, "argv", ["sweep.py", "--executor", "process:1"])
    monkeypatch.setattr(sweep, "WIDTHS", (64,))
    monkeypatch.setattr(sweep, "DEPTHS", (1, 2))
    sweep.main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5 and lines[0].startswith("width    64  depth   1  length   512      4.2 M")
    assert lines[-1].startswith("mean of the materialized weights ")


@pytest.mark.slow
def test_mpi(example):
    mpiexec.skip_without_mpi()
    done = mpiexec.run(3, "-m", "mpi4py.futures", example("sweep").__file__, "--executor", "mpi")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].split()[:6] == ["width", "512", "depth", "6", "length", "512"] and done.stdout.count("\n") == 13
