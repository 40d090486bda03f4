"""Executors by name. Those of Dask and Ray are tested with these libraries in tests/interop."""

import multiprocessing
import operator
import os
import signal
import subprocess
import sys
import time

import pytest

from metatensor.utils.executors import open_executor


@pytest.mark.slow
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


def test_an_interrupt_ends_the_workers():
    others = set(multiprocessing.active_children())
    with pytest.raises(KeyboardInterrupt), open_executor("process:1") as executor:
        executor.submit(time.sleep, 300)
        assert executor.submit(os.getpid) and set(multiprocessing.active_children()) - others
        raise KeyboardInterrupt
    assert not set(multiprocessing.active_children()) - others


def test_workers_end_with_a_process_that_is_killed():
    code = ("import os, signal, sys; from metatensor.utils.executors import open_executor\n"
            "if __name__ == '__main__':\n"
            "    with open_executor('process:1') as executor:\n"
            "        print(executor.submit(os.getpid).result(), flush=True)\n"
            "        os.kill(os.getpid(), signal.SIGKILL)")  # fmt: skip
    # The worker has the other end of the pipe too, so this returns only if it ends.
    found = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=120)
    assert found.returncode == -signal.SIGKILL and int(found.stdout) > 0
