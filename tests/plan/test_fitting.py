"""Tests of fits of efficiencies to measured steps."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import metatensor as mt
from metatensor.devices.topologies import topology
from metatensor.plan import Measurement, fit_profile
from metatensor.plan.fitting import GROUPS, fitted, parts_of
from metatensor.plan.measurements import profile_text, read_measurements


def rows_of(slowness, parts):
    """Return measurements whose parts are given, with the times that slownesses result in."""
    found = []
    for i, one in enumerate(parts):
        row = Measurement(1.0, None, (), "8xH100", {}, f"row {i}", i, {**dict.fromkeys(GROUPS, 0.0), "overlap": 0.0, "rest": 0.0, **one})
        row.seconds = row.predicted(slowness)
        found.append(row)
    return found


def test_slownesses_that_the_times_were_made_with_are_found():
    truth = {"product": 1.4, "memory": 0.8, "attention": 1.0, "network": 1.2, "overlap": 0.0}
    parts = [{"product": 1.0}, {"product": 0.2, "memory": 1.0}, {"network": 1.0, "product": 0.1}, {"attention": 1.0, "rest": 0.1}] * 6
    found = fitted(rows_of(truth, parts))
    assert all(abs(found[name] - value) < 0.02 for name, value in truth.items())


def test_what_hardly_counts_stays_at_the_prior():
    found = fitted(rows_of({"product": 1.5}, [{"product": 1.0, "network": 1e-4}] * 4))
    assert abs(found["network"] - 1) < 1e-3 and found["overlap"] == 0.0
    assert 1.45 < found["product"] < 1.5  # a little nearer to the prior than to the measurements


def block_rows(times, **more):
    with mt.device("meta"):
        model, x = mt.nn.Sequential(mt.nn.Linear(4096, 4096), mt.nn.ReLU(), mt.nn.Linear(4096, 4096)), mt.empty(1, 4096)
    plain = {"tensor": [1], "shard": [0], **more}
    return [Measurement(seconds, model, (x,), "1xH100", {"global_batch": batch, "micro_batches": [batch], **plain}, f"batch {batch}")
            for batch, seconds in times.items()]  # fmt: skip


def test_parts_add_up_to_the_predicted_time():
    (one,) = block_rows({8192: 1e-2})
    one.parts = parts_of(one, topology("1xH100"))
    plan = mt.plan.search(one.model, *one.inputs, devices="1xH100", **one.settings)
    assert one.predicted({}) == pytest.approx(plan.best.seconds, rel=1e-3)
    assert one.parts["product"] > 0 and one.parts["memory"] > 0 and one.parts["network"] == 0


def test_a_fit_reports_errors_on_steps_that_it_did_not_use():
    plain = {batch: mt.plan.search(row.model, *row.inputs, devices="1xH100", **row.settings).best.seconds
             for batch, row in zip((4096, 8192, 16384), block_rows({4096: 1, 8192: 1, 16384: 1}), strict=True)}  # fmt: skip
    found = fit_profile(block_rows({batch: 1.3 * seconds for batch, seconds in plain.items()}))
    assert all(error == pytest.approx(1 / 1.3 - 1, abs=1e-3) for error in found.before)
    assert max(map(abs, found.after)) < 0.1 and max(map(abs, found.within)) < 0.05
    assert found.profile.efficiency["product"] < 0.7
    assert "held out" in str(found) and json.loads(json.dumps(found.to_dict()))["device"] == "h100-sxm-80gb"
    place = replace(topology("1xH100"), device=found.profile)
    row = block_rows({8192: 1.0})[0]
    exact = mt.plan.search(row.model, *row.inputs, devices=place, **row.settings).best.seconds
    assert exact == pytest.approx(1.3 * plain[8192], rel=0.07)


def test_a_fit_is_carried_to_another_device_by_the_rates_that_were_reached():
    found = fit_profile(block_rows({4096: 4e-3, 8192: 8e-3}))
    own = found.profile.efficiency
    another = mt.analysis.device_profile("a100-sxm-80gb")
    assert found.carried(another) is another
    same = found.carried(mt.analysis.device_profile("h200-141gb"))
    assert same.efficiency["product"] == pytest.approx(own["product"], rel=1e-3)
    stated = mt.analysis.device_profile("b200")
    assert found.carried(stated).efficiency["product"] == stated.efficiency["product"] == 0.5


def test_the_written_profile_has_the_fitted_efficiencies(tmp_path):
    found = fit_profile(block_rows({4096: 4e-3, 8192: 8e-3}))
    path = tmp_path / "mine.toml"
    path.write_text(profile_text(found))
    read = mt.analysis.device_profile(path)
    assert read.efficiency["product"] == pytest.approx(found.profile.efficiency["product"], rel=1e-3)
    assert read.memory == found.base.memory and read.rates == found.base.rates
    assert read.figures["efficiency.product"].source.title.startswith("Fitted to 2 measured steps")


def test_bad_measurements():
    with pytest.raises(ValueError, match="at least two measurements are needed, got 0"):
        fit_profile([])
    with pytest.raises(ValueError, match="must be positive seconds, got -1"):
        Measurement(-1, None, (), "8xH100", {})
    with pytest.raises(ValueError, match="of several devices, h100-sxm-80gb and a100"):
        fit_profile([Measurement(1.0, None, (), name, {}) for name in ("8xH100", "8xA100-SXM-80GB")])


ENTRY = {"model": "m.py:M", "inputs": ["float32[batch,8]"], "devices": "8xH100", "step_time_s": 1.0, "global_batch": 8,
         "layout": {"tensor": 2, "sequence": True}}  # fmt: skip


def test_a_file_of_measurements(tmp_path):
    path = tmp_path / "steps.json"
    path.write_text(json.dumps({"devices": "64xH100", "measurements": [ENTRY, {k: v for k, v in ENTRY.items() if k != "devices"}]}))
    first, second = read_measurements(path, lambda entry: ("model", ("inputs",), None))
    assert first.devices == "8xH100" and second.devices == "64xH100" and second.name == "step 1"
    assert first.settings["tensor"] == [2] and first.settings["sequence"] == [True] and first.settings["micro_batches"] == [1]
    assert first.settings["global_batch"] == 8 and "loss" not in first.settings


@pytest.mark.parametrize(("change", "message"), [
    ({"layout": {"tensr": 2}}, r"measurements\[0\].layout: unknown key 'tensr'"),
    ({"layout": {"tensor": "2"}}, "tensor must be like 1, got '2'"),
    ({"step_time": 1}, "unknown key 'step_time'"),
    ({"global_batch": "8"}, "global_batch has a value of the wrong type"),
    ({"gradient_dtype": "half16"}, "'half16' is not a dtype"),
    ({"step_time_s": 0}, "must be positive seconds"),
])  # fmt: skip
def test_wrong_entries(tmp_path, change, message):
    path = tmp_path / "steps.json"
    path.write_text(json.dumps({"measurements": [{**ENTRY, **change}]}))
    with pytest.raises(ValueError, match=message):
        read_measurements(path, lambda entry: ("model", (), None))


@pytest.mark.parametrize(("text", "message"), [
    ("{", "not JSON"), ("[]", "must be an object"), ('{"measurements": [1]}', "must be an object"),
    ('{"measurements": [{}]}', "model is missing"),
])  # fmt: skip
def test_wrong_files(tmp_path, text, message):
    path = tmp_path / "steps.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_measurements(path, lambda entry: ("model", (), None))
