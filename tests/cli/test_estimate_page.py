"""``metatensor estimate --html --trace --json``."""

import json
import sys

import pytest

from metatensor.analysis import page

X = ("--input", "float32[3,8]")


def estimate(run, *arguments):
    return run("estimate", "models.py:Net", *X, *arguments)


@pytest.mark.parametrize("options", [(), ("--train",), ("--train", "--device", "t4"), ("--device", "t4", "--json")])
def test_html(models, run, tmp_path, options):
    pytest.importorskip("plotly")
    result = estimate(run, *options, "--html", "report.html")
    assert result.exit_code == 0, result.output
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "at the peak of memory" in html and "models.py:" in html
    assert ("fits tesla" in html.lower() or "fits t4" in html.lower()) == ("--train" in options and "--device" in options)


def test_html_without_plotly(models, run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly", None)
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    page.plotly.cache_clear()
    result = estimate(run, "--html", "report.html")
    assert result.exit_code == 1 and "pip install 'metatensor-device[report]'" in result.stderr
    assert not (tmp_path / "report.html").exists() and "Traceback" not in result.output


@pytest.mark.parametrize("options", [(), ("--train",)])
def test_trace(models, run, tmp_path, options):
    result = estimate(run, *options, "--trace", "trace.json")
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "trace.json").read_text())
    assert {event["ph"] for event in found["traceEvents"]} == {"M", "C", "X", "i"}


def test_what_cannot_be_written(models, run):
    result = estimate(run, "--trace", "no/such/folder/trace.json")
    assert result.exit_code == 1 and "no/such/folder" in result.stderr and "Traceback" not in result.output


def test_json_has_all_of_it(models, run):
    found = json.loads(estimate(run, "--json", "--device", "t4").stdout)
    assert found["kind"] == "inference" and found["schema"] == 1
    profile = found["profile"]
    assert profile["peak"] == found["total_bytes"] and profile["unit"] == "bytes"
    assert profile["source"][profile["peak_line"]] and profile["chart"]["total"][profile["chart"]["peak"]] == profile["peak"]
    rows = {row["path"]: row for row in found["modules"]}
    assert rows["layers.0"]["made_bytes"] > 0 and rows["layers.0"]["seconds"] > 0
    assert found["time"]["spans"]["name"][0] == "forward"
    found = json.loads(estimate(run, "--json", "--train").stdout)
    assert found["kind"] == "training" and found["profile"]["peak"] == found["total_bytes"] and found["time"] is None
    assert {row["path"] for row in found["modules"]} == set(rows) and found["modules"][0]["seconds"] is None
