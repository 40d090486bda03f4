"""Time what it costs to watch memory: trackers, logs, attribution, and `profile` of a training step of GPT-2, all on meta.

    python -m benchmarks.watching [--json FILE]

The first figures are the nanoseconds that an operator takes more than without a tracker (the least of many alternating rounds). The
others are the milliseconds of a training step of GPT-2 with AdamW, and their ratio to the plain step.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import metatensor as mt
from metatensor._core.attribution import Attribution
from metatensor.analysis import MemoryLog, MemoryTracker, profile

from .models import example

CALLS = 3000
"""Calls in a round, few enough that no other process interrupts some of the rounds."""


def least(ways: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Return the least seconds of each function over interleaved rounds."""
    best = dict.fromkeys(ways, float("inf"))
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for name, way in ways.items():
                start = time.perf_counter()
                way()
                best[name] = min(best[name], time.perf_counter() - start)
    finally:
        gc.enable()
    return best


def operators() -> dict[str, float]:
    """Return the nanoseconds that watching adds to an operator."""
    call = mt.empty(64, 64, device="meta").exp

    def way(*watchers: Callable[[], Any]) -> Callable[[], None]:
        def run() -> None:
            with ExitStack() as stack:
                for watcher in watchers:
                    stack.enter_context(watcher())
                for _ in range(CALLS):
                    call()

        return run

    found = least(
        {"plain": way(), "tracker": way(MemoryTracker), "log": way(MemoryLog), "log and attribution": way(MemoryLog, Attribution)}, 200
    )
    nanoseconds = {name: seconds / CALLS * 1e9 for name, seconds in found.items()}
    plain = nanoseconds.pop("plain")
    return {"plain": plain, **{name: value - plain for name, value in nanoseconds.items()}}


def gpt2() -> dict[str, float]:
    """Return the milliseconds of a training step of GPT-2, plain and watched."""
    with mt.device("meta"):
        model, x = example("gpt2", "metatensor").gpt2(), mt.zeros(1, 1024, dtype=mt.int64)
    optimizer = mt.optim.AdamW(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        y = model(x)
        mt.nn.functional.cross_entropy(y.view(-1, y.shape[-1]), x.view(-1)).backward()
        optimizer.step()

    def watched(*watchers: Callable[[], Any]) -> Callable[[], None]:
        def run() -> None:
            with ExitStack() as stack:
                for watcher in watchers:
                    stack.enter_context(watcher())
                step()

        return run

    ways = {"plain": step, "log": watched(MemoryLog), "log and attribution": watched(MemoryLog, Attribution),
            "profile": lambda: profile(step)}  # fmt: skip
    return {name: seconds * 1e3 for name, seconds in least(ways, 40).items()}


def main() -> None:
    """Print the figures, and write them as JSON if a file is given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", metavar="FILE")
    file = parser.parse_args().json
    found = {"operator_ns": operators(), "gpt2_ms": gpt2()}
    for name, value in found["operator_ns"].items():
        print(f"an operator, {name}: {'' if name == 'plain' else '+'}{value:.1f} ns")
    plain = found["gpt2_ms"]["plain"]
    for name, value in found["gpt2_ms"].items():
        print(f"a training step of GPT-2, {name}: {value:.2f} ms, {value / plain:.2f} times the plain step")
    if file:
        with open(file, "w", encoding="utf-8") as out:
            json.dump(found, out, indent=2)


if __name__ == "__main__":
    main()
