"""Time deferred initialisation: construction, materialisation, shards, fake tensors.

    python -m benchmarks.deferred

Times are processor time of this process, the minimum of several runs that take turns. Peak memory is read from /proc,
so it needs Linux.
"""

from __future__ import annotations

import gc
import re
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import metatensor as mt
from benchmarks.models import example
from metatensor import nn

MODELS = {
    "GPT-2": ("gpt2", "gpt2"), "ResNet-50": ("resnet50", "resnet50"), "BERT": ("bert", "bert_base"),
    "Llama-3-8B": ("llama3", "llama3_8b"), "Llama-3-70B": ("llama3", "llama3_70b"),
}  # fmt: skip
BIG = ("GPT-2", "ResNet-50", "BERT")  # also built with data


def timed(function: Callable[[], Any]) -> float:
    """Return the processor time of a call in seconds. Garbage collection and deallocation of the result are excluded."""
    gc.collect()
    start = time.process_time()
    made = function()
    spent = time.process_time() - start
    del made
    return spent


def on_meta(build: Callable[[], Any]) -> Any:
    """Build on meta."""
    with mt.device("meta"):
        return build()


def deferred(build: Callable[[], Any]) -> Any:
    """Build under deferred_init."""
    with mt.deferred_init():
        return build()


def construction() -> None:
    """Compare deferred construction with construction on meta."""
    for title, (file, name) in MODELS.items():
        build = getattr(example(file, "metatensor"), name)
        runs = [(timed(partial(on_meta, build)), timed(partial(deferred, build))) for _ in range(12)]
        meta, later = (min(times) for times in zip(*runs, strict=True))
        print(f"{title:12} on meta {meta * 1e3:8.2f} ms   deferred {later * 1e3:8.2f} ms   {later / meta:5.2f} times")


def materialising() -> None:
    """Compare materialisation with eager construction."""
    for title in BIG:
        file, name = MODELS[title]
        build = getattr(example(file, "metatensor"), name)
        size = sum(p.numel() * 4 for p in on_meta(build).parameters()) / 1e6
        runs = []
        for _ in range(5):
            model = deferred(build)
            runs.append((timed(build), timed(partial(mt.materialize, model))))
        eager, later = (min(times) for times in zip(*runs, strict=True))
        print(f"{title:12} {size:6.0f} MB   eager {eager:6.2f} s   materialising {later:6.2f} s   {later / eager:5.3f} times")


SHARD = """
import re, sys
import metatensor as mt
from metatensor import nn
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) / 1024
with mt.deferred_init():
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(1024, 8, 4096), 6)
mt.materialize(nn.Linear(8, 8))
mt.materialize_slice(mt.deferred_init()(lambda: mt.rand(8))(), 0)
before, rank = peak(), int(sys.argv[1])
shard = {}
for name, p in model.named_parameters():
    rows = -(-p.shape[0] // 8)
    shard[name] = mt.materialize_slice(p, slice(rank * rows, (rank + 1) * rows))
sizes = [p.numel() * 4 / 2**20 for p in model.parameters()]
print(peak() - before, sum(sizes) / 8, max(sizes))
"""


def shards() -> None:
    """Measure the peak memory of a process that materialises one eighth of each parameter."""
    for rank in (0, 7):
        done = subprocess.run([sys.executable, "-c", SHARD, str(rank)], capture_output=True, text=True, check=True)
        grown, eighth, largest = map(float, re.findall(r"[\d.]+", done.stdout))
        print(f"shard {rank}: grew by {grown:.1f} MiB at the peak; an eighth is {eighth:.1f} MiB, the largest parameter {largest:.1f} MiB")


def fakes() -> None:
    """Time entering the fake mode, and compare operators in it with operators on meta."""
    n = 50_000
    mode = mt.FakeTensorMode()

    def entering() -> None:
        for _ in range(n):
            with mode:
                pass

    print(f"entering the mode: {min(timed(entering) for _ in range(7)) / n * 1e9:.0f} ns")

    def repeated(call: Callable[..., Any], *args: Any) -> Callable[[], None]:
        def loop() -> None:
            for _ in range(n):
                call(*args)

        return loop

    calls: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        "add": (mt.add, ((64, 64), (64, 64))), "matmul": (mt.matmul, ((64, 64), (64, 64))), "relu": (mt.relu, ((64, 64),)),
        "sum": (mt.sum, ((64, 64), 1)), "softmax": (mt.softmax, ((64, 64), 1)), "t": (mt.t, ((64, 64),)),
        "cat": (lambda a, b: mt.cat((a, b)), ((64, 64), (64, 64))), "linear": (nn.functional.linear, ((64, 64), (64, 64))),
        "conv2d": (nn.functional.conv2d, ((1, 8, 32, 32), (8, 8, 3, 3))),
    }  # fmt: skip
    ratios = []
    for name, (call, shapes) in calls.items():
        meta_args = [mt.rand(*s, device="meta") if isinstance(s, tuple) else s for s in shapes]
        meta = repeated(call, *meta_args)
        with mode:
            fake_args = [mt.rand(*s, device="cuda:0") if isinstance(s, tuple) else s for s in shapes]
            fake = repeated(call, *fake_args)
            runs = [(_outside(mode, meta), timed(fake)) for _ in range(7)]
        one, other = (min(times) / n * 1e9 for times in zip(*runs, strict=True))
        ratios.append(other / one)
        print(f"{name:8} on meta {one:6.0f} ns   fake {other:6.0f} ns   {other / one:5.2f} times")
    print(f"at most {max(ratios):.2f} times")


def _outside(mode: Any, function: Callable[[], Any]) -> float:
    """Time a call outside `mode`."""
    mode.__exit__(None, None, None)
    try:
        return timed(function)
    finally:
        mode.__enter__()


if __name__ == "__main__":
    construction()
    materialising()
    shards()
    fakes()
