"""Calibration with few programs and a clock that counts, so that no test depends on time."""

import itertools

import pytest

import metatensor as mt
from metatensor.analysis.calibration import calibrate, calibration_text
from metatensor.analysis.calibration.measuring import Stopwatch, measure
from metatensor.analysis.calibration.programs import Program, programs
from metatensor.analysis.calls import CallRecorder
from metatensor.devices.profiles.loading import profile_of_text


@pytest.fixture
def ticks():
    count = itertools.count()
    return lambda: next(count) * 1e-3


def few():
    x = (mt.rand(4, 8, device="cpu") + 0.5).requires_grad_()
    y = mt.rand(64, 64, device="cpu").requires_grad_()
    return [
        Program("exp", lambda: x.exp(), (x,)), Program("product", lambda: y @ y, (y,)), Program("clone", lambda: y.clone(), (y,)),
        Program("broken", lambda: x @ x, (x,)),
    ]  # fmt: skip


def test_stopwatch(ticks):
    with Stopwatch(ticks) as watch:
        mt.zeros(2, device="cpu") + 1
    assert [call.op for call in watch.calls] == ["zeros", "add"] and watch.spent == [pytest.approx(1e-3)] * 2


def test_programs_that_fail_are_named(ticks):
    samples, failed = measure(few(), ticks, rounds=3)
    assert {sample.call.op for sample in samples} > {"exp", "matmul", "clone", "mul"}
    assert len(failed) == 1 and failed[0].startswith("broken: RuntimeError")
    assert all(sample.seconds >= 0 for sample in samples)


@pytest.mark.slow
def test_the_profile_can_be_read(ticks):
    found, parts = few(), []
    state = mt.get_rng_state()
    text = calibration_text("cpu", clock=ticks, found=found, progress=parts.append)
    profile = profile_of_text(text, "here.toml")
    assert profile.name == "here" and profile.backend == "cpu" and profile.kind == "cpu"
    assert {"exp", "matmul", "clone"} <= set(profile.operators) and "elementwise" in profile.kinds
    assert profile.memory_bandwidth and profile.rate("float32") and profile.launch_overhead
    title = profile.figures["launch.overhead"].source.title
    assert title.startswith("Measured on 20") and "threads" in title
    assert "broken: RuntimeError" in profile.note
    assert parts == sorted(parts) and 0 <= parts[0] and parts[-1] <= 1
    assert (mt.get_rng_state() == state).all().item()
    x = mt.empty(4, 8, device="meta")
    assert mt.analysis.time_of(mt.exp, x, device=profile).seconds > 0


@pytest.mark.parametrize(("device", "message"), [("meta", "computes nothing"), ("cuda", "after a call has returned")])
def test_devices_that_cannot_be_measured(device, message):
    with pytest.raises(ValueError, match=message):
        calibrate(device)


def test_the_name_of_the_file_is_checked_before_measuring(tmp_path):
    for name in ("Mine.toml", "mine.txt", "a b.toml"):
        with pytest.raises(ValueError, match="cannot be a profile"):
            calibrate("cpu", tmp_path / name)


def test_all_programs_run_on_meta():
    """Every program runs, and together they call all kinds of operators that models need."""
    called = set()
    for program in programs("meta", 3):
        if program.name.startswith("item"):
            continue
        with CallRecorder() as recorder:
            out = program.run()
            if program.inputs:
                out.backward(mt.ones_like(out))
        called |= {call.op for call in recorder.calls}
        for t in program.inputs:
            t.grad = None
    assert len(called) > 120
    for name in ("mm", "bmm", "nn.functional.linear", "nn.functional.conv2d", "convolution_backward", "gelu_backward", "lstm", "addcdiv_",
                 "native_layer_norm_backward", "embedding_dense_backward", "nn.functional.scaled_dot_product_attention",
                 "_max_pool_backward"):  # fmt: skip
        assert name in called, name


@pytest.mark.slow
def test_quick(tmp_path):
    profile = calibrate("cpu", tmp_path / "quick.toml", quick=True, seconds=1.0)
    assert profile.note is None and len(profile.operators) > 120
    with mt.device("meta"):
        model, x = mt.nn.Linear(256, 256), mt.empty(64, 256)
    time = mt.analysis.estimate_training(model, x, device=tmp_path / "quick.toml").time
    assert time.seconds > 0 and "100% from measured operators" in str(time)
