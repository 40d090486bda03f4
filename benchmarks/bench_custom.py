"""Time custom operators with a meta function in Python, and compare with the function alone.

    python -m benchmarks.bench_custom

The difference is the overhead of the dispatcher, which must be at most half a microsecond. The operator and its
function take turns. The shortest time of each counts, because other load on the machine only adds time.
"""

from __future__ import annotations

import sys

import metatensor as mt

from .harness import calls_within, timed

CASES: list[object] = []  # the table of run.py, which compares libraries, has no rows for these
LIMIT = 0.5e-6


def unary(x: mt.Tensor) -> mt.Spec:
    return mt.Spec(x.shape, x.dtype)


def options(x: mt.Tensor, y: mt.Tensor, alpha: float = 1.0, *, interleaved: bool = False) -> mt.Spec:
    return mt.Spec(x.shape, x.dtype)


def strided(x: mt.Tensor) -> mt.Spec:
    return mt.Spec(x.shape, x.dtype, strides=x.stride())


def two(x: mt.Tensor) -> tuple[mt.Spec, mt.Spec]:
    return mt.Spec(x.shape, x.dtype), mt.Spec(x.shape, x.dtype)


def several(xs: list[mt.Tensor], dims: tuple[int, ...] = (0,)) -> mt.Spec:
    return mt.Spec(xs[0].shape, xs[0].dtype)


def written(x: mt.Tensor) -> None:
    return None


CALLS = {
    "unary": ("f(a)", unary, ()),
    "two tensors, an option": ("f(a, a, interleaved=True)", options, ()),
    "strides": ("f(a)", strided, ()),
    "two results": ("f(a)", two, ()),
    "a list of tensors": ("f([a, a], (1,))", several, ()),
    "writes its argument": ("f(a)", written, ("x",)),
}


def loop(call: str, function: object):
    """Return a function that runs `call` n times."""
    scope: dict = {}
    exec(f"def loop(n, f, a):\n    for _ in range(n):\n        {call}\n", scope)
    a = mt.empty(2, 3, device="meta")
    return lambda n: scope["loop"](n, function, a)


def least(loops: dict, rounds: int, budget: float) -> dict:
    """Return the seconds per call of each loop, as the minimum over all rounds."""
    counts = {name: calls_within(run, budget) for name, run in loops.items()}
    best = dict.fromkeys(loops, float("inf"))
    for _ in range(rounds):
        for name, run in loops.items():
            best[name] = min(best[name], timed(run, counts[name]) / counts[name])
    return best


def main(rounds: int = 200, budget: float = 0.0005) -> int:
    loops = {}
    for title, (call, body, mutated) in CALLS.items():
        op = mt.op(f"bench_custom::{body.__name__}", mutates_args=mutated)(body)
        loops[title, "op"], loops[title, "function"] = loop(call, op), loop(call, body)
    spent = least(loops, rounds, budget)
    worst = 0.0
    for title in CALLS:
        op, function = spent[title, "op"], spent[title, "function"]
        worst = max(worst, op - function)
        print(f"{title:26}{op * 1e9:8.0f} ns, of which its function {function * 1e9:6.0f}: {(op - function) * 1e9:6.0f} more")
    verdict = "met" if worst < LIMIT else "MISSED"
    print(f"the largest overhead is {worst * 1e9:.0f} ns; the limit is {LIMIT * 1e9:.0f}: {verdict}")
    return int(worst >= LIMIT)


if __name__ == "__main__":
    sys.exit(main())
