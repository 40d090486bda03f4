"""``metatensor fit``."""

import json

import pytest

from cli.test_process import python

pytest.importorskip("click")
pytest.importorskip("rich")

COUNTED = """
import metatensor as mt
from metatensor import nn

class Counted(nn.Module):
    def __init__(self):
        super().__init__()
        open("built.txt", "a").write("x")
        self.layers = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8)])

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x)
        return x if mask is None else x * mask

def plain(x):
    return x @ x.mT

def total(out):
    return out.sum()

class Fixed(nn.Linear):
    def __init__(self):
        super().__init__(8, 8)
"""


@pytest.fixture
def counted(models):
    """The folder with a file of models that count how often they are built."""
    (models / "counted.py").write_text(COUNTED)
    return models


LINEAR = ("fit", "torchless.py:layer", "--train", "--optimizer", "sgd")


@pytest.fixture
def layer(models):
    (models / "torchless.py").write_text("from metatensor import nn\n\ndef layer():\n    return nn.Linear(100, 100, bias=False)\n")
    return models


def test_a_step_that_fits(layer, run):
    """A step needs 80,008 bytes and 800 for each sample: see tests/analysis/test_fit.py."""
    result = run(*LINEAR, "-i", "float32[1000,100]", "--max-memory", "4MB")
    assert result.exit_code == 0, result.output
    assert "one training step of 1,000 samples fits in 4.00 MB (--max-memory)" in result.stdout
    assert "largest batch that fits: 4,899 " in result.stdout and "batch 4,900 " in result.stdout


def test_a_step_that_does_not_fit(layer, run):
    arguments = (*LINEAR, "-i", "float32[10000,100]", "--max-memory", "4MB")
    result = run(*arguments)
    assert result.exit_code == 1 and "4 micro-batches of 2,500 " in result.stdout and "+ " not in run(*arguments, "--top", "1").stdout
    found = json.loads(run(*arguments, "--device", "t4", "--json").stdout)
    assert (found["fits"], found["limit"], found["limit_of"], found["device"]) == (False, 4_000_000, "--max-memory", "t4")
    assert found["requested"]["bytes"] == 80_008 + 800 * 10_000 and found["requested"]["seconds"] > 0
    assert found["largest"]["setting"]["batch"] == 4899 and found["largest"]["bytes"] == 80_008 + 800 * 4899
    assert found["above"]["setting"]["batch"] == 4900 and found["above"]["fits"] is False
    assert found["changes"][0]["changes"] == ["4 micro-batches of 2,500"] and found["changes"][0]["bytes"] == 120_008 + 800 * 2500


@pytest.mark.parametrize("inputs, options", [
    (["float32[batch,100]"], ["--batch", "10000"]), (["float32[n//4,100]"], ["--where", "n in 40000"]),
    (["float32[3,100]"], ["--batch", "10000"]),
    (["float32[batch,100]"], ["--where", "batch in 10000"]),
])  # fmt: skip
def test_the_requested_batch(layer, run, inputs, options):
    arguments = [part for text in inputs for part in ("-i", text)]
    found = json.loads(run(*LINEAR, *arguments, *options, "--max-memory", "4MB", "--json").stdout)
    assert found["requested"]["setting"]["batch"] == 10_000 and found["largest"]["setting"]["batch"] == 4899


def test_a_named_sequence(layer, run):
    arguments = (*LINEAR, "-i", "float32[batch,2*sequence,100]", "--batch", "5", "--max-memory", "4MB")
    found = json.loads(run(*arguments, "--sequence", "1000", "--json").stdout)
    last = found["changes"][-1]
    assert last["changes"] == ["sequence 489"] and last["bytes"] == 80_008 + 8000 * 489  # 490 need 4,000,008 bytes
    assert run(*arguments, "--sequence", "489").exit_code == 0 and run(*arguments, "--sequence", "490").exit_code == 1
    kept = json.loads(run(*arguments, "--sequence", "1000", "--keep", "sequence", "--json").stdout)
    assert not any(text.startswith("sequence") for change in kept["changes"] for text in change["changes"])


def test_the_batch_is_one_without_another(layer, run):
    found = json.loads(run(*LINEAR, "-i", "float32[batch,100]", "--device", "t4", "--json").stdout)
    assert found["fits"] and found["requested"]["setting"]["batch"] == 1 and found["limit_of"] == "the memory of t4"
    assert found["limit"] == 16106127360


