"""Compare predicted with measured step times of ten models on this machine.

    metatensor calibrate --device cpu --threads 1 --output this-machine.toml
    python -m benchmarks.prediction --profile this-machine.toml [--rounds N] [--json FILE] [MODEL ...]

For each model it prints the predicted and the measured time of a forward pass without gradients and of a forward pass with
backward, the spread of the measured ones (upper quartile over the least), and the error of the prediction. Models take turns.
With one thread the clock is the processor time of that thread, as in calibration; the least wall time stands beside it.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import metatensor as mt
from metatensor.analysis import device_profile
from metatensor.analysis.calibration.measuring import clock_for
from metatensor.analysis.calls import CallRecorder
from metatensor.analysis.timing import predict

from .prediction_models import MODELS

PARTS = ("forward", "forward and backward")


def _both(model: Any, inputs: tuple[Any, ...]) -> dict[str, Callable[[], None]]:
    def forward() -> None:
        with mt.no_grad():
            model(*inputs)

    def with_backward() -> None:
        model(*inputs).mean().backward()

    return {"forward": forward, "forward and backward": with_backward}


def predicted(profile: Any, names: list[str]) -> dict[str, dict[str, float | None]]:
    """Return the predicted seconds of both parts of each model, from runs on meta."""
    found: dict[str, dict[str, float | None]] = {}
    for name in names:
        with mt.device("meta"):
            model, inputs = MODELS[name]()
            with mt.no_grad(), CallRecorder() as forward:
                model(*inputs)
            with CallRecorder() as both:
                loss = model(*inputs).mean()
                both.phase = "backward"
                loss.backward()
        found[name] = {part: predict(run.calls, profile).seconds for part, run in zip(PARTS, (forward, both), strict=True)}
    return found


def measured(names: list[str], rounds: int, clock: Callable[[], float]) -> dict[str, dict[str, dict[str, float]]]:
    """Return, for both parts of each model, the least seconds by the clock, the upper quartile, and the least wall time."""
    made = {}
    for name in names:
        mt.manual_seed(0)
        with mt.device("cpu"):
            model, inputs = MODELS[name]()
        made[name] = (model, _both(model, inputs))
    samples: dict[tuple[str, str], list[tuple[float, float]]] = {}
    gc.disable()
    for turn in range(rounds + 1):
        for name, (model, runs) in made.items():
            for part, run in runs.items():
                model.zero_grad()
                wall, start = time.perf_counter(), clock()
                run()
                spent = clock() - start, time.perf_counter() - wall
                if turn:  # the first round is a warm-up
                    samples.setdefault((name, part), []).append(spent)
        gc.collect()
    gc.enable()
    found: dict[str, dict[str, dict[str, float]]] = {}
    for (name, part), times in samples.items():
        own = sorted(spent for spent, _ in times)
        found.setdefault(name, {})[part] = {"least": own[0], "upper quartile": own[len(own) * 3 // 4],
            "wall": min(wall for _, wall in times)}
    return found


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", choices=[[], *MODELS], help="default: all")
    parser.add_argument("--profile", required=True, help="a profile that `metatensor calibrate` wrote")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", help="write the figures to this file")
    options = parser.parse_args()
    names = options.models or list(MODELS)
    clock, counts = clock_for("cpu")
    guess, real = predicted(device_profile(options.profile), names), measured(names, options.rounds, clock)
    print(f"milliseconds; measured: least of {options.rounds} by {counts}, with the upper quartile over it, and the least wall time")
    print(f"{'':12}{'':22}{'predicted':>11}{'measured':>11}{'spread':>9}{'wall':>9}{'error':>9}")
    errors = []
    for name in names:
        for part in PARTS:
            value, times = guess[name][part], real[name][part]
            if value is None:
                print(f"{name:12}{part:22}{'unknown':>11}")
                continue
            errors.append(abs(value / times["least"] - 1))
            spread = times["upper quartile"] / times["least"] - 1
            print(f"{name:12}{part:22}{value * 1e3:11.2f}{times['least'] * 1e3:11.2f}{spread:+9.0%}{times['wall'] * 1e3:9.2f}"
                  f"{value / times['least'] - 1:+9.0%}")  # fmt: skip
    print(f"error: median {median(errors):.0%}, worst {max(errors):.0%}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"predicted": guess, "measured": real}, file, indent=1)


if __name__ == "__main__":
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":
        import subprocess
        import sys

        # NumPy reads the number of threads when it is imported.
        raise SystemExit(subprocess.call([sys.executable, "-m", "benchmarks.prediction", *sys.argv[1:]],
                                         env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}))  # fmt: skip
    main()
