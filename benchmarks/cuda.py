"""Time whole models on a GPU, and compare with PyTorch on the same GPU.

    python -m benchmarks.cuda                        # ResNet-50 and GPT-2, forward, float32
    python -m benchmarks.cuda --rounds 30 --json out.json
    python -m benchmarks.cuda --device cpu --titles "small convolutions"

Each library runs the source of the examples. The libraries take turns, and every turn ends by synchronizing with the
GPU. Figures are medians in milliseconds. PyTorch keeps its default settings: it uses TF32 for convolutions, but not for
matrix products.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import time
from statistics import median
from typing import Any

from .models import MODELS, example

LARGE = ("ResNet-50", "GPT-2")
SMALL = ("small convolutions", "small transformer")


def prepare(library: str, title: str, device: str) -> Any:
    """Return a function that runs the forward pass once, without synchronizing."""
    m: Any = importlib.import_module(library)
    with m.device(device):
        if title in MODELS:
            file, function, dtype, shape = MODELS[title]
            model = getattr(example(file, library), function)()
            x = m.zeros(shape, dtype=getattr(m, dtype))
        elif title == "small convolutions":
            model = m.nn.Sequential(m.nn.Conv2d(3, 8, 3), m.nn.BatchNorm2d(8), m.nn.ReLU(), m.nn.AdaptiveAvgPool2d(1))
            x = m.ones(2, 3, 16, 16)
        else:
            model = m.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
            x = m.ones(2, 8, 32)
    model.eval()

    def forward() -> None:
        with m.no_grad():
            model(x)

    return forward


def wait(library: str, device: str) -> None:
    """Wait until the device has finished all work of the library."""
    kind, _, number = device.partition(":")
    if library == "metatensor":
        from metatensor import plugins

        plugins.backend(kind).synchronize(int(number or 0))
    elif kind != "cpu":
        importlib.import_module(library).cuda.synchronize(int(number or 0))


def measure(libraries: list[str], rounds: int, device: str, titles: tuple[str, ...] = LARGE) -> dict[str, dict[str, float]]:
    """Return ``{title: {library: milliseconds}}``: medians after two warm-up rounds. The libraries take turns."""
    rows = {}
    for title in titles:
        runs = {library: prepare(library, title, device) for library in libraries}
        spent: dict[str, list[float]] = {library: [] for library in libraries}
        for turn in range(rounds + 2):
            for library, forward in runs.items():
                wait(library, device)
                start = time.perf_counter()
                forward()
                wait(library, device)
                if turn >= 2:
                    spent[library].append((time.perf_counter() - start) * 1000)
        rows[title] = {library: median(times) for library, times in spent.items()}
    return rows


def render(rows: dict[str, dict[str, float]]) -> str:
    """Format the figures as a table."""
    lines = []
    for title, row in rows.items():
        figures = "  ".join(f"{library} {figure:10.3f} ms" for library, figure in row.items())
        ratio = f"  {row['metatensor'] / row['torch']:6.2f} times" if "torch" in row else ""
        lines.append(f"{title:20} {figures}{ratio}")
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--titles", default=",".join(LARGE), help=f"of {', '.join(LARGE + SMALL)}")
    parser.add_argument("--json", help="write the figures here")
    args = parser.parse_args(argv)
    libraries = ["metatensor"] + (["torch"] if importlib.util.find_spec("torch") else [])
    rows = measure(libraries, args.rounds, args.device, tuple(args.titles.split(",")))
    print(render(rows))
    if args.json:
        with open(args.json, "w") as file:
            json.dump(rows, file, indent=1)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
