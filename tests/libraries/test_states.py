"""The state that a plan reports equals the caches that transformers' code has with values. Needs transformers.

``python -m benchmarks.states`` compares all causal language models.
"""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="transformers is not installed")

GROUPED, LATENT, WINDOW, HYBRID, RECURRENT = "llama", "deepseek_v3", "gemma2", "jamba", "mamba2"


@pytest.mark.slow
def test_states():
    kinds = [GROUPED, LATENT, WINDOW, HYBRID, RECURRENT, "gpt2", "bloom", "gpt_oss", "rwkv"]
    done = subprocess.run([sys.executable, "-m", "benchmarks.states", *kinds], capture_output=True, text=True, timeout=300,
                          cwd=Path(__file__).parent.parent.parent)  # fmt: skip
    assert f"{len(kinds)} equal, 0 different, 0 not run" in done.stdout, done.stdout + done.stderr[-2000:]
