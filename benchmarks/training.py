"""Time gradients: what recording costs, the backward pass, and training steps, beside PyTorch in one run.

    python -m benchmarks.training [recording] [backward] [gpt2] [cpu] [--json FILE]

``recording`` is the time of an operator whose result requires grad over its time under ``no_grad``, on meta. ``backward``
is the time for one node of the graph. ``gpt2`` is one training step of GPT-2 with AdamW on meta. ``cpu`` is training steps
with values: MiniLM's architecture (batch 16, 128 tokens), a small convolutional network, and an MLP of 32 units, with
one thread for each library. Times of PyTorch on meta are of few rounds, because it is slow there.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import time
from collections.abc import Callable
from statistics import mean, median
from typing import Any

from .harness import interleaved
from .models import example

LIBRARIES = ("metatensor", "torch")


def _operators(m: Any, device: str) -> dict[str, Callable[[], Any]]:
    w = m.empty(8, 8, device=device, requires_grad=True)
    x = w * 1
    f = m.nn.functional
    return {
        "mul": lambda: x * x, "add": lambda: x + x, "div": lambda: x / 2.0, "exp": lambda: x.exp(), "relu": lambda: f.relu(x),
        "gelu": lambda: f.gelu(x), "softmax": lambda: f.softmax(x, -1), "mm": lambda: m.mm(x, x), "view": lambda: x.view(64),
        "t": lambda: x.t(), "transpose": lambda: x.transpose(0, 1), "sum": lambda: x.sum(), "mean": lambda: x.mean(),
        "select": lambda: x.select(0, 0), "linear": lambda: f.linear(x, w), "layer_norm": lambda: f.layer_norm(x, (8,)),
        "cat": lambda: m.cat([x, x]), "matmul": lambda: x @ x,
    }  # fmt: skip


def _loop(call: Callable[[], Any]) -> Callable[[int], None]:
    def loop(n: int) -> None:
        for _ in range(n):
            call()

    return loop


def recording(libraries: tuple[str, ...]) -> dict[str, Any]:
    """Return, for each operator, the nanoseconds that recording adds: metatensor on meta, PyTorch on its CPU."""
    figures: dict[str, Any] = {}
    for library in libraries:
        m = importlib.import_module(library)
        added = {}
        for name, call in _operators(m, "meta" if library == "metatensor" else "cpu").items():

            def without(n: int, call: Callable[[], Any] = call, m: Any = m) -> None:
                with m.no_grad():
                    for _ in range(n):
                        call()

            spent = interleaved({"with": _loop(call), "without": without}, 9, 0.01, min)
            added[name] = (spent["with"] - spent["without"]) * 1e9
        figures[library] = added
    print("recording: ns over no_grad     " + "".join(f"{library:>14}" for library in libraries))
    for name in figures["metatensor"]:
        print(f"  {name:28}" + "".join(f"{figures[library][name]:14.0f}" for library in libraries))
    print(f"  {'mean':28}" + "".join(f"{mean(figures[library].values()):14.0f}" for library in libraries))
    return figures


def _chain(m: Any, x: Any, w: Any, rounds: int) -> Any:
    y, f = w, m.nn.functional
    for _ in range(rounds):
        y = f.softmax(f.gelu((((y * x).relu() @ x) + x).exp().view(64).view(8, 8)), -1)
    return y.sum()


def _nodes(loss: Any) -> int:
    seen, queue = set(), [loss.grad_fn]
    while queue:
        node = queue.pop()
        if node in seen:
            continue
        seen.add(node)
        queue.extend(following for following, _ in node.next_functions if following is not None)
    return len(seen)


def backward(libraries: tuple[str, ...]) -> dict[str, float]:
    """Return the nanoseconds of the backward pass for a node, over a chain of common operators."""
    figures = {}
    for library, device in [("metatensor", "meta"), *((("torch", "cpu"), ("torch", "meta")) if "torch" in libraries else ())]:
        m = importlib.import_module(library)
        x, w = m.empty(8, 8, device=device), m.empty(8, 8, device=device, requires_grad=True)
        rounds, samples = (10, 3) if (library, device) == ("torch", "meta") else (200, 15)
        spent = []
        for _ in range(samples):
            loss = _chain(m, x, w, rounds)
            nodes = _nodes(loss)
            start = time.perf_counter()
            loss.backward()
            spent.append((time.perf_counter() - start) / nodes)
        figures[f"{library} {device}"] = min(spent) * 1e9
    print("backward: ns a node            " + ", ".join(f"{name} {value:,.0f}" for name, value in figures.items()))
    return figures


def gpt2(libraries: tuple[str, ...]) -> dict[str, list[float]]:
    """Return the seconds of forward, backward and AdamW of one step on meta."""
    figures = {}
    for library in libraries:
        m: Any = importlib.import_module(library)
        with m.device("meta"):
            model = example("gpt2", library).gpt2()
            x = m.zeros(1, 1024, dtype=m.int64)
        optimizer = m.optim.AdamW(model.parameters())
        spent = []
        for _ in range(6 if library == "torch" else 60):
            optimizer.zero_grad()
            times = [time.perf_counter()]
            y = model(x)
            loss = m.nn.functional.cross_entropy(y.view(-1, y.shape[-1]), x.view(-1))
            times.append(time.perf_counter())
            loss.backward()
            times.append(time.perf_counter())
            optimizer.step()
            times.append(time.perf_counter())
            spent.append([b - a for a, b in zip(times, times[1:], strict=False)])
        figures[library] = [median(part) for part in zip(*spent[1:], strict=True)]
        names = ("forward", "backward", "AdamW")
        parts = ", ".join(f"{name} {value * 1e3:.2f}" for name, value in zip(names, figures[library], strict=True))
        print(f"GPT-2 step on meta: {library:11} {sum(figures[library]) * 1e3:8.2f} ms ({parts})")
    if "torch" in figures:
        print(f"  {sum(figures['torch']) / sum(figures['metatensor']):.0f} times as fast; without the optimizer "
              f"{sum(figures['torch'][:2]) / sum(figures['metatensor'][:2]):.0f}")  # fmt: skip
    return figures


def _step(m: Any, name: str) -> Callable[[], Any]:
    """Return a training step on cpu."""
    f = m.nn.functional
    if name == "MiniLM":
        from .minilm import bert

        model = bert(m.__name__).minilm_l6()
        tokens = m.zeros(16, 128, dtype=m.int64)
        for p in model.parameters():
            p.data.normal_(0, 0.02)

        def loss() -> Any:
            return model(tokens)[0].pow(2).mean()

    elif name == "convolutional network":
        n = m.nn
        model = n.Sequential(n.Conv2d(3, 16, 3, padding=1), n.BatchNorm2d(16), n.ReLU(), n.MaxPool2d(2), n.Conv2d(16, 32, 3, padding=1),
                             n.BatchNorm2d(32), n.ReLU(), n.AdaptiveAvgPool2d(1), n.Flatten(), n.Linear(32, 10))  # fmt: skip
        images, labels = m.randn(16, 3, 32, 32), m.zeros(16, dtype=m.int64)

        def loss() -> Any:
            return f.cross_entropy(model(images), labels)

    else:
        n = m.nn
        model = n.Sequential(n.Linear(32, 32), n.ReLU(), n.Linear(32, 32), n.ReLU(), n.Linear(32, 1))
        rows = m.randn(8, 32)

        def loss() -> Any:
            return model(rows).pow(2).mean()

    optimizer = m.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    return step


def cpu(libraries: tuple[str, ...]) -> dict[str, dict[str, float]]:
    """Return the seconds of a training step with values, one thread for each library."""
    figures = {}
    for name in ("MLP of 32 units", "convolutional network", "MiniLM"):
        loops = {}
        for library in libraries:
            m = importlib.import_module(library)
            with m.device("cpu"):
                loops[library] = _loop(_step(m, name))
        figures[name] = interleaved(loops, 5, 0.2)
        ratio = f"{figures[name]['metatensor'] / figures[name]['torch']:.2f} times PyTorch's time" if "torch" in libraries else ""
        times = "".join(f"{library} {value * 1e3:9.3f} ms   " for library, value in figures[name].items())
        print(f"step on cpu: {name:24}{times}{ratio}")
    return figures


PARTS = {"recording": recording, "backward": backward, "gpt2": gpt2, "cpu": cpu}


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], help="what to time; default: all")
    parser.add_argument("--json", help="write the figures to this file")
    options = parser.parse_args()
    libraries = LIBRARIES if importlib.util.find_spec("torch") else LIBRARIES[:1]
    if "torch" in libraries:
        importlib.import_module("torch").set_num_threads(1)
    figures = {name: PARTS[name](libraries) for name in options.parts or PARTS}
    if options.json:
        with open(options.json, "w") as file:
            json.dump(figures, file, indent=1)


if __name__ == "__main__":
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":
        import subprocess
        import sys

        # NumPy reads the number of threads when it is imported.
        raise SystemExit(subprocess.call([sys.executable, "-m", "benchmarks.training", *sys.argv[1:]],
                                         env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}))  # fmt: skip
    main()
