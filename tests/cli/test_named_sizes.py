"""Named sizes on the command line: expressions, figures of estimate and check, and messages."""

import json
from pathlib import Path

import pytest

SOURCE = """
from metatensor import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)
    def forward(self, data):
        return self.inner(data).relu()

class Two(nn.Module):
    def forward(self, image, mask):
        return image.sum(-1), mask.cumsum(0)

class Loop(nn.Module):
    def forward(self, data):
        for i in range(data.shape[0]):
            data = data + i
        return data
"""


@pytest.fixture(autouse=True)
def models(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("models.py").write_text(SOURCE)


def test_estimate(run):
    result = run("estimate", "models.py:Net", "-i", "float32[batch,8]", "--where", "batch in 1,8,32")
    assert result.exit_code == 0 and "FLOPs: 128*batch" in result.stdout and "in total: 96*batch + 288 B" in result.stdout
    assert "batch=32: 4,096 FLOPs, 2.05 KB at the peak, 3.36 KB in total" in result.stdout
    args = ("estimate", "models.py:Net", "-i", "data=float32[batch,h]", "--where", "batch in 1..50; h in 8", "--json")
    facts = json.loads(run(*args).stdout)
    assert facts["flops"] == "128*batch" and len(facts["rows"]) == 50 and facts["rows"][49]["flops"] == 6400
    assert run("estimate", "models.py:Net", "-i", "float32[2,8]").exit_code == 0


def test_estimate_of_models_without_a_program(run):
    result = run("estimate", "models.py:Loop", "-i", "float32[batch,8]", "--where", "batch in 1..64")
    assert result.exit_code == 0 and "the model runs at each of the sizes" in result.stderr
    assert "batch=2: 0 FLOPs, 128 B at the peak, 192 B in total" in result.stdout and "24 more combinations" in result.stdout


@pytest.mark.parametrize(("args", "words"), [
    (["--where", "batch in 1..4", "--train"], "leave out --train"), (["--where", "batch of 4"], "not of the form"),
    (["--where", "other in 1..4"], "the size 'batch' must be"),
])  # fmt: skip
def test_estimate_of_other_sizes(run, args, words):
    result = run("estimate", "models.py:Net", "-i", "float32[batch,8]", *args)
    assert result.exit_code == 2 and words in result.stderr


@pytest.mark.slow
def test_check_of_many_sizes(run):
    args = ("check", "models.py:Net", "-i", "float32[batch,8]", "--max-bytes", "30KB", "--json", "--where")
    facts, few = (json.loads(run(*args, where).stdout) for where in ("batch in 1..600", "batch in 300..310"))
    assert facts["sets"] == 600 and facts["failed"] == 291 and facts["first_failure"] == 309
    for row in few["results"]:
        other = facts["results"][row["sizes"]["batch"] - 1]
        assert [other[key] for key in ("ok", "parameters", "bytes", "flops") if key in row] == [
            row[key] for key in ("ok", "parameters", "bytes", "flops") if key in row]


@pytest.mark.parametrize("text", ["(h+26)//30", "-(-h//30)", "min(h,30)", "ceil(h/16)", "h % 7 + 1"])
def test_expressions_in_shapes(run, text):
    result = run("trace", "models.py:Two", "-i", "float32[batch,h]", "-i", f"float32[batch,{text}]",
                 "--where", "batch in 1..9; h in 1..500", "-o", "two.mtp")
    assert result.exit_code == 0, result.stderr


def test_sizes_that_do_not_follow(run):
    result = run("trace", "models.py:Two", "-i", "float32[batch,3]", "-i", "float32[batch,(h+26)//30]", "--where",
                 "batch in 1..9; h in 1..500", "-o", "two.mtp")
    assert result.exit_code == 1 and "the size 'h' is not determined" in result.stderr and "quotients" in result.stderr
    result = run("trace", "models.py:Net", "-i", "float32[batch,h]", "--where", "batch in 1..64; h in 4..9", "-o", "net.mtp")
    assert "first run in the middle of the ranges of --where: batch=33, h=7" in result.stderr


def test_training_steps(run):
    result = run("trace", "models.py:Net", "-i", "float32[batch,8]", "--where", "batch in 2..64", "--train", "-o", "step.mtp")
    assert result.exit_code == 0, result.stderr


def test_pages_show_names(run):
    assert run("trace", "models.py:Net", "-i", "float32[batch,8]", "--where", "batch in 1..64", "-o", "net.html").exit_code == 0
    assert '["batch", 8]' in Path("net.html").read_text() or '["batch",8]' in Path("net.html").read_text()
