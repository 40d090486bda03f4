"""Predicted times: by hand from peak rates, from measured costs, and what is unknown."""

import dataclasses

import pytest

import metatensor as mt
from metatensor.analysis.calls import Call, CallRecorder
from metatensor.analysis.kinds import kind_of
from metatensor.analysis.timing import EFFICIENCY, predict, seconds_of
from metatensor.devices.profiles import DeviceProfile, OperatorCost
from metatensor.devices.profiles.profile import KINDS_OF_WORK
from metatensor.rules.flops import FLOPS

CARD = DeviceProfile("card", "A card", "ACME", "gpu", "", memory_bandwidth=1e12, rates={"float32": 1e13, "bfloat16": 1e14},
    launch_overhead=1e-6)


def call(op="mm", flops=0, read=0, written=0, dtype="float32", phase="forward", repeated=0, form=""):
    return Call(op, flops, read, written, dtype, phase, repeated, "", form)


def test_peak_rates_by_hand():
    products, copies = EFFICIENCY["product"], EFFICIENCY["elementwise"]
    assert seconds_of(call(flops=10**12), CARD) == (pytest.approx(0.1 / products), "assumed")
    assert seconds_of(call(flops=10**12, dtype="bfloat16"), CARD)[0] == pytest.approx(0.01 / products)
    assert seconds_of(call("add", read=10**9, written=10**9), CARD)[0] == pytest.approx(2e-3 / copies)
    assert seconds_of(call(flops=10**6, read=10**9), CARD)[0] == pytest.approx(1e-3 / EFFICIENCY["copy"])  # the longer of both
    assert seconds_of(call("add", read=4), CARD)[0] == 1e-6  # a launch
    assert seconds_of(call("view"), CARD)[0] == 0.0
    given = dataclasses.replace(CARD, efficiency={"product": 0.5})
    assert seconds_of(call(flops=10**12), given)[0] == pytest.approx(0.2)


def test_unknown_is_none():
    bare = DeviceProfile("bare", "", "", "gpu", "")
    assert seconds_of(call(flops=1), bare) == (None, "the rate of float32")
    assert seconds_of(call("add", read=1), bare) == (None, "the bandwidth of the memory")
    timing = predict([call(flops=1), call("add", read=1, phase="backward"), call("view", phase="optimizer")], bare)
    assert timing.phases == {"forward": None, "backward": None, "optimizer": 0.0} and timing.seconds is None
    assert timing.unknown == {"the rate of float32": 1, "the bandwidth of the memory": 1}
    slow = dataclasses.replace(CARD, launch_overhead=None)
    assert "the overhead of a launch, which is left out" in predict([call("add", read=4)], slow).unknown


def test_measured_costs_come_first():
    measured = dataclasses.replace(
        CARD, rates={"float32": 2e10, "float64": 1e10}, phase_overheads={"forward": 1.0},
        operators={"mm": OperatorCost(1e-3, 1e9, 1e10), "add": OperatorCost(bytes=(10.0, 20.0), seconds=(1.0, 3.0)),
            "add strided": OperatorCost(7.0),
                   "conv": OperatorCost(1.0, None, None, 10.0)},
        kinds={"elementwise": OperatorCost(5.0), "view": OperatorCost(0.25)},
    )  # fmt: skip
    assert seconds_of(call(flops=10**10, read=10**9), measured) == (pytest.approx(2.001), "measured")
    assert seconds_of(call(flops=10**10, dtype="float64"), measured)[0] == pytest.approx(2.001)  # half the rate
    assert [seconds_of(call("add", read=n), measured)[0] for n in (1, 10, 15, 20, 30)] == [1.0, 1.0, 2.0, 3.0, 5.0]
    assert seconds_of(call("add_", read=10), measured)[0] == 1.0
    assert seconds_of(call("add", read=10, form="strided"), measured)[0] == 7.0
    assert seconds_of(call("add", read=10, form="rows"), measured)[0] == 1.0
    assert seconds_of(call("mul", read=10), measured) == (5.0, "kinds")
    assert seconds_of(call("conv", read=10, repeated=20), measured)[0] == 3.0
    timing = predict([call("add", read=10), call("view"), call("mul", read=1)], measured)
    assert timing.seconds == 1.0 + 0.25 + 5.0 + 3 * 1.0
    assert (timing.measured, timing.by_kinds, timing.assumed) == (2.0, 7.25, 0.0)
    assert timing.by_op == {"mul": 5.0, "add": 1.0, "view": 0.25}


