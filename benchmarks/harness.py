"""Benchmark cases as data, the libraries that run them, and interleaved timing.

A case is one line of a table, ``name | call | NumPy's call``. The call runs on metatensor and on PyTorch. In it, ``m``
is the library, ``F`` its ``nn.functional`` and ``dev`` the device. Every other name is an input from ``INPUTS``, which
is created separately for each library. In NumPy's call, ``np`` is NumPy. The column is empty if NumPy has no
counterpart.
"""

from __future__ import annotations

import gc
import importlib
import random
import statistics
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from types import CodeType
from typing import Any

# name: (dtype, shape). Floats are ones, for which every function is defined. Integers are zeros, so that every
# index is in range. `q` holds integer ones, for division and shifts. `e` is the identity matrix, which has every
# factorisation, and `p` holds its pivots. In-place calls write to `y`.
INPUTS: dict[str, tuple[str, tuple[int, ...]]] = {
    "a": ("float32", (2, 3)),
    "b": ("float32", (2, 3)),
    "c": ("float32", (2, 3)),
    "row": ("float32", (3,)),
    "s": ("float32", (3, 3)),
    "t": ("float32", (2, 3, 4)),
    "u": ("float32", (2, 4, 5)),
    "v": ("float32", (4,)),
    "w": ("float32", (4, 3)),
    "y": ("float32", (2, 3)),
    "z": ("complex64", (2, 3)),
    "i": ("int64", (2, 3)),
    "j": ("int64", (2,)),
    "q": ("int64", (2, 3)),
    "k": ("bool", (2, 3)),
    "l": ("bool", (2, 3)),
    "m1": ("float32", (3, 5)),
    "m2": ("float32", (2, 3, 5)),
    "m3": ("float32", (4, 3, 3)),
    "one4": ("float32", (2, 1, 4)),
    "two": ("float32", (2,)),
    "one": ("float32", (1, 3, 1)),
    "x1": ("float32", (1, 4, 8)),
    "x2": ("float32", (1, 4, 8, 8)),
    "x3": ("float32", (1, 4, 8, 8, 8)),
    "k1": ("float32", (4, 4, 3)),
    "k2": ("float32", (4, 4, 3, 3)),
    "k3": ("float32", (4, 4, 3, 3, 3)),
    "g": ("float32", (4,)),
    "qkv": ("float32", (1, 2, 4, 8)),
    "e": ("float32", (3, 3)),
    "p": ("int32", (3,)),
    "pairs": ("float32", (2, 3, 2)),
    "ones": ("float32", (4,)),
    "wave": ("float32", (16,)),
    "spectrum": ("complex64", (3, 17)),
    "target": ("int64", (3, 1)),
    "affine": ("float32", (1, 2, 3)),
    "grid": ("float32", (1, 4, 4, 2)),
    "grid3": ("float32", (1, 4, 4, 4, 3)),
    "columns": ("float32", (1, 4, 4)),
    "spots": ("int64", (1, 4, 8, 8)),
    "spots1": ("int64", (1, 4, 8)),
    "spots3": ("int64", (1, 4, 8, 8, 8)),
    "heads": ("float32", (3, 2, 4)),
    "w4": ("float32", (4, 4)),
    "w12x4": ("float32", (12, 4)),
    "seq": ("float32", (2, 4, 3)),
    "state": ("float32", (1, 2, 3)),
    "w9": ("float32", (9, 3)),
    "b9": ("float32", (9,)),
    "w12": ("float32", (12, 3)),
    "b12": ("float32", (12,)),
}
ZEROS = {"i", "j", "spots", "spots1", "spots3"}
IDENTITIES = {"e"}


@dataclass(frozen=True)
class Case:
    """A row of a table: an op, the call, and NumPy's equivalent."""

    family: str
    name: str
    call: str
    numpy: str | None = None


def table(family: str, text: str) -> list[Case]:
    """Parse a table of ``name | call | numpy`` lines. The last column is optional."""
    cases = []
    for line in filter(None, map(str.strip, text.splitlines())):
        name, call, *numpy = (part.strip() for part in line.split(" | "))
        cases.append(Case(family, name, call, numpy[0] if numpy else None))
    return cases


