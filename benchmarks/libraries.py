"""Time construction, forward pass and training step of timm's models on metatensor and on PyTorch's meta device, in one run.

    python -m benchmarks.libraries --torch-python PYTHON [--models 100] [--train] [--json FILE]

One side is this interpreter, with metatensor installed as torch. The other side is PYTHON, an interpreter with PyTorch.
Both must have the same version of timm. Each side is a process. They take turns, model by model, so that other load on
the machine affects both. Before the timings, each process builds and runs one model as a warm-up. Construction is then
timed once per model, and so are the forward pass and, with ``--train``, the step (forward in training mode, backward and
AdamW), each after one untimed pass.
"""

from __future__ import annotations

import argparse
import importlib.abc
import importlib.machinery
import json
import math
import random
import subprocess
import sys
import time
import types
from typing import Any

WORKER = "--worker"


class _WithoutTorchvision(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports torchvision as a package of empty classes. timm imports it for image transforms, which are not measured."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        if fullname.partition(".")[0] == "torchvision":
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> Any:
        class Names(type):
            def __getattr__(cls, name: str) -> Any:
                if name.startswith("__"):
                    raise AttributeError(name)
                return name

        class Empty(types.ModuleType):
            def __getattr__(self, name: str) -> Any:
                if name.startswith("__"):
                    raise AttributeError(name)
                return Names(name, (), {})

        return Empty(spec.name)

    def exec_module(self, module: Any) -> None:
        return None


def work(name_of_library: str, train: bool) -> None:
    """Read names of models from stdin, and write [seconds to build, to run and, with `train`, to train] of each to stdout."""
    import os
    import warnings

    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    warnings.filterwarnings("ignore")
    if name_of_library == "metatensor":
        from metatensor import torch_api

        torch_api.install()
    import torch

    torch.set_num_threads(1)
    sys.meta_path.insert(0, _WithoutTorchvision())
    import timm

    def measure(name: str) -> list[float]:
        start = time.perf_counter()
        with torch.device("meta"):
            model = timm.create_model(name, pretrained=False)
        built = time.perf_counter() - start
        model.eval()
        size = model.default_cfg.get("input_size") or (3, 224, 224)
        x = torch.empty((1, *size), device="meta")
        with torch.no_grad():
            model(x)
            start = time.perf_counter()
            model(x)
            ran = time.perf_counter() - start
        return [built, ran, *([step(model, size)] if train else [])]

    def step(model: Any, size: Any) -> float:
        model.train()
        optimizer = torch.optim.AdamW(model.parameters())
        x = torch.empty((2, *size), device="meta")
        spent = 0.0
        for _ in range(2):
            optimizer.zero_grad()
            start = time.perf_counter()
            output = model(x)
            leaves = output if isinstance(output, (tuple, list)) else [output]
            sum(t.float().mean() for t in leaves).backward()
            optimizer.step()
            spent = time.perf_counter() - start
        return spent

    measure("resnet18")
    print(json.dumps(timm.list_models()), file=answers)
    for line in sys.stdin:
        try:
            print(json.dumps(measure(line.strip())), file=answers)
        except Exception as error:
            print(json.dumps(f"{type(error).__name__}: {error}"), file=answers)


class Side:
    """One of the two worker processes."""

    def __init__(self, library: str, python: str, train: bool) -> None:
        command = [python, "-m", "benchmarks.libraries", WORKER, library, *(["--train"] if train else [])]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.names = self._read()

    def _read(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"a worker ended with status {self.process.wait()}: {' '.join(self.process.args)}")  # type: ignore[arg-type]
        return json.loads(line)

    def measure(self, name: str) -> Any:
        """Return the seconds that `work` writes, or an error message."""
        assert self.process.stdin is not None
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        return self._read()


def mean(ratios: list[float]) -> float:
    """Return the geometric mean."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--torch-python", default=sys.executable, help="an interpreter with PyTorch and timm")
    parser.add_argument("--models", type=int, default=100, help="number of models, chosen at random; 0 for all")
    parser.add_argument("--train", action="store_true", help="time a training step, too")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", help="write the figures of each model to this file")
    options = parser.parse_args()
    ours = Side("metatensor", sys.executable, options.train)
    theirs = Side("torch", options.torch_python, options.train)
    names = [name for name in ours.names if name in set(theirs.names)]
    if options.models and options.models < len(names):
        names = sorted(random.Random(options.seed).sample(names, options.models))
    figures, failures = {}, {}
    for name in names:
        mine, other = ours.measure(name), theirs.measure(name)
        if isinstance(mine, str) or isinstance(other, str):
            failures[name] = {"metatensor": mine, "torch": other}
            continue
        figures[name] = {"metatensor": mine, "torch": other}
    for i, what in enumerate(("construction", "forward", "training")[: 3 if options.train else 2]):
        ratios = sorted(f["torch"][i] / f["metatensor"][i] for f in figures.values())
        total = [sum(f[side][i] for f in figures.values()) for side in ("metatensor", "torch")]
        print(f"{what:12}  {mean(ratios):7.1f} times as fast (geometric mean of {len(ratios)} models; "
              f"{ratios[0]:.1f} to {ratios[-1]:.1f}); in all {total[0]:.2f} s and {total[1]:.2f} s")  # fmt: skip
    for name, failure in failures.items():
        print(f"{name}: {failure}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"figures": figures, "failures": failures}, file, indent=1)


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] == WORKER:
        work(sys.argv[2], "--train" in sys.argv)
    else:
        main()
