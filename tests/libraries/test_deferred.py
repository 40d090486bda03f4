"""Compare a few models of timm and transformers, deferred and eager. ``deferred.py`` compares hundreds."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from metatensor.plugins import device_types


@pytest.mark.skipif("cpu" not in device_types(), reason="the cpu plugin is not installed")
@pytest.mark.parametrize(("library", "least"), [("timm", 4), ("transformers", 6)])
def test_models_are_what_they_would_have_been(library, least):
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed; make test-libraries installs it")
    script = Path(__file__).with_name("deferred.py")
    command = [sys.executable, str(script), library, "--models", str(least), "--largest", "2e6"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert f"{library}: {least} equal, 0 not" in done.stdout, done.stdout + done.stderr
