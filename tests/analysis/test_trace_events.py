"""The timeline for Perfetto and chrome://tracing."""

import gzip
import json

import metatensor as mt
from metatensor.analysis import profile


def some():
    with mt.device("meta"):
        model, x = mt.nn.Sequential(mt.nn.Linear(16, 64), mt.nn.Tanh(), mt.nn.Linear(64, 4)), mt.empty(32, 16)
    return profile(lambda: model(x).sum().backward())


def test_events(tmp_path):
    report = some()
    report.to_chrome_trace(tmp_path / "trace.json")
    found = json.loads((tmp_path / "trace.json").read_text())
    assert found["otherData"]["peak"] == report.peak and found["otherData"]["unit"] == "bytes"
    events = found["traceEvents"]
    counters = [event for event in events if event["ph"] == "C"]
    assert [sum(event["args"].values()) for event in counters] == [total for _, total in report.timeline()]
    (peak,) = [event for event in events if event["ph"] == "i"]
    assert peak["ts"] == report.peak_event and peak["args"]["bytes"] == report.peak and peak["args"]["operator"] == report.peak_place[0]
    for thread in (0, 1, 2):  # slices of a thread follow one another
        slices = [event for event in events if event["ph"] == "X" and event["tid"] == thread]
        assert slices
        for one, other in zip(slices, slices[1:], strict=False):
            assert one["ts"] + one["dur"] <= other["ts"]
        assert slices[-1]["ts"] + slices[-1]["dur"] == len(report.events) or thread == 1
    assert {event["name"] for event in events if event["ph"] == "X" and event["tid"] == 0} == {"forward", "backward"}
    assert "1" in {event["name"] for event in events if event["ph"] == "X" and event["tid"] == 1}


def test_compressed(tmp_path):
    some().to_chrome_trace(tmp_path / "trace.json.gz")
    assert json.loads(gzip.decompress((tmp_path / "trace.json.gz").read_bytes()))["traceEvents"]
