"""The command, run as a process."""

import os
import subprocess
import sys

import pytest


def python(*args, **kwargs):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return subprocess.run([sys.executable, *args], capture_output=True, text=True, timeout=120, env=env, **kwargs)


@pytest.mark.slow
def test_python_m(models):
    pytest.importorskip("click")
    pytest.importorskip("rich")
    result = python("-m", "metatensor", "check", "models.py:Broken", "--input", "float32[3,8]")
    assert result.returncode == 1
    assert "second.1 (Linear)" in result.stdout
    result = python("-m", "metatensor", "check", "models.py:Net", "--input", "float32[3,8]")
    assert result.returncode == 0, result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["click", "rich"])
def test_without_its_packages_it_says_what_to_install(missing):
    code = f"""
import sys
sys.modules[{missing!r}] = None
from metatensor.cli import main
main()
"""
    result = python("-c", code)
    assert result.returncode == 1
    assert f"needs {missing}" in result.stderr
    assert "metatensor-device[cli]" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.slow
def test_importing_the_library_does_not_import_the_command_line():
    result = python("-c", "import metatensor, metatensor.analysis, sys; print({'click', 'rich'} & set(sys.modules))")
    assert result.stdout.strip() == "set()", result.stderr
