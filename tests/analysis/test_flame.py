"""Predicted time as spans: they nest, and their sums are those of `predict`."""

import pytest

import metatensor as mt
from metatensor.analysis import device_profile
from metatensor.analysis.calls import Call, CallRecorder
from metatensor.analysis.flame import spans
from metatensor.analysis.timing import predict
from metatensor.devices.profiles import DeviceProfile


@pytest.fixture(scope="module")
def calls():
    with mt.device("meta"):
        model, x = mt.nn.Sequential(*[mt.nn.Sequential(mt.nn.Linear(64, 64), mt.nn.ReLU()) for _ in range(30)]), mt.empty(32, 64)
    with CallRecorder(model) as recorder:
        out = model(x).sum()
        recorder.phase = "backward"
        out.backward()
    return recorder.calls


def test_sums(calls):
    device = device_profile("h100-80gb")
    found, timing = spans(calls, device), predict(calls, device)
    assert found["unknown_calls"] == 0 and found["merged_below"] == 0
    roots = [i for i, depth in enumerate(found["depth"]) if depth == 0]
    assert {found["name"][i]: found["seconds"][i] for i in roots} == pytest.approx(timing.phases, rel=1e-5)
    leaves = [i for i in range(len(found["name"])) if i + 1 == len(found["name"]) or found["depth"][i + 1] <= found["depth"][i]]
    assert sum(found["seconds"][i] for i in leaves) == pytest.approx(timing.seconds, rel=1e-4)
    block = found["path"].index("7")
    assert found["name"][block] == "7" and found["calls"][block] == 2 and found["depth"][block] == 1
    assert found["path"][block + 1] == "7.0" and found["depth"][block + 1] == 2


def test_limit(calls):
    device = device_profile("h100-80gb")
    found = spans(calls, device, 20)
    assert 2 <= len(found["name"]) <= 20 and found["merged_below"] > 0
    whole = spans(calls, device)
    top = {n: s for n, s, d in zip(whole["name"], whole["seconds"], whole["depth"], strict=True) if d == 0}
    assert {n: s for n, s, d in zip(found["name"], found["seconds"], found["depth"], strict=True) if d == 0} == top


def test_unknown_times_are_counted_not_drawn():
    bare = DeviceProfile("bare", "", "", "gpu", "", memory_bandwidth=1e12)
    some = [Call("mm", 10, 0, 0, "float32", "forward", 0, "a", ""), Call("add", 0, 10**6, 0, "float32", "forward", 0, "a", "")]
    found = spans(some, bare)
    assert found["unknown_calls"] == 1 and found["name"] == ["forward", "a", "add"]
    assert spans([], bare)["name"] == []
