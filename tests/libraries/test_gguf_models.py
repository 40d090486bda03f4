"""A GGUF file as the model of ``metatensor plan`` and ``metatensor estimate``, built by transformers from its header."""

import importlib.util
import json
import os
import struct
import subprocess
import sys

import pytest

from checkpoint.samples import gguf, text

needs = pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="transformers is not installed")
NUMBER, FLOAT, TEXT, Q4_0, F32 = 4, 6, 8, 2, 0
LLAMA = {"context_length": 512, "block_count": 3, "feed_forward_length": 128, "embedding_length": 64, "attention.head_count": 4,
         "attention.head_count_kv": 2, "rope.dimension_count": 16}  # fmt: skip


def header(architecture="llama", numbers=LLAMA, tensors=(("token_embd.weight", (64, 96), Q4_0, 0), ("output.weight", (64, 96), F32, 3456))):
    """Return a file whose tensors are an embedding of 96 words in blocks of 18 bytes and an output layer in float32."""
    pairs = [("general.architecture", TEXT, text(architecture)),
             (f"{architecture}.attention.layer_norm_rms_epsilon", FLOAT, struct.pack("<f", 1e-5))]  # fmt: skip
    pairs += [(f"{architecture}.{name}", NUMBER, struct.pack("<I", value)) for name, value in numbers.items()]
    return gguf(tensors, pairs, bytes(3456 + 4 * 64 * 96))


def run(path, *arguments):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    return subprocess.run([sys.executable, "-m", "metatensor", *arguments[:1], str(path), *arguments[1:]], capture_output=True, text=True,
                          timeout=300, env=env)  # fmt: skip


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "small.gguf"
    path.write_bytes(header())
    return path


@needs
def test_plan(file):
    done = run(file, "plan", "--serve", "--devices", "t4", "--context", "256", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["model"] == "LlamaForCausalLM" and found["state_per_token"] == 3 * 2 * 2 * 16 * 2  # float16
    assert found["weight_bytes"] == 3456 + 4 * 64 * 96  # as the header says
    changed = run(file, "plan", "--serve", "--devices", "t4", "--context", "256", "--json", "--args", "num_hidden_layers=1")
    assert json.loads(changed.stdout)["state_per_token"] == 2 * 2 * 16 * 2


@needs
def test_estimate(file):
    done = run(file, "estimate", "-i", "int64[1,8]", "--json")
    assert json.loads(done.stdout)["parameters"] == 2 * 96 * 64 + 64 + 3 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128 + 2 * 64)


@needs
@pytest.mark.parametrize(("content", "message"), [
    (header("unheard-of"), "no names for its metadata"),
    (gguf(), "does not name its architecture"),
    (b"GGUF", "Error"),
])  # fmt: skip
def test_errors(tmp_path, content, message):
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)
    done = run(path, "plan", "--serve", "--devices", "t4")
    assert done.returncode in (1, 2) and message in done.stderr and "Traceback" not in done.stderr
