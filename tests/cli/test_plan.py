"""``metatensor plan``."""

import json

import pytest

MODEL = '''
import metatensor as mt
from metatensor import nn

class Net(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.embed, self.head = nn.Embedding(50, width), nn.Linear(width, 50)
    def forward(self, tokens, past=None):
        x = self.embed(tokens)
        past = x if past is None else mt.cat([past, x], 1)
        return {"logits": self.head(nn.functional.scaled_dot_product_attention(x, past, past)), "past": past}
'''


@pytest.fixture
def net(models):
    (models / "net.py").write_text(MODEL)
    return models


def plan(run, *options, code=0):
    """Run the command and return its output. Wrapped lines of errors are joined."""
    done = run("plan", "net.py:Net", *options)
    assert done.exit_code == code, done.output
    return " ".join(done.output.split()) if code else done.output


def test_serve(run, net):
    found = json.loads(plan(run, "--serve", "--devices", "t4", "--context", "100", "--batches", "1,4", "--json"))
    assert found["state_per_token"] == 32 * 4 and found["fits"] and [row["batch"] for row in found["decode"]] == [1, 4]
    text = plan(run, "--serve", "--devices", "2xt4", "--context", "100", "-i", "int64[batch,sequence]", "--args", "width=64")
    assert "1 x float32[batch, length, 64]" in text and "on each of 2 devices" in text


def test_device_map(run, net):
    found = json.loads(plan(run, "--devices", "t4,cpu:1GB", "--context", "100", "--json"))
    assert found["device_map"] == {"": 0} and found["seconds"] > 0
    assert "'': 0" in plan(run, "--devices", "t4,cpu:1GB", "--context", "10")
    assert "are missing" in plan(run, "--devices", "t4:3KB", code=1)


def test_lora(run, net):
    found = json.loads(plan(run, "--devices", "t4", "--context", "100", "--lora", "4", "--optimizer", "sgd", "--json"))
    assert found["training"] and found["device_map"] == {"": 0} and found["places"][0]["state_bytes"] > 0
    assert "a training step takes" in plan(run, "--devices", "t4", "--context", "10", "--lora", "4", "--recompute", "none")
    assert "--optimizer needs --train" in plan(run, "--devices", "t4", "--optimizer", "sgd", code=2)
    assert "lora" in plan(run, "--devices", "t4", "--lora", "4:*.no_such", code=2)


def test_serve_does_not_fit(run, net):
    assert "does not fit: " in plan(run, "--serve", "--devices", "t4", "--max-memory", "1KB", code=1)


@pytest.mark.parametrize(("options", "message"), [
    (("--devices", "t4", "--block", "16"), "--block needs --serve"),
    (("--serve", "--devices", "t4", "--batch", "2"), "--batch does not go with --serve"),
    (("--devices", "disk,t4"), "write the devices first"),
    (("--serve", "--devices", "t5"), "no device profile is named 't5'"),
    (("--serve", "--devices", "t4,h100"), "the devices differ"),
    (("--serve", "--devices", "t4", "-i", "int64[1,sequence]"), "no input has a size that is named batch"),
    (("--serve", "--devices", "t4", "-i", "int64[batch,sequence,h]"), "the size 'h' has no value"),
    (("--serve", "--devices", "t4", "--batches", "0"), "not a list of integers of at least 1"),
    (("--serve", "--devices", "t4", "--cache-dtype", "int8"), "not a floating-point dtype"),
])  # fmt: skip
def test_usage(run, net, options, message):
    assert message in plan(run, *options, code=2)


def test_a_model_that_fails(run, net):
    (net / "net.py").write_text(MODEL.replace("nn.Linear(width, 50)", "nn.Linear(7, 50)"))
    assert "RuntimeError" in plan(run, "--serve", "--devices", "t4", code=1)


TRAINED = MODEL + '''
class Layer(nn.Linear):
    def forward(self, x):
        return x + super().forward(x)

class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.layers = nn.Embedding(64, 32), nn.ModuleList([Layer(32, 32) for _ in range(4)])
    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return x

def loss(output, samples):
    return output.mean()
'''
TRAIN = ("--train", "--devices", "8xH100", "--global-batch", "16", "-i", "int64[batch,sequence]")


@pytest.fixture
def deep(net):
    (net / "net.py").write_text(TRAINED.replace("Net", "Other").replace("Deep", "Net"))
    return net


