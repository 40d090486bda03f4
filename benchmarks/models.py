"""Time whole models. The source of the examples runs on metatensor and, with its imports replaced, on PyTorch."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
ALIASED = ("", ".nn", ".nn.functional")

# title: (file, function, dtype and shape of the input)
MODELS: dict[str, tuple[str, str, str, tuple[int, ...]]] = {
    "GPT-2": ("gpt2", "gpt2", "int64", (1, 1024)),
    "ResNet-50": ("resnet50", "resnet50", "float32", (1, 3, 224, 224)),
    "Llama-3-8B": ("llama3", "llama3_8b", "int64", (1, 2048)),
    "Llama-3.1-405B": ("llama3", "llama3_405b", "int64", (1, 2048)),
}


@contextmanager
def standing_in(library: str) -> Iterator[None]:
    """Redirect imports of ``metatensor`` and its submodules to another library."""
    names = {f"metatensor{part}": f"{library}{part}" for part in ALIASED}
    before = {name: sys.modules.get(name) for name in names}
    sys.modules.update({name: importlib.import_module(real) for name, real in names.items()})
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


def example(file: str, library: str) -> ModuleType:
    """Return the example ``file`` as a module whose imports of ``metatensor`` resolve to ``library``."""
    name = f"{library}_example_{file}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{file}.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses look up their module here
        with standing_in(library):
            spec.loader.exec_module(module)
    return sys.modules[name]


def once(library: str, title: str) -> tuple[float, float]:
    """Return the times, in seconds, to build a model on meta and to run its forward pass there."""
    file, function, dtype, shape = MODELS[title]
    m: Any = importlib.import_module(library)
    build = getattr(example(file, library), function)
    x = m.zeros(shape, dtype=getattr(m, dtype), device="meta")
    start = time.perf_counter()
    with m.device("meta"):
        model = build()
    built = time.perf_counter()
    model.eval()
    with m.no_grad():
        ready = time.perf_counter()
        model(x)
        done = time.perf_counter()
    return built - start, done - ready


def measure(libraries: list[str], rounds: int) -> dict[str, dict[str, tuple[float, float]]]:
    """Return ``{model: {library: (build, forward)}}``: medians in seconds over rounds in which the libraries take turns."""
    results = {}
    for title in MODELS:
        samples: dict[str, list[tuple[float, float]]] = {library: [] for library in libraries}
        for turn in range(rounds + 1):
            for library in libraries:
                spent = once(library, title)
                if turn:  # the first round is a warm-up
                    samples[library].append(spent)
        results[title] = {
            library: (median(s[0] for s in spent), median(s[1] for s in spent)) for library, spent in samples.items()
        }
    return results
