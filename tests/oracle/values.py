"""Compare values on the cpu device with PyTorch's, for PyTorch's own operator database.

    cd tests
    python -m oracle.values                      # the score; about 20 minutes
    python -m oracle.values --table --samples 4  # by op, worst first; 4 samples of each dtype
    python -m oracle.values --ops add,mul --fail-list 20
    python -m oracle.values --missing            # names that the module lacks
    python -m oracle.values --module torch       # check the program against PyTorch itself
    python -m oracle.values --part 1/4 --save all.jsonl    # a quarter of the ops; appends a line for each op
    python -m oracle.values --from all.jsonl --table       # saved results; the last line of each op counts

This needs PyTorch 2.13 and expecttest. Every operator of the database gets its own samples for several dtypes,
generated with a fixed seed. Some samples are repeated as a method, in place, with ``out=``, and with non-contiguous
tensors. A sample is right if the metadata agree (as in `compare`), the arguments afterwards have the same values as
in PyTorch, and the values of the result are within the tolerance of PyTorch's own tests. Values outside the tolerance
are accepted if their error, compared with a result in double precision, is at most about twice that of PyTorch's.
"""

import argparse
import importlib
import json
import os
import sys
import warnings
from collections import Counter
from dataclasses import dataclass, field

import torch

from . import compare, database, judging
from .decompositions import RULES
from .records import Missing
from .replay import SoftTimeout, limit
from .twins import Twins, Unsupported, apart, as_torch, leaves, tensors, tree_map


@dataclass(slots=True)
class Case:
    """A call to make in both libraries."""

    kind: str
    dtype: torch.dtype
    number: int
    function: object
    args: tuple
    kwargs: dict

    def label(self):
        return f"{self.kind} {compare.dtype_name(self.dtype)} {self.number}"


