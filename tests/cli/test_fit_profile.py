"""``metatensor fit-profile``."""

from __future__ import annotations

import json

import pytest

import metatensor as mt

MODEL = """
import metatensor as mt

def Net():
    return mt.nn.Sequential(mt.nn.Linear(4096, 4096), mt.nn.ReLU(), mt.nn.Linear(4096, 4096))
"""


@pytest.fixture
def steps(tmp_path):
    (tmp_path / "net.py").write_text(MODEL)
    entries = [{"step_time_s": seconds, "global_batch": batch, "layout": {"micro_batch": batch}} for batch, seconds in
               ((4096, 3e-3), (8192, 5e-3), (16384, 9e-3))]  # fmt: skip
    common = {"model": f"{tmp_path / 'net.py'}:Net", "inputs": ["float32[batch,4096]"], "devices": "1xH100"}
    path = tmp_path / "steps.json"
    path.write_text(json.dumps({**common, "measurements": entries}))
    return path


@pytest.mark.slow
def test_a_fit_prints_errors_and_writes_a_profile(run, steps, tmp_path):
    target = tmp_path / "mine.toml"
    result = run("fit-profile", str(steps), "-o", str(target))
    assert result.exit_code == 0, result.output
    assert "held out" in result.output and "step 2" in result.output and "median" in result.output
    assert mt.analysis.device_profile(target).efficiency["product"] < 1
    found = json.loads(run("fit-profile", str(steps), "--json").output)
    assert found["device"] == "h100-sxm-80gb" and len(found["measurements"]) == 3


def test_wrong_files(run, steps, tmp_path):
    assert "No such file" in run("fit-profile", str(tmp_path / "none.json")).output
    steps.write_text("{")
    result = run("fit-profile", str(steps))
    assert result.exit_code == 2 and "not JSON" in result.output
