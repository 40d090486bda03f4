"""``metatensor estimate --train``."""

import json

import pytest

X = ("--input", "float32[3,8]")


def train(run, *arguments):
    return run("estimate", "models.py:Net", *X, "--train", *arguments)


def test_table(models, run):
    result = train(run, "--by", "op", "--device", "h100-80gb")
    assert result.exit_code == 0, result.output
    for text in ("one training step with AdamW", "trainable parameters", "optimizer state", "FLOPs, computed again", "nn.functional.linear",
                 "h100-sxm-80gb", "are left", "not included"):  # fmt: skip
        assert text in result.stdout, text


def test_json(models, run):
    found = json.loads(train(run, "--json", "--device", "t4").stdout)
    assert found["trainable_parameters"] == 144 and found["gradient_bytes"] == 4 * 144
    assert found["device"]["fits"] is True and found["device"]["memory"] > 10e9
    assert found["forward_flops"] == 2 * 2 * 3 * 64 and found["excluded"]


def test_what_does_not_fit(models, run, tmp_path):
    result = run("estimate", "models.py:Net", "--args", "4096, depth=2", "-i", "float32[65536,4096]", "--train", "--device", "t4")
    assert "does not fit" not in result.stdout
    result = run("estimate", "models.py:Net", "--args", "65536, depth=1", "-i", "float32[1,65536]", "--train", "--device", "t4")
    assert "does not fit" in result.stdout and "are missing" in result.stdout


def test_options(models, run):
    plain = json.loads(train(run, "--json").stdout)
    some = json.loads(train(run, "--json", "--optimizer", "sgd", "--precision", "bf16", "--grad-accumulation", "3").stdout)
    assert some["optimizer"] == "SGD" and some["optimizer_bytes"] == 0 and some["parameter_bytes"] * 2 == plain["parameter_bytes"]
    assert some["forward_flops"] == 3 * plain["forward_flops"]
    full = json.loads(train(run, "--json", "--recompute", "full", "--foreach").stdout)
    assert full["recomputed"] == ["layers.0", "layers.1"]
    loss = json.loads(train(run, "--json", "--loss", "models.py:squared").stdout)
    assert loss["saved_bytes"] > plain["saved_bytes"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--train", "--optimizer", "sdg"), "there is no optimizer 'sdg'"),
        (("--train", "--recompute", "blocks.*"), "no module has such a path"),
        (("--train", "--precision", "fp7"), "'fp7' is not one of"),
        (("--train", "--device", "h1000"), "no device profile is named 'h1000'"),
        (("--train", "--loss", "models.py:nothing"), "has no 'nothing'"),
        (("--train", "--grad-accumulation", "0"), "--grad-accumulation"),
        (("--foreach",), "--foreach needs --train"),
        (("--device", "h1000"), "no device profile is named 'h1000'"),
        (("--convention", "6nd"), "--convention needs --device"),
        (("--device", "t4", "--convention", "7nd"), "'7nd' is not one of"),
    ],
)
def test_misuse(models, run, arguments, message):
    result = run("estimate", "models.py:Net", *X, *arguments)
    assert result.exit_code == 2 and message in result.output.replace("\n", " ")


def test_a_failing_model(models, run):
    result = run("estimate", "models.py:Broken", *X, "--train")
    assert result.exit_code == 1 and "RuntimeError" in result.stderr and "models.py" in result.stderr
    result = run("estimate", "models.py:make_product", *X, "-i", "float32[8,2]", "--train")
    assert result.exit_code == 2 and "no parameter requires grad" in result.output


