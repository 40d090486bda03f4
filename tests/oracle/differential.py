"""Compare variants of calls with PyTorch: metadata and values on cpu, metadata on meta.

    cd tests
    python -m oracle.differential                             # every operator; only lowers `differences.json`
    python -m oracle.differential --check                     # the same, but only print what differs from the file
    python -m oracle.differential --ops add,max --show 20     # a few operators, with the calls that differ
    python -m oracle.differential --samples 3 --dtypes float32,int64,complex64 --share 1 --show 1000 --part 1/4

This needs what `values` needs. For each operator of PyTorch's test database, and each further operator of the registry,
a few samples are changed in every way of `variants`. Calls that PyTorch rejects on cpu are skipped here and
compared by `refusals`.
"""

import argparse
import importlib
import json
import sys
import warnings
import zlib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import torch

from metatensor import DataDependentError

from . import compare, database, judging, values
from .further import further_entries
from .records import Missing
from .twins import Twins, Unsupported, as_torch, leaves, tensors, tree_map
from .variants import FAMILIES, variants

FILE = Path(__file__).resolve().parent / "differences.json"
DTYPES = ("float32", "int64")
SHARE = 8
"""One in this many variants is tried. The choice is fixed for each operator, and differs between operators."""
CRASHING = {
    **dict.fromkeys(("gcd", "lcm", "linalg.eig", "linalg.eigvals", "lu_unpack"), {"values"}),
    **dict.fromkeys(("gru", "lstm"), {"sizes", "scalars"}),
}
"""Families of variants that crash PyTorch, by operator."""


class MetaTwins(Twins):
    """Copies arguments to the meta device of ``module``."""

    def one(self, x):
        if isinstance(x, torch.device) or (isinstance(x, str) and x == "cpu"):
            return "meta"
        return super().one(x)

    def _storage(self, t):
        n = t.untyped_storage().nbytes() // t.element_size()
        return self.module.empty((n,), dtype=self.attribute(compare.dtype_name(t.dtype)), device="meta")


@dataclass(slots=True)
class Tally:
    """Counts for one operator: calls compared, differing calls by family, and descriptions of the differences."""

    compared: int = 0
    different: Counter = field(default_factory=Counter)
    shown: list = field(default_factory=list)
    missing: str = ""


class Differ(values.Runner):
    """Compares variants of calls of ``module`` with PyTorch."""

    def tally(self, op, share=1, families=tuple(FAMILIES)):
        """Return the `Tally` of one operator."""
        found, name = Tally(), database.name_of(op)
        number = zlib.crc32(name.encode())
        for dtype in database.dtypes(op, self.dtypes):
            tolerance = database.tolerance(op, dtype)
            for k, sample in enumerate(database.samples(op, dtype, self.limit)):
                call = (sample.input, *sample.args), sample.kwargs
                for family, label, (args, kwargs) in variants(call, op.name, families):
                    number += 1
                    if number % share or family in CRASHING.get(op.name, ()):
                        continue
                    case = values.Case(f"{family}: {label}", dtype, k, op.op, args, kwargs)
                    try:
                        problems = self.differences(op, case, tolerance, family)
                    except Unsupported:
                        continue
                    except Missing as missing:
                        found.missing = str(missing)
                        return found
                    found.compared += 1
                    if problems:
                        found.different[family] += 1
                        found.shown.append(f"{case.label()}: {describe(case)}\n" + "\n".join(f"      {p[:400]}" for p in problems))
        return found

    def differences(self, op, case, tolerance, family):
        """Describe the differences on cpu and on meta. Raise `Unsupported` if PyTorch rejects the call."""
        ours, theirs = self.ours(case.function, op.name), self.theirs(case.function, op.name)
        if family == "gradients":
            return self.gradients(ours, theirs, case)
        state = torch.get_rng_state()
        expected, here = self.attempt(theirs, torch, None, case)
        random = not torch.equal(state, torch.get_rng_state())
        if isinstance(expected, Exception):
            raise Unsupported("PyTorch raises")
        if any(t.layout is not torch.strided or t.is_quantized or t.is_nested for t in tensors(expected)):
            raise Unsupported("a result that is not strided")
        problems = [
            self.on_cpu(op, case, tolerance, ours, theirs, expected, here, random),
            self.on_meta_too(case, ours, theirs, expected, here),
        ]
        return [problem for problem in problems if problem]

    def on_cpu(self, op, case, tolerance, ours, theirs, expected, here, random):
        got, there = self.attempt(ours, self.module, self.ours, case)
        if isinstance(got, Exception):
            right = judging.rightly_refused(op.name, case.args, case.kwargs, got)
            return None if right else f"raised {type(got).__name__}: {got}"
        problem = self.metadata(op, case, theirs, expected, got, here, there)
        if problem or random or op.name in judging.UNINITIALISED or op.name in values.RULES:
            return problem
        problem = self.values(op, theirs, case, [(as_torch(got), expected), (as_torch(there), here)], tolerance)
        return None if problem == values.BY_REFERENCE else problem

    def on_meta_too(self, case, ours, theirs, expected, here):
        """Describe how a call on meta differs from PyTorch's, or return None if it agrees with PyTorch on cpu or on meta."""
        twins = MetaTwins(self.module, self.ours)
        args, kwargs = twins(tuple(case.args)), twins(dict(case.kwargs))
        keys = [compare.storage_key(t) for t in twins.inputs]
        problem = ""
        try:
            with values.limit(self.timeout):
                got = compare.describe(ours(*args, **kwargs), twins.inputs, keys)
        except Missing:
            raise
        except Exception as error:
            problem = f"meta raised {type(error).__name__}: {error}"
            data = isinstance(error, DataDependentError) or "no data" in str(error)
        else:
            wanted = compare.describe(expected, here, [compare.storage_key(t) for t in here])
            if not _issues(wanted, got):
                return None
        other = self.on_meta(theirs, case)
        if problem:
            # A call whose result depends on data may raise on meta if PyTorch's does too.
            return None if other is None and data else problem
        if other is not None and not _issues(other, got):
            return None
        return f"meta {'+'.join(sorted(_issues(wanted, got)))}: {got} instead of {wanted}" + (f" or {other}" if other else "")

    def gradients(self, ours, theirs, case):
        found = []
        wants = [t.requires_grad for t in tensors((case.args, case.kwargs))]
        for function, module, translate in ((theirs, torch, None), (ours, self.module, self.ours)):
            twins = Twins(module, translate)
            args, kwargs = twins(tuple(case.args)), twins(dict(case.kwargs))
            for t, wanted in zip(twins.inputs, wants):
                if wanted:
                    t.requires_grad_()
            with module.enable_grad():
                try:
                    result = function(*args, **kwargs)
                except Exception as error:
                    if module is torch:
                        raise Unsupported("PyTorch raises") from None
                    return [f"raised {type(error).__name__}: {error}"]
            found.append([(t.requires_grad, t.is_leaf) for t in leaves(result) if hasattr(t, "requires_grad")])
        return [] if found[0] == found[1] else [f"requires_grad, is_leaf: {found[1]} instead of {found[0]}"]