@dataclass(slots=True)
class Tally:
    """Counts of the samples of one operator. ``missing`` is the name of a function that the module lacks, or ""."""

    n: int = 0
    right: int = 0
    by_reference: int = 0
    skipped: Counter = field(default_factory=Counter)
    why: Counter = field(default_factory=Counter)
    first: str = ""
    missing: str = ""

    def add(self, other):
        """Add the counts of another tally of the same operator."""
        for name in ("n", "right", "by_reference", "skipped", "why"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.first, self.missing = self.first or other.first, self.missing or other.missing


class Runner:
    """Runs operators of the database in PyTorch and in ``module`` and compares the results."""

    def __init__(self, module, dtypes=database.DTYPES, limit=None, reference=False, timeout=5.0, only_calls=False):
        self.module = module
        self.dtypes, self.limit, self.reference, self.timeout = dtypes, limit, reference, timeout
        self.only_calls = only_calls
        self.ours, self.theirs = database.Translator(module), database.Translator(torch)

    def run(self, op, on_failure=None):
        """Return the `Tally` of one operator."""
        tally = Tally()
        for dtype in database.dtypes(op, self.dtypes):
            tolerance = database.tolerance(op, dtype)
            try:
                for case in self.cases(op, dtype):
                    self._count(tally, op, case, tolerance, on_failure)
            except Missing as missing:
                if not tally.n:
                    tally.missing = str(missing)
                    return tally
                raise
        return tally

    def _count(self, tally, op, case, tolerance, on_failure):
        try:
            problem = self.check(op, case, tolerance)
        except Unsupported as reason:
            tally.skipped[str(reason)] += 1
            return
        except Missing as missing:
            if not tally.n:
                raise
            problem = f"missing: {missing}"
        tally.n += 1
        tally.by_reference += problem == BY_REFERENCE
        if not problem or problem == BY_REFERENCE:
            tally.right += 1
            return
        tally.why[f"{case.kind} {problem.partition(':')[0][:40]}"] += 1
        tally.first = tally.first or f"{case.label()}: {problem}"
        if on_failure:
            on_failure(op, case, problem)

    def cases(self, op, dtype):
        """Return the calls to make for one dtype."""
        found = database.samples(op, dtype, self.limit, self.reference)
        few = 3 if self.limit is None else 1
        for number, sample in enumerate(found):
            args, kwargs = (sample.input, *sample.args), sample.kwargs
            yield Case("call", dtype, number, op.op, args, kwargs)
        for number, sample in () if self.only_calls else spread(found, few):
            args, kwargs = (sample.input, *sample.args), sample.kwargs
            if callable(op.method_variant):
                yield Case("method", dtype, number, op.method_variant, args, kwargs)
            if callable(op.inplace_variant) and not sample.broadcasts_input:
                yield Case("inplace", dtype, number, op.inplace_variant, args, kwargs)
            if op.supports_out:
                yield Case("out", dtype, number, op.op, args, kwargs)
            if tensors(args):
                yield Case("noncontiguous", dtype, number, op.op, *tree_map(apart, (args, kwargs)))

    def check(self, op, case, tolerance):
        """Return None if one call is right, `BY_REFERENCE`, or a description of what is wrong.

        Raise `Unsupported` if the call cannot be compared.
        """
        ours, theirs = self.ours(case.function, op.name), self.theirs(case.function, op.name)
        if case.kind == "out":
            case = with_out(case, theirs)
        state = torch.get_rng_state()
        expected, here = self.attempt(theirs, torch, None, case)
        random = not torch.equal(state, torch.get_rng_state())
        if isinstance(expected, Exception) and case.kind != "inplace":
            raise Unsupported(f"PyTorch raises {type(expected).__name__}")
        for t in leaves(expected):
            if isinstance(t, torch.Tensor) and (t.layout is not torch.strided or t.is_quantized or t.is_nested):
                raise Unsupported("a result that is not strided")
        got, there = self.attempt(ours, self.module, self.ours, case)
        if isinstance(expected, Exception):
            return refused(got, expected)
        if isinstance(got, Exception):
            return f"raised {type(got).__name__}: {str(got)[:200]}"
        problem = self.metadata(op, case, theirs, expected, got, here, there)
        if problem or op.name in judging.UNINITIALISED:
            return problem
        try:
            results = [(as_torch(got), expected), (as_torch(there), here)]
        except Exception as error:
            return f"unreadable: {type(error).__name__}: {error}"
        if op.name in RULES:
            return RULES[op.name](case.args, case.kwargs, results[0][0], expected)
        if random:
            return self.distribution(ours, theirs, case)
        return self.values(op, theirs, case, results, tolerance)

    def attempt(self, function, module, translate, case):
        """Return the result of a call or the exception, and the tensors passed to it."""
        twins = Twins(module, translate)
        args, kwargs = twins(tuple(case.args)), twins(dict(case.kwargs))
        try:
            with limit(self.timeout if module is self.module else 0):
                return function(*args, **kwargs), twins.inputs
        except Missing:
            raise
        except SoftTimeout:
            return TimeoutError("took too long"), twins.inputs
        except Exception as error:
            return error, twins.inputs

    def metadata(self, op, case, theirs, expected, got, here, there):
        """Describe differences of metadata. Strides may be those of PyTorch's meta device instead of its cpu."""
        described = [compare.describe(x, i, [compare.storage_key(t) for t in i]) for x, i in ((expected, here), (got, there))]
        issues = set()
        compare.compare(*described, issues)
        if not issues:
            return None
        if issues <= {"stride", "stride-trivial"}:
            other = self.on_meta(theirs, case)
            if other is not None:
                issues = set()
                compare.compare(other, described[1], issues)
        return f"{'+'.join(sorted(issues))}: {described[1]} instead of {described[0]}" if issues else None

    def on_meta(self, function, case):
        """Describe the result of the same call on PyTorch's meta device. Return None if it raises."""
        made = []

        def one(x):
            if not isinstance(x, torch.Tensor):
                return "meta" if isinstance(x, torch.device) or (isinstance(x, str) and x == "cpu") else x
            made.append(torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta"))
            return made[-1]

        try:
            result = function(*tree_map(one, tuple(case.args)), **tree_map(one, dict(case.kwargs)))
            return compare.describe(result, made, [compare.storage_key(t) for t in made])
        except Exception:
            return None

    def values(self, op, theirs, case, results, tolerance):
        result, inputs = [judging.difference(*each, *tolerances(each[1], case.dtype, tolerance)) for each in results]
        if result and judging.selection(op.name, case.args, case.kwargs, *results[0]):
            # The indices in the result may differ, and the tensors of out= hold the same ones: compare the other inputs.
            n = len(results[1][1]) - len(tensors(case.kwargs.get("out")))
            given = [each[:n] for each in results[1]]
            return judging.difference(*given, *tolerances(given[1], case.dtype, tolerance))
        problem = result or inputs
        if problem is None or (result and not inputs and judging.singular(op.name, *results[0])):
            return None
        if result and judging.saturated(op.name, *results[0], case.args, case.kwargs):
            return None
        given = {name: value for name, value in case.kwargs.items() if name != "out"}
        wide = Case(case.kind, case.dtype, case.number, None, *tree_map(judging.widened, (tuple(case.args), given)))
        precise, precise_inputs = self.attempt(theirs, torch, None, wide)
        if isinstance(precise, Exception):
            return problem
        wanted = [(*results[0], precise), (*results[1], precise_inputs)]
        return BY_REFERENCE if all(judging.nearer(*each) for each in wanted) else problem

    def distribution(self, ours, theirs, case):
        drawn = []
        for function, module, translate in ((ours, self.module, self.ours), (theirs, torch, None)):
            module.manual_seed(database.SEED)
            draws = [self.attempt(function, module, translate, case) for _ in range(judging.DRAWS)]
            failed = next((result for result, _ in draws if isinstance(result, Exception)), None)
            if failed is not None:
                return f"raised {type(failed).__name__} in repeated calls: {failed}"
            drawn.append([as_torch([result, inputs]) for result, inputs in draws])
        return judging.same_distribution(*drawn)


BY_REFERENCE = "by reference"


def tolerances(results, dtype, tolerance):
    """Return the largest ``(rtol, atol)`` of the results' dtypes.

    ``tolerance``, which is the operator's own, is that of ``dtype``. Other dtypes have PyTorch's default tolerances.
    """
    found = {t.dtype for t in tensors(results)} - {dtype}
    return tuple(map(max, zip(tolerance, *map(torch.testing._comparison.default_tolerances, found))))


def with_out(case, theirs):
    """Return the case with ``out=`` added: tensors with the metadata of the result and arbitrary values."""
    if "out" in case.kwargs:
        raise Unsupported("out is given")
    result = theirs(*Twins(torch)(tuple(case.args)), **Twins(torch)(dict(case.kwargs)))
    if not tensors(result) or not all(isinstance(t, torch.Tensor) for t in leaves(result)):
        raise Unsupported("no tensors in the result to pass as out=")

    def fresh(t):
        made = torch.empty_strided(t.shape, t.stride(), dtype=t.dtype)
        return made.fill_(True if t.dtype is torch.bool else 77)

    out = fresh(result) if isinstance(result, torch.Tensor) else tuple(fresh(t) for t in leaves(result))
    return Case(case.kind, case.dtype, case.number, case.function, case.args, {**case.kwargs, "out": out})


def refused(got, expected):
    """Return None if ``got`` is an exception of the class of ``expected``, else a description of the difference."""
    if not isinstance(got, Exception):
        return f"no error: PyTorch raises {type(expected).__name__}: {str(expected)[:120]}"
    bases = [c.__name__ for c in type(expected).__mro__ if c.__module__ == "builtins"]
    wanted = [(type(expected).__name__, bases[0])]
    return None if compare.error_matches(got, wanted) else f"wrong error {type(got).__name__}: {got}, not {expected!r}"


def spread(found, n):
    """Return at most ``n`` pairs of (number, sample), evenly spread over the samples."""
    step = max(1, len(found) // n)
    return list(enumerate(found))[::step][:n]


def score(tallies):
    """Return a line with the numbers of operators and samples that are right."""
    present = {name: t for name, t in tallies.items() if t.n}
    full = sum(t.right == t.n for t in present.values())
    n, right = sum(t.n for t in present.values()), sum(t.right for t in present.values())
    return (
        f"ops fully right: {full}/{len(present)} ({full / max(len(present), 1):.1%})"
        f" | samples right: {right}/{n} ({right / max(n, 1):.2%}),"
        f" {sum(t.by_reference for t in present.values())} of them by distance to double precision"
        f" | missing: {sum(bool(t.missing) for t in tallies.values())} ops"
        f" | not comparable: {sum(sum(t.skipped.values()) for t in tallies.values())} samples"
    )


def table(tallies):
    print(f"{'op':48} {'right':>11} {'share':>7}  first failure")
    for name, t in sorted(tallies.items(), key=lambda row: (row[1].right / max(row[1].n, 1), row[0])):
        if t.n and t.right < t.n:
            print(f"{name:48} {t.right:>5}/{t.n:<5} {t.right / t.n:7.1%}  {t.first[:200]}")


def show(op, case, problem):
    def brief(x):
        if isinstance(x, torch.Tensor):
            return f"{compare.dtype_name(x.dtype)}{list(x.shape)}"
        return x

    args = [str(tree_map(brief, a)) for a in case.args] + [f"{k}={tree_map(brief, v)}" for k, v in case.kwargs.items()]
    print(f"FAIL {database.name_of(op)} {case.label()}\n   call   {', '.join(args)[:500]}\n   {problem[:600]}")


def run(runner, ops=None, on_failure=None, part=(1, 1), save=None, dtypes=None):
    """Return ``{name: Tally}`` of the operators, or of every ``part[1]``-th one, starting with number ``part[0]``.

    Each result is appended to the file ``save``. Without ``ops``, operators that are in the file already are skipped.
    ``dtypes(op)``, if given, returns the names of the dtypes to test of an operator.
    """
    tallies = saved(save) if save and ops is None and os.path.exists(save) else {}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        for op in list(database.entries(ops))[part[0] - 1 :: part[1]]:
            name = database.name_of(op)
            if name in tallies:
                continue
            if dtypes:
                runner.dtypes = dtypes(op)
            tallies[name] = runner.run(op, on_failure)
            if save:
                with open(save, "a") as file:
                    file.write(json.dumps({"op": name, **{key: getattr(tallies[name], key) for key in Tally.__slots__}}) + "\n")
    return tallies


def saved(path):
    """Return ``{name: Tally}`` from a file that `run` wrote. If an operator occurs twice, the last result counts."""
    with open(path) as file:
        rows = [json.loads(line) for line in file]
    return {row.pop("op"): Tally(**row) for row in rows}


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--module", default="metatensor", help="import name of the module under test")
    parser.add_argument("--ops", help="comma separated op names, all variants of each")
    parser.add_argument("--dtypes", default=",".join(database.DTYPES))
    parser.add_argument("--samples", type=int, metavar="K", help="maximum number of samples of each op and dtype")
    parser.add_argument("--reference", action="store_true", help="use the database's reference inputs, of which there are more")
    parser.add_argument("--table", action="store_true", help="a line for each op that is not fully right, worst first")
    parser.add_argument("--fail-list", type=int, default=0, metavar="N", help="print the first N failing samples")
    parser.add_argument("--missing", action="store_true", help="list the ops that the module lacks")
    parser.add_argument("--part", default="1/1", metavar="I/N", help="every N-th op, starting with number I")
    parser.add_argument("--save", metavar="FILE", help="append a line of JSON for each op; ops that are in the file are skipped")
    parser.add_argument("--from", dest="file", metavar="FILE", help="run nothing; report the results in this file")
    parser.add_argument("--timeout", type=float, default=5.0, help="limit of a call in seconds, 0 for none")
    args = parser.parse_args(argv)

    torch.set_num_threads(1)
    shown = 0

    def on_failure(*failure):
        nonlocal shown
        shown += 1
        if shown <= args.fail_list:
            show(*failure)

    runner = Runner(
        importlib.import_module(args.module), tuple(args.dtypes.split(",")), args.samples, args.reference, args.timeout
    )
    ops, part = set(args.ops.split(",")) if args.ops else None, tuple(map(int, args.part.split("/")))
    tallies = saved(args.file) if args.file else run(runner, ops, on_failure, part, args.save)
    if args.table:
        table(tallies)
    if args.missing:
        print("missing:", ", ".join(f"{name} ({t.missing})" for name, t in tallies.items() if t.missing))
    print(score(tallies))


def fix_hashing(program):
    """Restart ``program`` with a fixed hash seed, because the order of some samples is the order of a set."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", program, *sys.argv[1:]])


if __name__ == "__main__":
    fix_hashing(__spec__.name)
    main()
