"""``metatensor profiles``."""

import json

import pytest

pytest.importorskip("click")
pytest.importorskip("rich")

from click.testing import CliRunner

from metatensor.cli.app import app


def run(*args, **kwargs):
    return CliRunner().invoke(app, ["profiles", *args], **kwargs)


def test_list():
    result = run()
    assert result.exit_code == 0
    (line,) = [line for line in result.output.splitlines() if line.strip().startswith("h100-sxm-80gb")]
    assert "80 GiB" in line and "3.35 TB/s" in line and "989.4 TFLOP/s" in line
    (line,) = [line for line in result.output.splitlines() if line.strip().startswith("epyc-9654")]
    assert "unknown" in line


def test_one_with_sources():
    result = run("h100-80gb")
    assert result.exit_code == 0
    for part in ("h100-sxm-80gb", "NVIDIA H100", "3.35 TB/s", "450 GB/s", "https://", "estimate"):
        assert part in result.output
    assert "unknown" in run("xeon-8480").output


def test_json():
    rows = json.loads(run("--json").output)
    assert len(rows) > 40 and all(row["name"] for row in rows)
    assert json.loads(run("l4", "--json").output)["memory"] == 24 << 30


def test_unknown_name():
    result = run("h1000")
    assert result.exit_code == 1
    assert "Did you mean" in result.output


def test_broken_user_file(tmp_path, monkeypatch):
    (tmp_path / "bad.toml").write_text("title = 1")
    monkeypatch.setenv("METATENSOR_PROFILES", str(tmp_path))
    result = run()
    assert result.exit_code == 1 and "bad.toml" in result.output
