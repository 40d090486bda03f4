"""``metatensor check`` of training steps, with several sets of inputs, baselines and annotations."""

import json

import pytest

pytest.importorskip("click")
pytest.importorskip("rich")
X = ("-i", "float32[3,8]")


def test_a_training_step_within_budgets(models, run):
    result = run("check", "models.py:Net", *X, "--train", "--device", "t4", "--max-memory", "1MB", "--max-step-time", "200ms", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    plain = json.loads(run("check", "models.py:Net", *X, "--json").stdout)
    assert found["ok"] and found["parameters"] == 144 and found["bytes"] > plain["bytes"] > 0 and found["flops"] > 2 * plain["flops"]
    assert 0 < found["seconds"] < 0.2 and "seconds" not in plain


def test_budgets_of_a_training_step(models, run):
    bytes_ = json.loads(run("check", "models.py:Net", *X, "--train", "--json").stdout)["bytes"]
    assert run("check", "models.py:Net", *X, "--train", "--max-memory", str(bytes_)).exit_code == 0
    over = run("check", "models.py:Net", *X, "--train", "--max-memory", str(bytes_ - 1))
    assert over.exit_code == 1 and f"over the budget of {bytes_ - 1:,}" in over.stdout
    slow = run("check", "models.py:Net", *X, "--train", "--device", "t4", "--max-step-time", "1us")
    assert slow.exit_code == 1 and "over the budget of 1 us" in slow.stdout
    more = run("check", "models.py:Net", *X, "--train", "--optimizer", "sgd", "--max-memory", str(bytes_ - 1))
    assert more.exit_code == 0


def test_the_memory_of_the_device_is_a_budget(models, run):
    result = run("check", "models.py:Net", "-i", "float32[1000000000,8]", "--device", "t4")
    assert result.exit_code == 1 and "over the memory of t4" in result.stdout


def test_an_unknown_time_fails(models, run):
    (models / "dark.toml").write_text('title = "No rates"\nvendor = "ACME"\nkind = "gpu"\n')
    result = run("check", "models.py:Net", *X, "--device", "dark.toml", "--max-step-time", "1s")
    assert result.exit_code == 1 and "is unknown, so its budget cannot be checked" in result.stdout
    assert run("check", "models.py:Net", *X, "--device", "dark.toml").exit_code == 0


def test_a_step_that_fails_names_the_module(models, run):
    result = run("check", "models.py:Broken", *X, "--train")
    assert result.exit_code == 1 and "module: second.1 (Linear)" in result.stdout


@pytest.mark.parametrize("options", [
    ("--max-step-time", "1s"), ("--tolerance", "1%"), ("--precision", "bf16"), ("--device", "abacus"), ("--train", "--optimizer", "none"),
    ("--train", "--recompute", "full", "--where", "n in 1"), ("--where", "n in"), ("--where", "n in 1"), ("--case", "float32[n]"),
    ("--baseline", "missing.json"), ("--train", "--loss", "models.py:nothing"),
    ("--train", "--loss", "models.py:number"), ("--train", "--loss", "broken.py:loss"), ("--max-step-time", "soon"),
])  # fmt: skip
def test_usage_errors(models, run, options):
    (models / "broken.py").write_text("import no_such_module\n")
    assert run("check", "models.py:Net", *X, *options).exit_code == 2


# Several sets of inputs ----------------------------------------------------------------------


def test_named_sizes_report_the_first_failure(models, run):
    arguments = ("check", "models.py:Net", "-i", "float32[2*n,w]", "--where", "n in 1,4; w in 7..9")
    result = run(*arguments)
    assert result.exit_code == 1
    assert "models.py:Net: 2 of 6 sets of inputs pass" in result.stdout
    assert "the first that fails: float32[2*n,w] with n=1, w=7" in result.stdout and "module: layers.0" in result.stdout
    found = json.loads(run(*arguments, "--json").stdout)
    assert (found["ok"], found["sets"], found["failed"], found["first_failure"]) == (False, 6, 4, 0)
    assert [row["ok"] for row in found["results"]] == [False, True, False] * 2
    assert found["results"][4]["sizes"] == {"n": 4, "w": 8} and found["results"][4]["error"] is None
    assert found["results"][3]["error"]["module_inputs"] == ["float32[8,7]"]


def test_named_sizes_that_all_pass(models, run):
    result = run("check", "models.py:Net", "-i", "float32[n,8]", "-i", "scale=n", "--where", "n in 1..100", "--max-memory", "1MB")
    assert result.exit_code == 0 and "100 of 100 sets" in result.stdout
    assert result.stdout.count("with n=") == 1  # only the greatest is listed


def test_cases(models, run):
    result = run("check", "models.py:Net", *X, "--case", "float32[n,8], mask=bool[n,8]", "--case", "float32[2,8]", "--where", "n in 4,5")
    assert result.exit_code == 0 and "4 of 4" in result.stdout, result.output


def test_a_model_that_cannot_be_built(models, run):
    result = run("check", "models.py:cannot", "-i", "float32[n]", "--where", "n in 1,2")
    assert result.exit_code == 1 and "no such configuration" in result.stdout


# Baselines ------------------------------------------------------------------------------------


def test_a_baseline(models, run):
    arguments = ("check", "models.py:Net", "-i", "float32[n,8]", "--where", "n in 4,8", "--train", "--device", "t4")
    assert run(*arguments, "--write-baseline", "base.json").exit_code == 0
    assert run(*arguments, "--baseline", "base.json").exit_code == 0
    stored = json.loads((models / "base.json").read_text())
    row = stored["cases"]["float32[n,8] with n=4"]
    assert row["parameters"] == 144 and row["bytes"] > 144 * 16 and row["seconds"] > 0

    row["bytes"] -= 10
    (models / "base.json").write_text(json.dumps(stored))
    result = run(*arguments, "--baseline", "base.json")
    assert result.exit_code == 1 and "over the baseline of" in result.stdout and "1 of 2" in result.stdout
    assert run(*arguments, "--baseline", "base.json", "--tolerance", "5%").exit_code == 0

    row["bytes"] += 1000
    (models / "base.json").write_text(json.dumps(stored))
    result = run(*arguments, "--baseline", "base.json")
    assert result.exit_code == 0 and "less than the baseline's" in result.stdout


def test_a_baseline_of_another_check(models, run):
    assert run("check", "models.py:Net", *X, "--write-baseline", "base.json").exit_code == 0
    assert run("check", "models.py:Net", "-i", "float32[4,8]", "--baseline", "base.json").exit_code == 1
    for other in (("models.py:wide",), ("models.py:Net", "--train"), ("models.py:Net", "--device", "t4"), ("models.py:Net", "--args", "8")):
        result = run("check", *other, *X, "--baseline", "base.json")
        assert result.exit_code == 2 and "was written with" in result.output
    for text in ("{", "[]", '{"format": "metatensor baseline 1"}', '{"format": "metatensor baseline 1", "options": {}, "cases": {"a": 1}}'):
        (models / "bad.json").write_text(text)
        assert run("check", "models.py:Net", *X, "--baseline", "bad.json").exit_code == 2


def test_a_failure_writes_no_baseline(models, run):
    assert run("check", "models.py:Broken", *X, "--write-baseline", "base.json").exit_code == 1
    assert not (models / "base.json").exists()


# Annotations ------------------------------------------------------------------------------------


def test_annotations_mark_lines(models, run, monkeypatch):
    monkeypatch.setenv("GITHUB_WORKSPACE", str(models))
    broken = run("check", "models.py:Broken", *X, "--annotations", "github")
    lines = (models / "models.py").read_text().splitlines()
    at = lines.index("        return self.second(self.first(x))") + 1
    assert f"::error file=models.py,line={at},title=models.py%3ABroken fails::error: " in broken.stderr
    assert "%0Amodule: second.1 (Linear)" in broken.stderr
    over = run("check", "models.py:Net", *X, "--max-params", "3", "--annotations", "github")
    assert f"::error file=models.py,line={lines.index('class Net(nn.Module):') + 1},title=models.py%3ANet is over budget::" in over.stderr
    assert run("check", "models.py:Net", *X, "--annotations", "github").stderr == ""


def test_annotations_are_written_in_workflows_only(models, run, monkeypatch):
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    assert "::error" not in run("check", "models.py:Broken", *X).stderr
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert "::error" in run("check", "models.py:Broken", *X, "--json").stderr
    assert "::error" not in run("check", "models.py:Broken", *X, "--annotations", "none").stderr
