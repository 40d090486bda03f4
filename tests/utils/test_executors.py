"""Executors by name. Those of Dask and Ray are tested with these libraries in tests/interop."""

import operator
import os
import sys

import pytest

from metatensor.utils.executors import open_executor


def test_processes():
    with open_executor("process:2") as executor:
        assert list(executor.map(operator.add, range(5), range(5))) == [0, 2, 4, 6, 8]
        assert executor.submit(os.getpid).result() != os.getpid()
        with pytest.raises(ZeroDivisionError):
            executor.submit(operator.truediv, 1, 0).result()
    with pytest.raises(RuntimeError, match="shutdown"):
        executor.submit(os.getpid)


@pytest.mark.parametrize("name", ["", "processes", "Process", "thread:3"])
def test_unknown_names(name):
    with pytest.raises(ValueError, match=f"executor '{name}': expected one of 'process', "), open_executor(name):
        pass


@pytest.mark.parametrize("count", ["0", "-1", "two", "1.5", "²"])
def test_counts_of_processes(count):
    with pytest.raises(ValueError, match="expected a positive number of processes"), open_executor(f"process:{count}"):
        pass


def test_mpi_has_no_address():
    with pytest.raises(ValueError, match="the processes are those of mpiexec"), open_executor("mpi:4"):
        pass


@pytest.mark.parametrize("name, module, distribution",
                         [("dask", "dask.distributed", r"dask\[distributed\]"), ("ray", "ray", "ray"), ("mpi", "mpi4py.futures", "mpi4py")])
def test_libraries_that_are_not_installed(name, module, distribution, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=f"needs '{distribution}'"), open_executor(name):
        pass