def test_a_function_of_the_inputs(run, tmp_path):
    (tmp_path / "step.py").write_text(
        "import metatensor as mt\n"
        "with mt.device('meta'):\n    inner = mt.nn.Linear(8, 4)\n"
        "def distance(x, y):\n    return (inner(x) - inner(y)).square().sum()\n"
    )
    result = run("estimate", f"{tmp_path / 'step.py'}:distance", "-i", "float32[2,8]", "-i", "float32[2,8]", "--train", "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 0 and (found["model"], found["trainable_parameters"]) == ("distance", 36)
    assert found["forward_flops"] == 2 * (2 * 2 * 8 * 4) and [row["path"] for row in found["modules"]] == ["", "inner"]


def test_time_of_a_step(models, run):
    result = train(run, "--device", "h100-80gb")
    assert result.exit_code == 0, result.output
    for text in ("time, forward", "time, optimizer", "time of a step", "samples per second", "MFU (torch)", "assumed or given efficiencies",
                 "time leaves out: loading data"):  # fmt: skip
        assert text in result.stdout, text
    found = json.loads(train(run, "--json", "--device", "h100-80gb", "--convention", "macs").stdout)["time"]
    assert found["seconds"] == pytest.approx(found["forward"] + found["backward"] + found["recompute"] + found["optimizer"])
    assert found["batch"] == 3 and found["convention"] == "macs" and found["recompute"] == 0 and 0 < found["mfu"] < 1


def test_time_of_a_pass(models, run):
    result = run("estimate", "models.py:Net", *X, "--device", "h100-80gb")
    assert result.exit_code == 0, result.output
    assert "one pass on h100-sxm-80gb" in result.stdout and "time, backward" not in result.stdout
    assert json.loads(run("estimate", "models.py:Net", *X, "--device", "t4", "--json").stdout)["time"]["device"] == "t4"
    assert "time" not in json.loads(run("estimate", "models.py:Net", *X, "--json").stdout)


def test_what_is_not_known_is_not_0(models, run, tmp_path):
    (tmp_path / "bare.toml").write_text('title = "A card"\nvendor = "ACME"\nkind = "gpu"\n')
    result = train(run, "--device", str(tmp_path / "bare.toml"))
    assert "time of a step" in result.stdout
    line = next(line for line in result.stdout.splitlines() if line.startswith("time of a step"))
    assert line.endswith("unknown")
    assert "the rate of float32" in result.stdout and "peak in float32: unknown" in result.stdout


def test_sweep_over_precisions(models, run):
    result = train(run, "--sweep", "dtype", "--device", "t4")
    assert result.exit_code == 0, result.output
    for text in ("precision", "bf16-mixed", "fp8-weights", "optimizer", "total", "not included", "observed error of the memory"):
        assert text in result.stdout, text
    found = {each["precision"]: each["report"] for each in json.loads(train(run, "--sweep", "dtype", "--json").stdout)["results"]}
    assert found["bf16"]["parameter_bytes"] * 2 == found["fp32"]["parameter_bytes"] == 4 * 144
    assert found["bf16-master"]["optimizer_bytes"] == 12 * 144 + 4 * 4
    assert found["fp8-weights"]["parameter_bytes"] == 128 + 2 * 4 + 2 * 16


def test_sweep_of_a_forward_pass(models, run):
    result = run("estimate", "models.py:Net", *X, "--sweep", "dtype", "--device", "t4")
    assert result.exit_code == 0, result.output
    assert "bfloat16" in result.stdout and "activations" in result.stdout and "unknown" in result.stdout  # a T4 has no bfloat16
    results = json.loads(run("estimate", "models.py:Net", *X, "--sweep", "dtype", "--json").stdout)["results"]
    found = {each["precision"]: each["report"] for each in results}
    assert found["float16"]["parameter_bytes"] * 2 == found["float32"]["parameter_bytes"]
    assert found["float16"]["inputs"] == ["float16[3,8]"]


def test_a_sweep_of_a_failing_model(models, run):
    result = run("estimate", "models.py:Broken", *X, "--sweep", "dtype")
    assert result.exit_code == 1 and "float16: " in result.stderr and "RuntimeError" in result.stderr


@pytest.mark.parametrize("arguments", [("--dtype", "bf16"), ("--train", "--precision", "bf16"), ("--train", "--by", "op")])
def test_misuse_of_a_sweep(models, run, arguments):
    result = run("estimate", "models.py:Net", *X, "--sweep", "dtype", *arguments)
    assert result.exit_code == 2 and "leave out" in result.output


def test_lora_and_8_bit_states(models, run):
    found = json.loads(train(run, "--json", "--lora", "2:layers.0", "--optimizer", "adamw8bit").stdout)
    assert found["trainable_parameters"] == 2 * 16 and found["frozen_parameters"] == 144
    result = train(run, "--lora", "2:nothing")
    assert result.exit_code == 2 and "no linear layer has a path like" in result.output
