"""A short run of the fuzzer. The package explains how to run it for longer."""

import signal
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import metatensor as mt
from fuzz.runner import Failure, Growth, Runner, program
from fuzz.shrink import shrink
from fuzz.world import T

TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def runner():
    """A runner. Its hooks into the process are removed after the tests."""
    hook, device = sys.unraisablehook, T.device
    alarm = getattr(signal, "SIGALRM", None)
    if alarm is not None and threading.current_thread() is not threading.main_thread():
        pytest.skip("signals reach the main thread only")
    before = signal.getsignal(alarm) if alarm is not None else None
    with warnings.catch_warnings():
        yield Runner("meta")
    sys.unraisablehook, T.device = hook, device
    if alarm is not None:
        signal.signal(alarm, before)


@pytest.mark.slow
@settings(max_examples=400, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
@given(rng=st.randoms(use_true_random=False))
def test_programs_that_hypothesis_draws(runner, rng):
    lines = program(0, 0, runner.ops, "meta", rng)
    try:
        runner.run(lines)
    except Failure as failure:
        pytest.fail("\n".join([*lines, "", failure.args[0]]), pytrace=False)


@pytest.mark.slow
@pytest.mark.parametrize(("device", "calls"), [("meta", 15000), ("cpu", 2500)])
def test_the_command_finds_nothing(device, calls):
    """Run in a separate process, so that a crash ends only that process, and the program is shrunk and printed."""
    if device == "cpu":
        pytest.importorskip("metatensor_cpu")
    command = [sys.executable, "-m", "fuzz", "--seed", "20", "--calls", str(calls), "--device", device]
    run = subprocess.run(command, cwd=TESTS, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


def test_failures_are_shrunk():
    lines = ["t0 = T((3, 4), 'float32')", "t1 = T((2,))", "r = mt.add(t0, [bad(7), t1], alpha=2)", "repr(r)"]
    assert shrink(lines, lambda candidate: "bad(" in "\n".join(candidate)) == ["r = bad()"]


@pytest.mark.slow
@pytest.mark.parametrize("leaks", [True, False])
def test_growth_is_noticed(leaks):
    growth, kept = Growth(), []
    for i in range(Growth.ROUNDS):
        kept.extend([mt.float32] * (2000 if leaks else 0))
        growth.note(100_000 * i)
    text, grows = growth.report()
    assert grows is leaks, text
    assert ("references to metatensor.float32" in text) is leaks
