"""The commands ``estimate``, ``check``, ``inspect`` and ``devices``, run in this process."""

import json
import struct
from types import SimpleNamespace

import pytest

import metatensor as mt

X = ("--input", "float32[3,8]")


# estimate ---------------------------------------------------------------------------


def test_estimate(models, run):
    result = run("estimate", "models.py:Net", *X)
    assert result.exit_code == 0, result.output
    for text in ("Net", "0-1", "Linear x 2", "144", "float32[3,8]", "activations", "memory"):
        assert text in result.stdout


def test_estimate_json(models, run):
    result = run("estimate", "models.py:Net", "--args", "16, depth=3", "--input", "float32[3,16]", "--json")
    found = json.loads(result.stdout)
    assert found["parameters"] == 3 * (16 * 16 + 16)
    assert found["flops"] == 3 * 2 * 3 * 256
    assert [row["path"] for row in found["modules"]] == ["", "layers", "layers.0", "layers.1", "layers.2"]
    assert result.stderr == ""


@pytest.mark.parametrize("target", ["models.py:wide", "models:wide", "./models.py:wide"])
def test_targets(models, run, target):
    found = json.loads(run("estimate", target, "--input", "float32[1,64]", "--json").stdout)
    assert found["parameters"] == 2 * (64 * 64 + 64)


def test_more_targets(models, run):
    for target in ("models.py:zoo.small", "models.py:model"):
        assert json.loads(run("estimate", target, *X, "--json").stdout)["parameters"] == 144
    found = json.loads(run("estimate", "models.py:make_product", *X, "--input", "float32[8,2]", "--json").stdout)
    assert found["output"] == "float32[3,2]"


def test_estimate_with_named_inputs_and_values(models, run):
    found = json.loads(run("estimate", "models.py:Net", *X, "--input", "mask=bool[3,1]", "--input", "scale=2", "--json").stdout)
    assert found["inputs"] == ["float32[3,8]", {"mask": "bool[3,1]", "scale": 2}]


def test_estimate_dtype(models, run):
    found = json.loads(run("estimate", "models.py:Net", "--dtype", "bf16", "--input", "bf16[3,8]", "--json").stdout)
    assert found["parameter_bytes"] == 2 * 144
    assert found["output"] == "bfloat16[3,8]"
    assert mt.get_default_dtype() is mt.float32


def test_estimate_depth(models, run):
    shallow = run("estimate", "models.py:Net", *X, "--depth", "0").stdout
    assert "Linear" not in shallow
    assert "144" in shallow


def test_progress_only_on_a_terminal_and_only_after_a_while(capsys):
    from metatensor.cli.estimate import PATIENCE, _Bar

    with _Bar() as bar:
        bar.wanted = False
        bar(1, 2, "a")
        assert bar.bar is None
        bar.wanted = True
        bar(1, 2, "a")
        assert bar.bar is None
        bar.start -= 2 * PATIENCE
        bar(1, 2, "a")
        bar(3, 2, "b")
        assert bar.bar is not None
        assert (bar.bar.tasks[0].completed, bar.bar.tasks[0].total) == (3, 3)
    assert capsys.readouterr().out == ""


def test_estimate_of_a_model_that_fails(models, run):
    result = run("estimate", "models.py:Broken", *X)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "second.1 (Linear)" in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("models.py:Nothing",), "no 'Nothing'; it defines Net, Broken"),
        (("models.py",), "FILE.py:NAME"),
        (("models.py:",), "FILE.py:NAME"),
        (("missing.py:Net",), "there is no file 'missing.py'"),
        (("missing:Net",), "there is no module 'missing'"),
        (("models.py:number",), "of type int"),
        (("models.py:model", "--args", "3"), "already"),
        (("models.py:Net", "--input", "int64"), "lacks a shape"),
        (("models.py:Net", "--args", "x"), "a string needs quotes"),
        (("models.py:Net", "--dtype", "int64"), "floating-point"),
        (("models.py:Net", "--dtype", "nothing"), "floating-point"),
        (("models.py:Net", "-i", "scale=1", "-i", "scale=2"), "twice"),
    ],
)
@pytest.mark.parametrize("command", ["estimate", "check"])
def test_usage_errors(models, run, command, args, message):
    result = run(command, *args)
    assert result.exit_code == 2, result.output
    assert message in " ".join(result.stderr.replace("│", " ").split())


