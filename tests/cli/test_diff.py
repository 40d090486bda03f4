"""``metatensor diff`` and `analysis.compare`."""

import json

import pytest

import metatensor as mt
from metatensor.analysis.comparison import Change, ReportError, compare, parse_limit
from metatensor.analysis.sizes import SizeError


def written(run, name, *arguments):
    """Write the JSON of a command to a file, and return its name."""
    with open(name, "w") as file:
        file.write(run(*arguments, "--json").stdout)
    return name


def estimates(run, *more):
    for name, args in (("a.json", "width=8"), ("b.json", "width=16, depth=3")):
        written(run, name, "estimate", "models.py:Net", "--args", args, "-i", f"float32[3,{args[6:8].strip(',')}]", *more)
    return "a.json", "b.json"


def test_table_of_estimates(models, run):
    result = run("diff", *estimates(run))
    assert result.exit_code == 0, result.output
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert lines[0] == "costs of an inference"
    assert "parameters 144 816 +672 +466.7%" in lines
    assert "layers.2: parameters absent 272 +272" in lines
    assert "layers.2: FLOPs absent 1.54 K +1.54 K" in lines
    assert "nn.functional.linear: FLOPs 768 4.61 K +3.84 K +500.0%" in lines
    assert any(line.startswith("unchanged: elements of buffers 0") for line in lines)
    assert "time" not in result.stdout  # neither report has one


def test_equal_reports(models, run):
    a, _ = estimates(run)
    result = run("diff", a, a, "--fail-on", "peak>0%", "--fail-on", "flops>0")
    assert result.exit_code == 0 and "nothing changed" in result.stdout and "unchanged: parameters 144" in result.stdout


def test_training_steps(models, run):
    files = estimates(run, "--train", "--device", "h100-80gb")
    result = run("diff", *files, "--json", "--fail-on", "memory.optimizer>100%", "--fail-on", "time>1s")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    figures = {change["name"]: change for change in found["figures"]}
    assert found["comparison"] == "a training step" and figures["parameters"]["before"] == 144
    assert figures["memory.optimizer"]["unit"] == "bytes" and figures["memory.optimizer"]["after"] > 8 * 816
    assert figures["time"]["before"] > 0 and figures["flops.recompute"]["change"] == 0
    assert len(found["exceeded"]) == 1 and "optimizer state grew from" in found["exceeded"][0]
    assert {change["unit"] for change in found["operators"]} == {"FLOPs", "seconds"}


def test_settings_that_differ(models, run):
    a = written(run, "a.json", "estimate", "models.py:Net", "-i", "float32[3,8]", "--train")
    b = written(run, "b.json", "estimate", "models.py:Net", "-i", "float32[3,8]", "--train", "--optimizer", "sgd", "--precision", "bf16")
    result = run("diff", a, b)
    assert "optimizer: AdamW before, SGD after" in result.stdout and "precision:" in result.stdout
    assert "memory, optimizer state" in result.stdout and "-100.0%" in result.stdout


def test_markdown(models, run):
    result = run("diff", *estimates(run), "--markdown", "--fail-on", "peak>5%")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0] == "### Costs of an inference" and lines[2].startswith("- :x: over the limit peak\\>5%: peak memory grew from")
    assert "| figure | before | after | change | % |" in lines and "|---|---:|---:|---:|---:|" in lines
    assert any(line.startswith("| nn.functional.linear: FLOPs |") for line in lines)


def test_names_cannot_break_the_markdown():
    report = mt.analysis.estimate(mt.nn.Linear(2, 2, device="meta"), mt.empty(1, 2, device="meta")).to_dict()
    other = json.loads(json.dumps(report))
    other["flops_by_op"] = {"a|b\n<i>": 7}
    assert "a\\|b \\<i\\>: FLOPs" in compare(report, other).markdown()


def test_unknown_figures_are_not_zero(models, run):
    a = written(run, "a.json", "check", "models.py:Net", "-i", "float32[3,8]")
    b = written(run, "b.json", "estimate", "models.py:Net", "-i", "float32[3,8]", "--device", "h100-80gb")
    result = run("diff", a, b, "--fail-on", "time>5%")
    assert result.exit_code == 1
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "memory, parameters unknown 576 B unknown" in lines
    assert "over the limit time>5%: time cannot be tested, because it is unknown before" in lines
    assert "unchanged: parameters 144, peak memory 864 B, FLOPs 768" in lines