class Library:
    """A library that can run cases: its name in the report, and the namespace of the calls."""

    def __init__(self, title: str, module: str, device: str | None) -> None:
        self.title = title
        self.module = importlib.import_module(module)
        self.device = device
        self.is_numpy = module == "numpy"
        self._inputs: dict[str, Any] = {}
        no_grad = getattr(self.module, "no_grad", None)
        self.context: Callable[[], Any] = no_grad or nullcontext
        if self.is_numpy:
            self._inputs["np"] = self.module
        else:
            functional = importlib.import_module(f"{module}.nn.functional")
            self._inputs.update(m=self.module, F=functional, dev=device)

    def input(self, name: str) -> Any:
        """Return the input of that name. It is created on first use."""
        if name not in self._inputs:
            dtype, shape = INPUTS[name]
            options = {"dtype": getattr(self.module, dtype)} | ({} if self.device is None else {"device": self.device})
            if name in IDENTITIES:
                self._inputs[name] = self.module.eye(*shape, **options)
            else:
                make = getattr(self.module, "zeros" if name in ZEROS else "ones")
                self._inputs[name] = make(shape, **options)
        return self._inputs[name]

    def loop(self, case: Case) -> Callable[[int], None] | None:
        """Return a function that makes the call n times, or None if the library has no such call. All names are local."""
        call = case.numpy if self.is_numpy else case.call
        if not call:
            return None
        names = sorted(set(free_names(call)))
        source = f"def loop(n, {', '.join(names)}):\n    for _ in range(n):\n        {call}\n"
        scope: dict[str, Any] = {}
        exec(compile(source, f"<{case.name}>", "exec"), scope)
        values = [self.input(name) for name in names]
        made = scope["loop"]
        return lambda n: made(n, *values)


def free_names(call: str) -> Iterable[str]:
    """Return the global names that an expression reads."""
    import builtins

    code: CodeType = compile(call, "<case>", "exec")
    return [n for n in code.co_names if (n in INPUTS or n in ("m", "F", "np", "dev")) and not hasattr(builtins, n)]


def interleaved(
    loops: dict[str, Callable[[int], None]],
    rounds: int,
    budget: float,
    pick: Callable[[list[float]], float] = statistics.median,
) -> dict[str, float]:
    """Return the median seconds per call of each loop, or what ``pick`` selects from the times of all rounds.

    The loops take turns, so that other load on the machine affects all of them. Their order is random in each round, so
    that periodic load does not affect one of them more than the others. A turn makes as many calls as fit into
    ``budget`` seconds.
    """
    order = list(loops)
    draw = random.Random(0)
    counts = {}
    for name, loop in loops.items():
        loop(2)
        counts[name] = calls_within(loop, budget)
    samples: dict[str, list[float]] = {name: [] for name in loops}
    enabled = gc.isenabled()
    gc.disable()
    try:
        for _ in range(rounds):
            draw.shuffle(order)
            for name in order:
                samples[name].append(timed(loops[name], counts[name]) / counts[name])
    finally:
        if enabled:
            gc.enable()
    return {name: pick(values) for name, values in samples.items()}


def calls_within(loop: Callable[[int], None], budget: float) -> int:
    """Return the number of calls that fit into a budget. It uses the best of three tries, because interruptions add time."""
    n = 1
    while True:
        spent = min(timed(loop, n) for _ in range(3))
        if spent >= budget / 4 or n >= 1 << 20:
            return max(1, int(n * budget / spent))
        n *= 4


def timed(loop: Callable[[int], None], n: int) -> float:
    start = time.perf_counter()
    loop(n)
    return max(time.perf_counter() - start, 1e-9)


def suite(cases: list[Case]) -> type:
    """Return the cases as a benchmark class for asv, with the op as its only parameter."""
    by_name = {case.name: case for case in cases}

    class Suite:
        params = list(by_name)
        param_names = ("op",)

        def setup(self, op: str) -> None:
            self.loop = Library("metatensor", "metatensor", "meta").loop(by_name[op])

        def time_meta(self, op: str) -> None:
            self.loop(1)

    Suite.__name__ = Suite.__qualname__ = cases[0].family.title()
    return Suite
