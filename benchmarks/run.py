"""Time every op on meta, and compare with NumPy and, if installed, PyTorch.

    python -m benchmarks.run                      # everything; one to two minutes
    python -m benchmarks.run --quick              # fewer rounds
    python -m benchmarks.run --ops add,conv2d     # cases whose name contains one of these
    python -m benchmarks.run --part ops --json out.json

The libraries take turns on each case, with the same small inputs; PyTorch uses one thread. Times are medians. At the
end, the program prints the project's limits and whether each is met.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import math
import os
import pkgutil
import sys
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from . import footprint, models
from .harness import Case, Library, interleaved

PARTS = ("ops", "models", "footprint")
OURS, NUMPY, META, CPU = "metatensor", "NumPy", "PyTorch meta", "PyTorch CPU"
# Modules of PyTorch with meta kernels in Python.
PYTHON_META = tuple(f"{os.sep}torch{os.sep}{part}" for part in ("_meta_reg", "_refs", "_prims", "_decomp"))


def cases() -> list[Case]:
    """Return the cases of every ``bench_*.py`` in this directory."""
    found: list[Case] = []
    package = importlib.import_module(__package__ or "benchmarks")
    for info in pkgutil.iter_modules(package.__path__):
        if info.name.startswith("bench_"):
            found += importlib.import_module(f"{package.__name__}.{info.name}").CASES
    return found


def libraries() -> list[Library]:
    """Return metatensor and the other libraries, as far as they are installed."""
    found = [Library(OURS, "metatensor", "meta")]
    if importlib.util.find_spec("numpy"):
        np: Any = importlib.import_module("numpy")
        np.seterr(all="ignore")
        found.append(Library(NUMPY, "numpy", None))
    if importlib.util.find_spec("torch"):
        torch: Any = importlib.import_module("torch")
        torch.set_num_threads(1)
        found += [Library(META, "torch", "meta"), Library(CPU, "torch", "cpu")]
    return found


def runs_in_python(loop: Callable[[int], None]) -> bool:
    """Return True if PyTorch's meta kernel for this call is Python code. This traces one call."""
    seen = False

    def watch(frame: Any, event: str, _: Any) -> None:
        nonlocal seen
        seen = seen or (event == "call" and any(part in frame.f_code.co_filename for part in PYTHON_META))

    sys.setprofile(watch)
    try:
        loop(1)
    finally:
        sys.setprofile(None)
    return seen


def time_case(case: Case, found: list[Library], rounds: int, budget: float) -> dict[str, Any]:
    """Return one row of the report: seconds by library, and the errors of libraries that cannot make the call."""
    loops, failed = {}, {}
    for library in found:
        loop = library.loop(case)
        if loop is None:
            continue
        try:
            loop(1)
        except Exception as e:
            failed[library.title] = f"{type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}"
        else:
            loops[library.title] = loop
    row: dict[str, Any] = {"family": case.family, "op": case.name, "failed": failed}
    row["python_meta"] = META in loops and runs_in_python(loops[META])
    row["seconds"] = interleaved(loops, rounds, budget) if OURS in loops else {}
    return row


def object_ratio(found: list[Library], rounds: int, budget: float) -> dict[str, float]:
    """Return the seconds of ``a + b`` on meta (equal shapes), ``a + row`` and ``object()``, measured in many short turns."""
    add, row = (found[0].loop(Case("pointwise", call, call)) for call in ("a + b", "a + row"))
    assert add is not None and row is not None

    def make(n: int) -> None:
        for _ in range(n):
            object()

    return interleaved({"a + b": add, "a + row": row, "object()": make}, 10 * rounds, budget / 2)


def geomean(ratios: Iterable[float]) -> float:
    logs = [math.log(r) for r in ratios]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def show_time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    for unit, scale in (("ns", 1e9), ("us", 1e6), ("ms", 1e3)):
        if seconds * scale < 10_000:
            return f"{seconds * scale:,.0f} {unit}" if seconds * scale >= 100 else f"{seconds * scale:.1f} {unit}"
    return f"{seconds:.2f} s"


def print_ops(rows: list[dict[str, Any]], titles: list[str]) -> None:
    others = [t for t in titles if t != OURS]
    print(f"{'op':26}{OURS:>12}" + "".join(f"{t:>16}{'ratio':>9}" for t in others))
    family = None
    for row in rows:
        ours = row["seconds"].get(OURS)
        if ours is None:
            continue
        if row["family"] != family:
            family = row["family"]
            print(f"-- {family}")
        line = f"{row['op'][:25]:26}{show_time(ours):>12}"
        for title in others:
            theirs = row["seconds"].get(title)
            mark = "p" if title == META and row["python_meta"] else ""
            line += f"{show_time(theirs) + mark:>16}" + (f"{theirs / ours:>8,.1f}x" if theirs else f"{'':9}")
        print(line)
    if META in titles:
        print("p: PyTorch's meta kernel runs in Python")
    for row in rows:
        for title, why in row["failed"].items():
            print(f"not timed: {row['op']} on {title}: {why}")