def test_model_that_fails(models, run):
    a = written(run, "a.json", "check", "models.py:Net", "-i", "float32[3,8]")
    b = written(run, "b.json", "check", "models.py:Net", "-i", "float32[3,9]")
    result = run("diff", a, b, "--fail-on", "peak>5%")
    assert result.exit_code == 1 and "after: the model failed" in result.stdout
    assert "peak memory cannot be tested, because it is unknown after" in result.stdout


@pytest.mark.parametrize(
    "content, reason",
    [("{", "is not a JSON file"), ("[1]", "is not a report of 'metatensor estimate --json'"),
     ('{"parameters": 1}', "b.json is not a report of"),
     ('{"ok": true, "over_budget": [], "parameters": "many"}', "b.json has 'many' for 'parameters'; expected a number"),
     ('{"ok": true, "over_budget": [], "flops": NaN}', "expected a number"),
     ('{"ok": true, "over_budget": [], "flops": true}', "expected a number"),
     ('{"peak_activation": {}, "modules": [1]}', "has an entry of 'modules' without a path"), ("[" * 100000, "is not a JSON file")],
)  # fmt: skip
def test_what_is_not_a_report(models, run, content, reason):
    a = written(run, "a.json", "estimate", "models.py:Net", "-i", "float32[3,8]")
    (models / "b.json").write_text(content)
    result = run("diff", a, "b.json")
    assert result.exit_code == 2 and reason in result.stderr.replace("\n", " "), result.stderr
    assert "Traceback" not in result.stderr


def test_an_inference_is_not_compared_with_a_training_step(models, run):
    a = written(run, "a.json", "estimate", "models.py:Net", "-i", "float32[3,8]")
    b = written(run, "b.json", "estimate", "models.py:Net", "-i", "float32[3,8]", "--train")
    result = run("diff", a, b)
    assert result.exit_code == 2 and "a.json is of an inference and b.json of a training step" in result.stderr


@pytest.mark.parametrize("arguments", [("no.json", "no.json"), ("a.json", "a.json", "--markdown", "--json"), ("a.json",)])
def test_usage_errors(models, run, arguments):
    written(run, "a.json", "estimate", "models.py:Net", "-i", "float32[3,8]")
    assert run("diff", *arguments).exit_code == 2


@pytest.mark.parametrize("text", ["peak", "peak>", "pike>5%", "peak>5 apples", "peak>-1%", "time>5", "time>5%5", "peak=5%", "peak>nan%"])
def test_invalid_limits(models, run, text):
    with pytest.raises(SizeError):
        parse_limit(text)
    result = run("diff", "--fail-on", text, __file__, __file__)
    assert result.exit_code == 2 and "--fail-on" in result.stderr


@pytest.mark.parametrize(
    "text, before, after, fails",
    [("peak>5%", 100, 105, False), ("peak>5%", 100, 106, True), ("peak>5%", 0, 1, True), ("peak>5%", 0, 0, False),
     ("peak>5%", 100, 1, False), ("peak>1KB", 0, 1000, False), ("peak>1KB", 0, 1001, True), ("peak>0", 1, 2, True),
     ("peak > 2.5 %", 1000, 1026, True),
     ("time>2ms", 0.001, 0.0031, True), ("time>2ms", 0.001, 0.0029, False), ("time>0", 1, 1, False), ("peak>5%", None, 5, True)],
)  # fmt: skip
def test_limits(text, before, after, fails):
    limit = parse_limit(text)
    assert (limit.excess(Change(limit.name, "figure", "seconds" if limit.name == "time" else "bytes", before, after)) is not None) is fails


def test_reports_are_compared_in_python():
    x = mt.empty(8, 512, device="meta")
    found = mt.analysis.compare(*(mt.analysis.estimate(mt.nn.Linear(512, n, device="meta"), x).to_dict() for n in (512, 1024)))
    assert found.figure("flops").percent == 100 and found.figure("time") == Change("time", "time", "seconds", None, None)
    with pytest.raises(KeyError):
        found.figure("pike")
    with pytest.raises(ReportError, match="the report before is not a report of"):
        compare({}, {})