def test_sums_of_gradients_are_in_place_on_cpu():
    costs = {"add": OperatorCost(2.0), "add_": OperatorCost(1.0)}
    cpu = dataclasses.replace(CARD, kind="cpu", operators=costs)
    summed = call("add", read=8, written=4, phase="backward")
    assert seconds_of(summed, cpu)[0] == 1.0 and seconds_of(summed, dataclasses.replace(CARD, operators=costs))[0] == 2.0
    assert seconds_of(summed._replace(phase="forward"), cpu)[0] == 2.0 and seconds_of(summed._replace(read=4), cpu)[0] == 2.0


def test_kinds():
    assert set(EFFICIENCY) == set(KINDS_OF_WORK)
    for name in FLOPS:
        assert kind_of(name) in ("product", "convolution", "attention", "recurrence", "other") or "::" in name, name
    assert [kind_of(name) for name in ("add_", "sum", "softmax", "clone", "sort", "my::op", "nn.functional.layer_norm", "fill_")] == [
        "elementwise", "reduction", "softmax", "copy", "sorting", "other", "normalization", "copy"]  # fmt: skip


def test_a_step_by_phases():
    with mt.device("meta"):
        model, x = mt.nn.Sequential(mt.nn.Linear(1024, 1024), mt.nn.ReLU()), mt.empty(4096, 1024, dtype=mt.float32)
        report = mt.analysis.estimate_training(model, x, device=CARD)
    time = report.time
    assert time.training and time.batch == 4096 and time.dtype == "float32" and time.recompute == 0
    assert time.seconds == pytest.approx(time.forward + time.backward + time.optimizer)
    flops = report.forward_flops + report.backward_flops
    assert time.mfu == pytest.approx(flops / (time.seconds * 1e13))
    assert time.forward >= report.forward_flops / (1e13 * EFFICIENCY["product"])
    assert mt.analysis.estimate_training(model, x).time is None
    twice = mt.analysis.estimate(model, x, training=True, device=CARD, grad_accumulation=2).time
    assert twice.forward == pytest.approx(2 * time.forward) and twice.optimizer == pytest.approx(time.optimizer) and twice.batch == 8192


def test_what_is_computed_again_takes_time():
    with mt.device("meta"):
        model = mt.nn.Sequential(*[mt.nn.Sequential(mt.nn.Linear(512, 2048), mt.nn.GELU(), mt.nn.Linear(2048, 512)) for _ in range(3)])
        x = mt.empty(1024, 512)
    plain = mt.analysis.estimate_training(model, x, device=CARD).time
    again = mt.analysis.estimate_training(model, x, device=CARD, recompute="full").time
    assert again.recompute > 0 and again.backward == pytest.approx(plain.backward) and again.seconds > plain.seconds
    assert again.model_flops == plain.model_flops and again.mfu < plain.mfu


def test_time_of_an_inference():
    with mt.device("meta"):
        model, x = mt.nn.Linear(1000, 1000), mt.empty(1000, 1000)
    time = mt.analysis.time_of(model, x, device=CARD)
    assert time.forward == pytest.approx(2e9 / 7e12) and time.backward is None
    assert time.samples_per_second == pytest.approx(1000 / time.forward)
    assert "MFU (torch)" in str(time) and time.to_dict()["excluded"]
    with CallRecorder() as recorder:
        model(x)
    assert predict(recorder.calls, CARD).seconds == pytest.approx(time.forward)
    with pytest.raises(ValueError, match="convention '5nd' is unknown"):
        mt.analysis.time_of(model, x, device=CARD, convention="5nd")
    with pytest.raises(ValueError, match="convention '5nd' is unknown"):
        mt.analysis.estimate_training(model, x, device=CARD, convention="5nd")