def print_models(figures: dict[str, dict[str, tuple[float, float]]]) -> None:
    print(f"\n{'model on meta':18}{'':10}" + "".join(f"{x:>14}" for x in next(iter(figures.values()))) + f"{'ratio':>10}")
    for title, by_library in figures.items():
        for number, step in enumerate(("build", "forward")):
            times = [spent[number] for spent in by_library.values()]
            ratio = f"{times[1] / times[0]:9,.1f}x" if len(times) > 1 else ""
            print(f"{title if not number else '':18}{step:10}" + "".join(f"{show_time(t):>14}" for t in times) + ratio)


def limits(report: dict[str, Any]) -> list[tuple[str, float, str, bool]]:
    """Return ``(name, figure, limit, whether it is met)`` for each limit that was measured."""
    found: list[tuple[str, float, str, bool]] = []

    def at_most(what: str, figure: float, limit: float) -> None:
        found.append((what, figure, f"at most {limit:g}", figure <= limit))

    def at_least(what: str, figure: float, limit: float) -> None:
        found.append((what, figure, f"at least {limit:g}", figure >= limit))

    if "object" in report:
        at_most("a + b, times object()", report["object"]["a + b"] / report["object"]["object()"], 2.5)
        at_most("a + row, times object()", report["object"]["a + row"] / report["object"]["object()"], 2.3)
    rows = [r["seconds"] | {"python": r["python_meta"]} for r in report.get("ops", []) if r["seconds"]]
    in_meta = [r[META] / r[OURS] for r in rows if META in r]
    if in_meta:
        at_least("times faster than PyTorch meta, geometric mean", geomean(in_meta), 250)
        in_python = [r[META] / r[OURS] for r in rows if META in r and r["python"]]
        at_least(f"the same, the {len(in_python)} whose meta kernel is Python", geomean(in_python), 300)
    for row in report.get("ops", []):
        if row["op"] == "einsum" and row["seconds"]:
            at_most("einsum of two matrices, us", 1e6 * row["seconds"][OURS], 1.5)
    if any(CPU in r for r in rows):
        at_most("ops slower than PyTorch CPU", sum(r[CPU] < r[OURS] for r in rows if CPU in r), 0)
    against = [r for r in rows if NUMPY in r]
    if against:
        at_most("share of ops slower than NumPy", sum(r[NUMPY] < r[OURS] for r in against) / len(against), 0.05)
    figures = report.get("models", {})
    if "torch" in figures.get("GPT-2", {}):
        (build, forward), (t_build, t_forward) = figures["GPT-2"]["metatensor"], figures["GPT-2"]["torch"]
        at_least("GPT-2 construction, times PyTorch meta", t_build / build, 10)
        at_least("GPT-2 forward, times PyTorch meta", t_forward / forward, 100)
    if figures:
        at_most("Llama-3.1-405B build and forward, ms", 1e3 * sum(figures["Llama-3.1-405B"]["metatensor"]), 50)
    if "import" in report:
        at_most("import metatensor above bare Python, ms", 1e3 * report["import"]["metatensor"], 25)
    return found


def print_slower(rows: list[dict[str, Any]], title: str) -> None:
    slower = [r["op"] for r in rows if r["seconds"].get(title, math.inf) < r["seconds"].get(OURS, 0)]
    if any(title in r["seconds"] for r in rows):
        print(f"slower than {title}: {', '.join(slower) or 'none'}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", help="comma separated parts of case names")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this part (may be repeated)")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--json", metavar="FILE", help="write every figure to a file, in seconds and bytes")
    parser.add_argument("--check", action="store_true", help="exit 1 if a limit is missed")
    args = parser.parse_args()
    parts = set(args.part or (["ops"] if args.ops else PARTS))
    rounds, budget = (9, 0.0003) if args.quick else (31, 0.0004)

    warnings.simplefilter("ignore")
    found = libraries()
    titles = [library.title for library in found]
    installed = ["metatensor"] + (["torch"] if META in titles else [])
    report: dict[str, Any] = {}
    if "ops" in parts:
        wanted = [c for c in cases() if not args.ops or any(o in c.name for o in args.ops.split(","))]
        report["ops"] = [time_case(case, found, rounds, budget) for case in wanted]
        report["object"] = object_ratio(found, rounds, budget)
        print_ops(report["ops"], titles)
        for title in titles[1:]:
            print_slower(report["ops"], title)
    if "models" in parts:
        report["models"] = models.measure(installed, 2 if args.quick else 5)
        print_models(report["models"])
    if "footprint" in parts:
        report["import"] = footprint.import_seconds(["metatensor", "numpy"], 5 if args.quick else 15)
        report["bytes"] = footprint.tensor_bytes([*installed, "numpy"])
        print("\nimport, above bare Python: " + ", ".join(f"{k} {show_time(v)}" for k, v in report["import"].items()))
        print("bytes per tensor of size (2, 3): " + ", ".join(f"{k} {v:.0f}" for k, v in report["bytes"].items()))

    print()
    missed = 0
    for what, figure, limit, met in limits(report):
        missed += not met
        print(f"{'met   ' if met else 'MISSED'} {what}: {figure:,.3g} ({limit})")
    if args.json:
        with open(args.json, "w") as f:
            json.dump(report, f, indent=1)
    return int(args.check and missed > 0)


if __name__ == "__main__":
    sys.exit(main())
