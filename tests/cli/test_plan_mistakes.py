"""Mistakes in `plan`: each gets an answer that says what is missing, and no traceback."""

import pytest

MODELS = """
import metatensor as mt
from metatensor import nn

class Net(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.embed = nn.Embedding(50, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(4))
    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return x

class Crash(Net):
    def forward(self, tokens):
        return self.embed(tokens).view(3, 3)

class Branch(Net):
    def forward(self, tokens):
        x = self.embed(tokens)
        return x if x.sum() > 0 else -x

class NoTensor(Net):
    def forward(self, tokens):
        return [None, "x"]

class Exits(Net):
    def forward(self, tokens):
        raise SystemExit(3)

def number(output):
    return 3

def whole(output):
    return output

seven = 7

def fails():
    raise RuntimeError("no model today")
"""
TRAIN = ("--train", "--devices", "8xH100", "--global-batch", "16", "-i", "int64[batch,32]", "--recompute", "none")


@pytest.mark.parametrize(("target", "options", "code", "message"), [
    ("Crash", TRAIN, 1, "view"), ("Branch", TRAIN, 1, "depends on the values"),
    ("NoTensor", TRAIN, 1, "--loss FILE.py:NAME names a function"),
    ("Exits", TRAIN, 1, "the code ended the process"), ("seven", TRAIN, 2, "neither a model nor a class or function"),
    ("fails", TRAIN, 1, "no model today"), ("Missing", TRAIN, 2, "it defines Net, Crash"),
    ("Net", (*TRAIN, "--loss", "net.py:number"), 2, "the loss must be a tensor with one element, got a int from net.py:number"),
    ("Net", (*TRAIN, "--loss", "net.py:whole"), 2, "got a tensor of shape [16, 32, 64] from net.py:whole; return its mean or sum"),
    pytest.param("Net", (*TRAIN, "--max-memory", "1KB"), 1, "no layout fits: the nearest is", marks=pytest.mark.slow),
    ("Net", (*TRAIN, "--tensor", "3"), 1, "tensor 3 does not divide 8 devices; possible values are 1, 2, 4, 8"),
    ("Net", (*TRAIN, "--pipeline", "8"), 1, "too few for 8 stages; at most 4 are possible"),
    ("Net", (*TRAIN, "--micro-batches", "64"), 1, "a global batch of 64 can"), ("Net", (*TRAIN, "--tensor", "0"), 2, "of at least 1"),
    ("Net", (*TRAIN, "--global-batch", "-4"), 2, "-4 is not in the range"), ("Net", (*TRAIN, "--price", "0"), 2, "not a positive price"),
    ("Net", (*TRAIN, "--devices", "12xH100"), 2, "nearest are 8xH100 (1 nodes) and 16xH100"),
    ("Net", (*TRAIN, "--devices", "8xH900"), 2, "Did you mean"), ("Net", (*TRAIN, "--devices", "0xH100"), 2, "needs at least one"),
    ("Net", (*TRAIN, "--devices", "8xH100 + 4xA100"), 2, "must have as many devices each"),
    ("Net", (*TRAIN, "-i", "int64[batch,h]"), 2, "the size 'h' has no value"),
    ("Net", (*TRAIN, "--optimizer", "none"), 2, "there are adadelta"),
    ("Net", (*TRAIN, "--precision", "int3"), 2, "choose from fp32"),
    pytest.param("Net", (*TRAIN, "--explain", "0,9999"), 2, "there are layouts 0 to", marks=pytest.mark.slow),
    ("Net", ("--serve", "--devices", "t4"), 1, "keeps nothing between two steps"),
    ("Net", ("--serve", "--devices", "t4,4090"), 2, "the devices differ"),
    ("Net", ("--serve", "--devices", "8xH100", "--tensor", "3"), 2, "possible sizes are 1, 2, 4, 8"),
    ("Net", ("--devices", "t4:-3GB"), 2, "'-3GB' is not a size"), ("Net", ("--devices", ""), 2, "is not of the form"),
    ("Net", ("--devices", "t4:1KB"), 1, "are missing"), ("Net", ("--devices", "cpu:1GB,t4"), 2, "write the devices first"),
])  # fmt: skip
def test_mistakes(run, models, target, options, code, message):
    (models / "net.py").write_text(MODELS)
    done = run("plan", f"net.py:{target}", *options)
    text = " ".join(done.output.split())
    assert message in text and "Traceback" not in text, done.output
    assert done.exit_code == code and (done.exception is None or isinstance(done.exception, SystemExit))


@pytest.mark.parametrize(("target", "message"), [
    ("missing.py:Net", "there is no file"), ("net.py", "is not of the form"), ("folder", "has no config.json"), ("broken.json", "as JSON"),
    ("bad.gguf", "does not begin with GGUF"),
])  # fmt: skip
def test_targets_that_are_no_models(run, models, target, message):
    (models / "net.py").write_text(MODELS)
    (models / "folder").mkdir()
    (models / "broken.json").write_text("{broken")
    (models / "bad.gguf").write_text("garbage")
    done = run("plan", target, "--devices", "t4")
    assert done.exit_code and message in " ".join(done.output.split())
