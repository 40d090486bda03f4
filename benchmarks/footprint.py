"""Measure import times and the memory of a meta tensor, each in a separate process."""

from __future__ import annotations

import subprocess
import sys
import time
from statistics import median

COUNT = 200_000
_BYTES = f"""
import gc, importlib, os, sys
m = importlib.import_module(sys.argv[1])
make = (lambda: m.empty((2, 3))) if sys.argv[1] == "numpy" else (lambda: m.empty((2, 3), device="meta"))
def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
keep = [None] * {COUNT}
for i in range(1000):
    make()
gc.collect()
gc.disable()
before = resident()
for i in range({COUNT}):
    keep[i] = make()
print((resident() - before) / {COUNT})
"""


def run(*arguments: str) -> str:
    """Run this Python outside the source tree, so that it imports the installed package. Return its output."""
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True, cwd="/")
    return done.stdout


def import_seconds(modules: list[str], rounds: int) -> dict[str, float]:
    """Return the median seconds by which importing each module exceeds starting Python. The runs take turns."""
    samples: dict[str, list[float]] = {name: [] for name in ["", *modules]}
    for _ in range(rounds):
        for name, spent in samples.items():
            start = time.perf_counter()
            run("-c", f"import {name}" if name else "pass")
            spent.append(time.perf_counter() - start)
    bare = median(samples.pop(""))
    return {name: median(spent) - bare for name, spent in samples.items()}


def tensor_bytes(modules: list[str]) -> dict[str, float]:
    """Return the resident bytes per meta tensor (for NumPy, per small array), measured with many of them alive."""
    return {name: float(run("-c", _BYTES, name)) for name in modules}