# check --------------------------------------------------------------------------------


def test_check_passes(models, run):
    result = run("check", "models.py:Net", *X, "--max-params", "144", "--max-bytes", "10KB", "--max-flops", "1M")
    assert result.exit_code == 0
    assert "Net: ok: 144 parameters" in result.stdout


def test_check_names_module_and_shapes(models, run):
    result = run("check", "models.py:Broken", *X)
    assert result.exit_code == 1
    for text in ("Broken: failed", "second.1 (Linear)", "float32[3,4]", "float32[2,5]", "models.py:"):
        assert text in result.stdout


def test_check_json(models, run):
    result = run("check", "models.py:Broken", *X, "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert found["ok"] is False
    assert found["error"]["module"] == "second.1"
    assert found["error"]["op_inputs"][:2] == ["float32[3,4]", "float32[2,5]"]
    found = json.loads(run("check", "models.py:Net", *X, "--json").stdout)
    assert (found["ok"], found["parameters"]) == (True, 144)


@pytest.mark.parametrize("budget", [("--max-params", "143"), ("--max-bytes", "100B"), ("--max-flops", "10")])
def test_check_over_budget(models, run, budget):
    result = run("check", "models.py:Net", *X, *budget)
    assert result.exit_code == 1
    assert "over budget" in result.stdout
    assert f"over the budget of {int(budget[1].removesuffix('B'))}" in result.stdout


def test_check_of_a_model_that_cannot_be_built(models, run):
    result = run("check", "models.py:cannot")
    assert result.exit_code == 1
    assert "ValueError: no such configuration" in result.stdout
    assert "models.py:" in result.stdout
    (models / "bad.py").write_text("import nothing_like_it\n")
    result = run("check", "bad.py:Net")
    assert result.exit_code == 1
    assert "nothing_like_it" in result.stdout


def test_check_wrong_number_of_inputs(models, run):
    result = run("check", "models.py:Net")
    assert result.exit_code == 1
    assert "TypeError" in result.stdout


def test_bad_budgets(models, run):
    result = run("check", "models.py:Net", *X, "--max-bytes", "plenty")
    assert result.exit_code == 2
    assert "10GB" in result.stderr


# inspect --------------------------------------------------------------------------------


@pytest.fixture
def checkpoint(tmp_path):
    header = {
        "__metadata__": {"format": "pt"},
        "layer.weight": {"dtype": "BF16", "shape": [3, 4], "data_offsets": [0, 24]},
        "layer.bias": {"dtype": "F32", "shape": [3], "data_offsets": [24, 36]},
    }
    text = json.dumps(header).encode()
    path = tmp_path / "model.safetensors"
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(36))
    return path


def test_inspect(checkpoint, run):
    result = run("inspect", str(checkpoint))
    assert result.exit_code == 0
    for text in ("layer.weight", "bfloat16", "[3, 4]", "24", "2 tensors, 15 elements", "format: pt", "safetensors"):
        assert text in result.stdout


def test_inspect_json(checkpoint, run):
    found = json.loads(run("inspect", str(checkpoint), "--json").stdout)
    assert found["tensors"]["layer.bias"] == {"dtype": "float32", "shape": [3], "bytes": 12, "offset": checkpoint.stat().st_size - 12}
    assert found["bytes"] == 36


def test_inspect_of_what_is_none(tmp_path, run):
    path = tmp_path / "cut.safetensors"
    path.write_bytes(b"\x10\0\0\0\0\0\0\0{}")
    result = run("inspect", str(path))
    assert result.exit_code == 1
    assert "truncated" in result.stderr
    assert run("inspect", str(tmp_path / "missing")).exit_code == 2


# devices --------------------------------------------------------------------------------