def _issues(wanted, got):
    issues = set()
    compare.compare(wanted, got, issues)
    return issues - {"stride-trivial"}


def describe(case):
    """Describe the arguments, with the values of small tensors."""

    def brief(x):
        if not isinstance(x, torch.Tensor):
            return x
        text = f"{compare.dtype_name(x.dtype)}{list(x.shape)}"
        text += "" if x.is_contiguous() else f" by {list(x.stride())}"
        return text + (f" = {x.tolist()}" if x.numel() <= 8 else "")

    return ", ".join([str(tree_map(brief, a)) for a in case.args] + [f"{k}={tree_map(brief, v)}" for k, v in case.kwargs.items()])[:500]


def tallies(part=(1, 1), share=SHARE, module="metatensor", dtypes=DTYPES, samples=2, ops=None, families=tuple(FAMILIES), progress=None):
    """Return ``{name: Tally}`` of every ``part[1]``-th operator, starting with number ``part[0]``."""
    torch.set_num_threads(1)
    differ, found = Differ(importlib.import_module(module), dtypes, samples, timeout=5.0), {}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        chosen = [*database.entries(ops), *further_entries(ops)][part[0] - 1 :: part[1]]
        for op in chosen:
            name = database.name_of(op)
            if progress:
                progress(name, None)
            found[name] = differ.tally(op, share, families)
            if progress:
                progress(name, found[name])
    return found


def load():
    """Return ``{operator: {family: number of calls that may differ}}``."""
    return json.loads(FILE.read_text()) if FILE.exists() else {}


def more(found, allowed):
    """Return the differences by operator and family, where more calls differ than allowed."""
    return {
        f"{name} {family}": f"{n} differ, {allowed.get(name, {}).get(family, 0)} may:\n" + "\n".join(
            text for text in tally.shown if text.startswith(family)
        )
        for name, tally in found.items()
        for family, n in tally.different.items()
        if n > allowed.get(name, {}).get(family, 0)
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing")
    parser.add_argument("--ops", help="only these operators")
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--samples", type=int, default=2, metavar="K", help="number of samples of each operator and dtype")
    parser.add_argument("--share", type=int, default=SHARE, metavar="N", help="one variant in N")
    parser.add_argument("--part", default="1/1", metavar="I/N", help="every N-th operator, starting with number I")
    parser.add_argument("--show", type=int, default=0, metavar="N", help="print up to N differences of each operator")
    args = parser.parse_args()

    def progress(name, tally):
        if tally is None:
            print(f"\r{name[:60]:60}", end="", file=sys.stderr, flush=True)
        elif tally.different and args.show:
            print(f"{name}: {dict(tally.different)} of {tally.compared}")
            print(*(f"   {text}" for text in tally.shown[: args.show]), sep="\n", flush=True)

    ops = set(args.ops.split(",")) if args.ops else None
    found = tallies(tuple(map(int, args.part.split("/"))), args.share, dtypes=tuple(args.dtypes.split(",")), samples=args.samples,
                    ops=ops, families=args.families.split(","), progress=progress)  # fmt: skip
    now = {name: dict(sorted(tally.different.items())) for name, tally in found.items() if tally.different}
    print(f"\n{sum(t.compared for t in found.values())} calls of {len(found)} operators compared,"
          f" {sum(sum(t.different.values()) for t in found.values())} differ, of {len(now)} operators")  # fmt: skip
    if args.check or ops or args.part != "1/1" or args.share != SHARE:
        return 0
    worse = more(found, load()) if FILE.exists() else {}
    print(*(f"worse: {name}: {text}" for name, text in worse.items()), sep="\n")
    if not worse:
        FILE.write_text(json.dumps(dict(sorted(now.items())), indent=0) + "\n")
    return int(bool(worse))


if __name__ == "__main__":
    values.fix_hashing(__spec__.name)
    sys.exit(main())