def test_a_forward_pass(layer, run):
    arguments = ("fit", "torchless.py:layer", "-i", "float32[1000,100]", "--max-memory", "400kB", "--json")
    found = json.loads(run(*arguments).stdout)
    assert found["training"] is False and found["requested"]["bytes"] == 840_000 and found["largest"]["setting"]["batch"] == 450
    half = json.loads(run(*arguments, "--precision", "bf16").stdout)
    assert half["requested"]["bytes"] == 420_000 and half["largest"]["setting"]["batch"] == 950


@pytest.mark.slow
def test_a_model_is_built_once(counted, run):
    arguments = ("-i", "float32[64,8]", "-i", "mask=bool[64,1]", "--device", "t4")
    for command in (("fit", "--train", "--max-memory", "5kB"), ("fit",), ("estimate",), ("estimate", "--train"), ("check", "--train")):
        (counted / "built.txt").unlink(missing_ok=True)
        result = run(command[0], "counted.py:Counted", *command[1:], *arguments)
        assert result.exit_code == (1 if "--max-memory" in command else 0), result.output
        assert (counted / "built.txt").read_text() == "x"


def test_what_is_tried(counted, run):
    arguments = ("fit", "counted.py:Counted", "-i", "float32[64,8]", "--train", "--max-memory", "7kB", "--json")
    found = json.loads(run(*arguments, "--recomputes", "full, layers.0", "--optimizers", "", "--precisions", "bf16-mixed,bf16",
                           "--loss", "counted.py:total").stdout)  # fmt: skip
    used = {text for change in found["changes"] for text in change["changes"] if "micro" not in text}
    assert used and used <= {"recompute full", "recompute layers.0", "precision bf16", "precision bf16-mixed"}


def test_a_failure_names_the_module(models, run):
    for options in ((), ("--train",)):
        result = run("fit", "models.py:Broken", "-i", "float32[batch,8]", "--max-memory", "1GB", *options)
        assert result.exit_code == 1 and "module: second.1 (Linear)" in result.stderr and result.stdout == ""
    result = run("fit", "models.py:cannot", "-i", "float32[batch,8]", "--max-memory", "1GB")
    assert result.exit_code == 1 and "no such configuration" in result.stderr


@pytest.mark.parametrize("options", [
    (), ("--device", "abacus"), ("--device", "epyc-9654"), ("--max-memory", "much"), ("--max-memory", "0"), ("--precision", "bf12"),
])  # fmt: skip
def test_a_limit_is_needed(models, run, options):
    assert run("fit", "models.py:Net", "-i", "float32[3,8]", *options).exit_code == 2


@pytest.mark.parametrize("options", [
    ("--optimizer", "sgd"), ("--optimizers", "sgd"), ("--keep", "calm"), ("--sequence", "3"), ("--where", "w in 3"), ("--where", "w in"),
    ("--where", "n in 1,2"), ("--batch", "0"), ("--train", "--optimizer", "no"), ("--train", "--optimizers", "no"),
    ("--train", "--recompute", "no.*"), ("--train", "--recomputes", "no.*"), ("--precisions", "bf12"), ("-i", "float32[n]"),
    ("-i", "float32[sequence]"),
])  # fmt: skip
def test_usage_errors(models, run, options):
    result = run("fit", "models.py:Net", "-i", "float32[3,8]", "--max-memory", "1GB", *options)
    assert result.exit_code == 2 and "fit: " not in result.stderr


def test_inputs_without_a_batch(models, run):
    assert run("fit", "models.py:Net", "--max-memory", "1GB").exit_code == 2
    assert run("fit", "models.py:Net", "-i", "float32[]", "--max-memory", "1GB").exit_code == 2
    assert run("fit", "models.py:make_product", "-i", "float32[4,8]", "-i", "float32[8,2]", "--train", "--max-memory", "1GB").exit_code == 2
    assert run("fit", "models.py:make_product", "-i", "float32[batch,8]", "-i", "float32[8,2]", "--max-memory", "1MB").exit_code == 0


TORCHY = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x):
        return self.layer(x)

def loss(out):
    return torch.nn.functional.cross_entropy(out, torch.zeros(out.shape[0], dtype=torch.long, device=out.device))
"""


@pytest.mark.slow
@pytest.mark.parametrize("command", ["fit", "check", "estimate"])
def test_a_loss_written_for_pytorch(models, command):
    (models / "torchy.py").write_text(TORCHY)
    result = python("-m", "metatensor", command, "--torch", "torchy.py:Net", "-i", "float32[16,8]", "--train", "--loss", "torchy.py:loss",
                    "--device", "t4")  # fmt: skip
    assert result.returncode == 0, result.stderr
