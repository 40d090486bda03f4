"""Run code in a new interpreter, in which PyTorch is not imported, so that metatensor can replace it."""

import os
import subprocess
import sys
import textwrap


def run(code, **env):
    """Run code in a new interpreter and return its output."""
    path = os.pathsep.join(p for p in sys.path if p)
    result = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120,
                            env={**os.environ, "PYTHONPATH": path, **env})  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()
