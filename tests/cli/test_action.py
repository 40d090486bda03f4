"""The script of the GitHub action, run here, and the entry of the pre-commit hook."""

import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("click")
pytest.importorskip("rich")
ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.skipif(
    shutil.which("bash") is None or not (ROOT / "action.yml").exists(), reason="needs bash and the repository"
)]  # fmt: skip


@pytest.fixture
def action(models):
    """Run the action's last step as a runner does. Return the process, its outputs and its summary."""
    script = textwrap.dedent((ROOT / "action.yml").read_text().rpartition("run: |\n")[2])
    # On a runner, `python` is the interpreter into which the action installed metatensor.
    tools = models / "bin"
    tools.mkdir()
    (tools / "python").symlink_to(sys.executable)

    def run(target, **inputs):
        names = ("INPUTS", "ARGS", "DTYPE", "MAX_PARAMS", "MAX_BYTES", "MAX_FLOPS", "OPTIONS")
        files = {"GITHUB_OUTPUT": models / "output", "GITHUB_STEP_SUMMARY": models / "summary"}
        env = {
            **os.environ, **dict.fromkeys(names, ""), **inputs, **{key: str(path) for key, path in files.items()},
            "TARGET": target, "RUNNER_TEMP": str(models), "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }  # fmt: skip
        for path in files.values():
            path.write_text("")
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
        process = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
        return process, files["GITHUB_OUTPUT"].read_text(), files["GITHUB_STEP_SUMMARY"].read_text()

    return run


def result(output):
    return json.loads(output.partition("\n")[2].rpartition("METATENSOR_RESULT")[0])


def test_a_check_that_passes(action):
    process, output, summary = action("models.py:Net", INPUTS="float32[3,8]\n\n  \nmask=bool[3,8]\n", MAX_PARAMS="144")
    assert process.returncode == 0, process.stderr
    assert result(output)["ok"] is True
    assert "ok: 144 parameters" in summary


def test_options_of_a_training_step(action, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    options = "--where=n in 3,5\n--train\n\n--max-memory=700B\n--baseline=base.json\n"
    process, output, summary = action("models.py:Net", INPUTS="float32[n,8]", OPTIONS=options)
    assert process.returncode == 2  # there is no baseline
    options = options.replace("--baseline", "--write-baseline")
    process, output, summary = action("models.py:Net", INPUTS="float32[n,8]", OPTIONS=options)
    assert process.returncode == 1, process.stderr
    assert "the first that fails: float32[n,8] with n=3" in summary
    assert result(output)["failed"] == 2
    assert process.stderr.count("::error file=models.py,line=") == 2


def test_a_check_that_fails(action):
    process, output, summary = action("models.py:Broken", INPUTS="float32[3,8]")
    assert process.returncode == 1
    assert result(output)["error"]["module"] == "second.1"
    assert "second.1 (Linear)" in process.stdout
    assert "second.1 (Linear)" in summary


def test_over_budget(action):
    process, output, _ = action("models.py:Net", INPUTS="float32[3,8]", MAX_BYTES="500B", MAX_FLOPS="1K")
    assert process.returncode == 1
    assert [item["name"] for item in result(output)["over_budget"]] == ["bytes"]


def test_a_wrong_command_line(action):
    process, output, _ = action("models.py:Nothing", INPUTS="float32[3,8]")
    assert process.returncode == 2
    assert output == ""


def test_inputs_are_never_shell_code(action, models):
    process, _, _ = action("models.py:Net", INPUTS='"; touch hacked; "', ARGS="$(touch hacked)")
    assert process.returncode == 2
    assert not (models / "hacked").exists()