@pytest.mark.slow
def test_train(run, deep):
    found = json.loads(plan(run, *TRAIN, "--loss", "net.py:loss", "--json", "--top", "2", "--context", "64"))
    assert len(found["layouts"]) == 2 and found["global_batch"] == 16 and found["layouts"][0]["degrees"]["data"] >= 1
    text = plan(run, *TRAIN, "--explain", "0,1", "--what-if", "sequence=4096", "--tensor", "1", "--pipeline", "1",
                "--shard", "0,3")  # fmt: skip
    assert "takes" in text and "what if sequence = 4096" in text and "shard 3" in text and "tensor" not in text.partition("what if")[0]
    one = ("--tensor", "1", "--pipeline", "1", "--recompute", "none", "--micro-batches", "2", "--shard", "3")
    assert "data_parallel_shard_degree = 8" in plan(run, *TRAIN, *one, "--export", "torchtitan.toml")


@pytest.mark.slow
def test_train_does_not_fit(run, deep):
    assert "no layout fits: the nearest is" in plan(run, *TRAIN, "--max-memory", "1KB", code=1)


@pytest.mark.parametrize(("options", "message"), [
    (TRAIN[:3], "--train needs --global-batch"),
    (TRAIN[:5], "--train needs the inputs"),
    ((*TRAIN, "--serve"), "--serve and --train are different plans"),
    ((*TRAIN, "--block", "2"), "--block does not go with --train"),
    (("--devices", "t4", "--shard", "2"), "--shard needs --train"),
    ((*TRAIN, "--shard", "7"), "shard 7 is unknown; choose from 0, 1, 2, 3"),
    ((*TRAIN, "--explain", "1"), "give the ranks of two layouts"),
    ((*TRAIN, "--what-if", "color=3"), "is not NAME=VALUE with one of sequence"),
    pytest.param((*TRAIN, "--export", "x.sh"), "choose from torchtitan.toml", marks=pytest.mark.slow),
    ((*TRAIN[:2], "8xH10", *TRAIN[3:]), "H10"),
])  # fmt: skip
def test_usage_of_train(run, deep, options, message):
    assert message in plan(run, *options, code=2)


@pytest.mark.slow
def test_a_model_without_blocks(run, net):
    assert "the model is planned as one part" in plan(run, *TRAIN)


BLOCKS = """
import metatensor as mt
from metatensor import nn

class Net(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.embed = nn.Embedding(50, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(4))
    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return x

def loss(output, batch):
    return output.sum() / batch
"""
SWEPT = ("--train", "--devices", "2xH100", "--global-batch", "4", "-i", "int64[batch,sequence]", "--context", "32")


@pytest.fixture
def blocks(models):
    (models / "net.py").write_text(BLOCKS)
    return models


@pytest.mark.slow
def test_sweeps(run, blocks):
    options = (*SWEPT, "--loss", "net.py:loss", "--sweep", "plans.sqlite", "--executor", "process:1")
    first = run("plan", "net.py:Net", *options, "--json")
    assert first.exit_code == 0 and "candidates" in first.stderr
    again = run("plan", "net.py:Net", *options, "--json")
    assert "0 candidates" in again.stderr and json.loads(again.stdout) == json.loads(first.stdout)
    several = ("--over", "sequence=32,64", "--over", "devices=1xH100 | 2xH100")
    over = run("plan", "net.py:Net", *SWEPT, *several, "--sweep", "plans.sqlite", "--json")
    plans = json.loads(over.stdout)["plans"]
    assert [one["labels"] for one in plans] == [{"sequence": s, "devices": d} for s in (32, 64) for d in ("1xH100", "2xH100")]
    listed = run("plans", "plans.sqlite")
    assert listed.exit_code == 0 and len(listed.output.splitlines()) == 6 and "sequence 64" in listed.output
    assert len(json.loads(run("plans", "plans.sqlite", "--json", "--top", "1").output)["plans"]) == 5


@pytest.mark.slow
def test_pages_of_plans(run, blocks):
    pytest.importorskip("plotly", reason="Plotly is not installed")
    plan(run, *SWEPT, "--html", "one.html", "--sweep", "plans.sqlite")
    assert run("plans", "plans.sqlite", "--html", "all.html").exit_code == 0
    for name in ("one.html", "all.html"):
        assert "Layouts of a training step: Net" in (blocks / name).read_text()


def test_wrong_sweeps(run, blocks):
    (blocks / "text").write_text("no database " * 100)
    for options, message in (
        (("--over", "color=1"), "is not NAME=VALUE with one of sequence"), (("--over", "sequence=1,x"), "is not an integer of at least 1"),
        (("--over", "sequence=8,16", "--explain", "0,1"), "--explain does not go with --over"),
        (("--executor", "cloud"), "expected one of"),
        (("--sweep", "text"), "not the file of a sweep"), (("--over", "sequence=1", "--over", "sequence=2"), "given twice"),
    ):  # fmt: skip
        assert message in plan(run, *SWEPT, *options, code=2)
    for options, message in (
        (("missing",), "there is no such file"), (("text",), "not the file of a sweep"), (("text", "--open"), "--open needs"),
    ):  # fmt: skip
        done = run("plans", *options)
        assert done.exit_code and message in " ".join(done.output.split())