def test_devices(run):
    result = run("devices")
    assert result.exit_code == 0
    assert "meta" in result.stdout
    rows = json.loads(run("devices", "--json").stdout)
    meta = next(row for row in rows if row["name"] == "meta")
    assert meta["state"] == "available"


def test_devices_says_why_one_is_broken(run, monkeypatch):
    from metatensor import plugins

    row = plugins.PluginInfo("devices", "tpu", "metatensor-tpu", "1.2", "broken", "ImportError: no libtpu", ())
    monkeypatch.setattr(plugins, "report", lambda: [row])
    output = run("devices").stdout
    for text in ("tpu", "metatensor-tpu", "1.2", "broken", "ImportError: no libtpu"):
        assert text in output


def test_devices_lists_the_ops_without_a_kernel(run, monkeypatch):
    found = json.loads(run("devices", "--ops", "cpu", "--json").stdout)
    assert [name for name in found["missing"] if "::" not in name] == []  # other tests define operators
    assert {"add", "linalg.svd", "max.dim", "nn.functional.conv2d"} <= set(found["kernel"])
    assert not {"view", "is_contiguous", "item"} & set(found["kernel"])  # a view, and operators that the host computes
    assert f"{len(found['missing'])} missing" in run("devices", "--ops", "cpu").stdout

    from metatensor import plugins

    backend = plugins.backend("cpu")
    monkeypatch.setattr(backend, "kernel", lambda name, own=backend.kernel: None if name in ("mm", "max.dim") else own(name))
    text = run("devices", "--ops", "cpu").stdout
    assert "missing        mm (core)" in text and "decomposition  max.dim" in text


def test_devices_has_no_ops_of_devices_that_compute_nothing(run):
    assert run("devices", "--ops", "meta").exit_code == 2
    unknown = run("devices", "--ops", "abacus")
    assert unknown.exit_code == 1 and "abacus" in unknown.output


# The group of commands ------------------------------------------------------------------


def test_help_and_version(run):
    overview = run("--help").stdout
    for name in ("check", "devices", "estimate", "inspect"):
        assert name in overview
        assert "Usage: metatensor " + name in run(name, "--help").stdout
    assert mt.__version__ in run("--version").stdout
    assert run("nothing").exit_code == 2


def test_commands_of_plugins(run, monkeypatch):
    import click

    from metatensor import plugins

    @click.command("hello")
    def hello():
        """Say hello."""
        click.echo("hello from a plugin")

    @click.command("check")
    def impostor():
        click.echo("not the real one")

    monkeypatch.setattr(plugins, "commands", lambda: [hello, impostor, SimpleNamespace(name="no command")])
    assert "Say hello." in run("--help").stdout
    assert run("hello").stdout == "hello from a plugin\n"
    assert "not the real one" not in run("check", "--help").stdout


# sizes that depend on values --------------------------------------------------------

SELECTS = """
import metatensor as mt
from metatensor import nn


class Selects(nn.Module):
    def __init__(self):
        super().__init__()
        self.rates = [x.item() for x in mt.linspace(0, 1, 3)]
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        return self.layer(x[x.sum(1) > 0])
"""


def test_estimate_assume(models, run):
    (models / "selects.py").write_text(SELECTS)
    result = run("estimate", "selects.py:Selects", *X)
    assert result.exit_code == 1 and "mask" in result.stderr
    bound = run("estimate", "selects.py:Selects", *X, "--assume", "bounds")
    assert bound.exit_code == 0 and "float32[3,8]" in bound.stdout and "upper bounds" in " ".join(bound.stdout.split())
    for options in ((), ("--train",)):
        found = json.loads(run("estimate", "selects.py:Selects", *X, "--assume", "nonzero=2", "--json", *options).stdout)
        assert [(each["op"], each["size"], each["kind"]) for each in found["assumptions"]] == [("nonzero", 2, "given")]
    assert found["forward_flops"] == 2 * 2 * 64


@pytest.mark.parametrize("text", ["tokens=3", "nonzero", "nonzero=x", "nonzero=-1"])
def test_bad_figures(models, run, text):
    result = run("estimate", "models.py:Net", *X, "--assume", text)
    assert result.exit_code == 2 and "--assume" in result.stderr
