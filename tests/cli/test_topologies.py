"""``metatensor topologies``."""

import json

import pytest

pytest.importorskip("click")
pytest.importorskip("rich")

from click.testing import CliRunner

from metatensor.analysis import collective_time
from metatensor.cli.app import app


def run(*args):
    return CliRunner().invoke(app, ["topologies", *args])


def test_list():
    result = run()
    assert result.exit_code == 0
    (line,) = [line for line in result.output.splitlines() if line.strip().startswith("dgx-h100")]
    assert "NVLink 4" in line and "8 x 400" in line
    assert len(json.loads(run("--json").output)) >= 10


def test_one_with_sources_and_times():
    result = run("64xH100")
    assert result.exit_code == 0
    for part in ("8 nodes of 8", "NVLink 4, switch, 450 GB/s", "8 x 400 Gb/s InfiniBand NDR", "0.824", "https://github.com/NVIDIA/nccl",
                 "one device of each node (8)", "all devices (64)", "all_reduce"):  # fmt: skip
        assert part in result.output
    assert "one device of each node" not in run("8xH100").output
    assert "2:1 oversubscribed" in run("16xH100, 2:1 oversubscription").output


def test_json():
    data = json.loads(run("16xA100", "--json").output)
    assert data["devices"] == 16 and data["network"]["rails"] == 8
    for row in data["times"]:
        if row["kind"] == "all_gather" and row["group"] == "all devices":
            assert row["seconds"] == collective_time("all_gather", row["bytes"], range(16), "16xA100").seconds


def test_what_does_not_add_up():
    result = run("60xH100")
    assert result.exit_code == 1 and "nearest are 56xH100 (7 nodes) and 64xH100 (8 nodes)" in result.output
    assert "unknown" in run("8xl40s").output
