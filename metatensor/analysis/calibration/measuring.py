"""Run programs on a device and record the time of each call."""

from __future__ import annotations

import gc
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import metatensor as mt
from metatensor.analysis.calibration.programs import Program
from metatensor.analysis.calls import Call, CallRecorder

__all__ = ["Sample", "Stopwatch", "clock_for", "measure", "overheads"]

Clock = Callable[[], float]


class Sample(NamedTuple):
    """A call and the seconds that it took."""

    call: Call
    seconds: float


class Stopwatch(CallRecorder):
    """Records calls, and the seconds of each, by ``clock``, in `spent`. ``synchronize`` waits for the device."""

    def __init__(self, clock: Clock, synchronize: Callable[[], object] | None = None) -> None:
        super().__init__()
        self.spent: list[float] = []
        self._clock, self._synchronize = clock, synchronize

    def _run(self, op: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        clock = self._clock
        start = clock()
        out = op(*args, **kwargs)
        if self._synchronize is not None:
            self._synchronize()
        self.spent.append(clock() - start)
        return out


def clock_for(device: Any) -> tuple[Clock, str]:
    """Return the clock for timing a device, and what it measures.

    With one thread, it is the processor time of the thread, which other programs hardly affect; else wall time.
    """
    one = os.cpu_count() == 1 or any(os.environ.get(name) == "1" for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"))
    if mt.device(device).type == "cpu" and one:
        return time.thread_time, "processor time of one thread"
    return time.perf_counter, "wall time"


def _reading(clock: Clock) -> float:
    """Return the seconds that a `Stopwatch` adds to a call."""
    x = mt.empty(2, 2, device="meta")
    best = 1.0
    for _ in range(20):
        start = clock()
        for _ in range(100):
            x.t()
        plain = (clock() - start) / 100
        watch = Stopwatch(clock)
        with watch:
            for _ in range(100):
                x.t()
        best = min(best, sorted(watch.spent)[50] - plain)
    return max(0.0, best)


def _step(program: Program) -> None:
    out = program.run()
    if program.inputs and out is not None:
        out.backward(mt.ones(out.shape, dtype=out.dtype, device=out.device))
        for t in program.inputs:
            t.grad = None


def measure(
    found: Iterable[Program], clock: Clock, *, seconds: float = 90.0, rounds: int = 12, synchronize: Callable[[], object] | None = None,
    progress: Callable[[float], None] | None = None,
) -> tuple[list[Sample], list[str]]:
    """Run programs in turn, until each has run ``rounds`` times or ``seconds`` of wall time are over; at least twice each.

    The time of a call is its lower quartile, less the time of reading the clock. The minimum would be too low: on a busy machine,
    single calls reach it, but never all calls of a step. Return the samples, and the
    programs that the device cannot run, with the exception.
    """
    waiting = [*found]
    calls: dict[str, list[Call]] = {}
    times: dict[str, list[list[float]]] = defaultdict(list)
    reading = _reading(clock)
    end, began = time.monotonic() + seconds, time.monotonic()
    collecting = gc.isenabled()
    failed: dict[str, str] = {}
    gc.disable()
    try:
        for turn in range(rounds):
            for at, program in enumerate(waiting):
                if turn > 1 and time.monotonic() > end:
                    break
                if program.name in failed:
                    continue
                try:
                    watch = Stopwatch(clock, synchronize)
                    with watch:
                        _step(program)
                except Exception as error:
                    failed[program.name] = f"{program.name}: {type(error).__name__}: {error}"
                    continue
                calls[program.name] = watch.calls
                times[program.name].append(watch.spent)
                if progress is not None:
                    progress(min(1.0, max((turn + at / len(waiting)) / rounds, (time.monotonic() - began) / seconds)))
            gc.collect()
    finally:
        if collecting:
            gc.enable()
    samples = []
    for name, recorded in calls.items():
        for call, *spent in zip(recorded, *times[name][1 if len(times[name]) > 2 else 0 :], strict=True):  # the first is a warm-up
            samples.append(Sample(call, max(0.0, sorted(spent)[len(spent) // 4] - reading)))
    return samples, [*failed.values()]


def overheads(device: Any, clock: Clock, rounds: int = 30) -> dict[str, float]:
    """Return the seconds that a program spends outside of operators for each call, by phase.

    They are measured as the time of a small perceptron, less the time of its calls.
    """
    with mt.device(device):
        layers = [layer for _ in range(8) for layer in (mt.nn.Linear(16, 16), mt.nn.ReLU(), mt.nn.LayerNorm(16))]
        model, x = mt.nn.Sequential(*layers), mt.rand(4, 16)
    optimizer = mt.optim.SGD(model.parameters(), lr=1e-6, momentum=0.9)

    def run(watch: Stopwatch | None) -> tuple[float, ...]:
        times = [clock()]
        loss = model(x).mean()
        times.append(clock())
        if watch is not None:
            watch.phase = "backward"
        loss.backward()
        times.append(clock())
        if watch is not None:
            watch.phase = "optimizer"
        optimizer.step()
        times.append(clock())
        model.zero_grad()
        return tuple(after - before for before, after in zip(times, times[1:], strict=False))

    run(None)
    whole = [min(spent) for spent in zip(*(run(None) for _ in range(rounds)), strict=True)]
    inside: list[Sample] = []
    for _ in range(rounds):
        watch = Stopwatch(clock)
        with watch:
            run(watch)
        now = [Sample(*each) for each in zip(watch.calls, watch.spent, strict=True)]
        inside = [min(pair, key=lambda sample: sample.seconds) for pair in zip(inside, now, strict=True)] if inside else now
    found = {}
    reading = _reading(clock)
    for phase, total in zip(("forward", "backward", "optimizer"), whole, strict=True):
        calls = [max(0.0, sample.seconds - reading) for sample in inside if sample.call.phase == phase]
        if calls:
            found[phase] = max(0.0, total - sum(calls)) / len(calls)
    return found
