"""Replay recorded PyTorch calls on a module, and compare the metadata of the results.

    python -m oracle.replay                       # the score; about 10 s
    python -m oracle.replay --table               # by op, worst first
    python -m oracle.replay --ops add,mul --fail-list 20
    python -m oracle.replay --missing             # names that the module lacks
    python -m oracle.replay --module torch        # check the replayer against PyTorch itself

Run this in ``tests/``. It needs only the standard library and the module under test.
"""

import argparse
import importlib
import json
import signal
import warnings
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field

from . import compare, records

SCORED = ("value", "error", "silent", "data")  # "beyond" is not scored, because PyTorch itself cannot do it on meta


class SoftTimeout(BaseException):
    """Raised by the alarm. It is not an Exception, so that the module cannot catch it."""


def _alarm(signum, frame):
    raise SoftTimeout


@contextmanager
def limit(seconds):
    """Stop a call after some seconds, if the platform supports timers."""
    if not seconds:
        yield
        return
    before = signal.signal(signal.SIGALRM, _alarm)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@dataclass(slots=True)
class Outcome:
    """The outcome of one record. ``why`` is None if it passed strictly."""

    category: str
    strict: bool
    loose: bool
    why: str | None
    got: object


class Replayer:
    """Makes recorded calls on a module and a device."""

    def __init__(self, module, device="meta", timeout=2.0):
        self.decode = records.Decoder(module, device)
        self.resolve = records.Resolver(module)
        self.timeout = timeout

    def run(self, record) -> Outcome:
        category = record["cat"]
        try:
            with limit(self.timeout):
                got, error = self._call(record)
        except records.Missing as e:
            return Outcome(category, False, False, "missing", str(e))
        except SoftTimeout:
            return Outcome(category, False, False, "timeout", "timeout")
        if error is not None:
            return judge_error(record, error)
        return judge_result(record, got)

    def _call(self, record):
        """Return the description of the result and None, or None and the exception."""
        self.decode.inputs = []
        try:
            args = [self.decode(a) for a in record["args"]]
            kwargs = {k: self.decode(v) for k, v in record["kw"].items()}
            inputs = self.decode.inputs
            keys = [compare.storage_key(t) for t in inputs]
            out = records.invoke(self.resolve, record["call"], args, kwargs)
            return compare.describe(out, inputs, keys), None
        except records.Missing:
            raise
        except Exception as e:
            return None, e


def judge_error(record, error):
    category = record["cat"]
    name = type(error).__name__
    if category == "data":
        ok = isinstance(error, RuntimeError) and not isinstance(error, RecursionError)
        why = f"raised:{name}"
    elif category in ("error", "silent"):
        ok = compare.error_matches(error, compare.wanted_errors(record))
        why = f"wrong-error:{name}"
    else:
        ok, why = False, f"raised:{name}"
    return Outcome(category, ok, ok, None if ok else why, f"{name}: {str(error)[:300]}")


def judge_result(record, got):
    category = record["cat"]
    if category in ("data", "error"):
        return Outcome(category, False, False, "no-error", got)
    best, loose = None, False
    for expected in compare.expectations(record):
        issues = set()
        compare.compare(expected, got, issues)
        if not issues:
            return Outcome(category, True, True, None, got)
        loose = loose or issues <= compare.LOOSE_OK
        if best is None or len(issues) < len(best):
            best = issues
    return Outcome(category, False, loose, "+".join(sorted(best or {"no-expectation"})), got)


@dataclass
class Tally:
    """Counts of one op or of all ops."""

    n: Counter = field(default_factory=Counter)
    strict: Counter = field(default_factory=Counter)
    loose: Counter = field(default_factory=Counter)
    why: Counter = field(default_factory=Counter)

    def add(self, outcome):
        self.n[outcome.category] += 1
        self.strict[outcome.category] += outcome.strict
        self.loose[outcome.category] += outcome.loose
        if outcome.why:
            self.why[outcome.why] += 1

    def total(self):
        return sum(self.n[c] for c in SCORED)

    def passed(self):
        return sum(self.strict[c] for c in SCORED)

    def share(self):
        return self.passed() / self.total() if self.total() else 1.0

    def cell(self, *categories):
        n = sum(self.n[c] for c in categories)
        return f"{sum(self.strict[c] for c in categories)}/{n}" if n else "-"


def replay(replayer, found, on_failure=None, on_missing=None):
    """Replay records. Return a Tally for each op and variant, named ``op|variant``."""
    by_op = {}
    for record in found:
        outcome = replayer.run(record)
        key = record["op"] + ("|" + record["var"] if record["var"] else "")
        by_op.setdefault(key, Tally()).add(outcome)
        if outcome.why == "missing" and on_missing:
            on_missing(outcome.got)
        elif outcome.why and on_failure:
            on_failure(record, outcome)
    return by_op


def brief(x, width=400):
    text = x if isinstance(x, str) else json.dumps(x, separators=(",", ":"))
    return text if len(text) <= width else text[:width] + "..."


def show(record, outcome):
    how, path = record["call"]
    args = [brief(a, 160) for a in record["args"]] + [f"{k}={brief(v, 160)}" for k, v in record["kw"].items()]
    print(f"FAIL [{outcome.category}] {record['id']} {outcome.why}")
    print(f"   call     {'' if how == 'function' else 'Tensor.'}{path}({brief(', '.join(args), 700)})")
    for key in ("meta", "cpu"):
        if key in record:
            print(f"   {key:8} {brief(record[key])}")
    print(f"   got      {brief(outcome.got)}")


def table(by_op):
    head = ("op", "pass", "strict", "loose", "errors", "data", "beyond", "most common failure")
    print("{:44} {:>6} {:>9} {:>9} {:>9} {:>9} {:>9}  {}".format(*head))
    for name, t in sorted(by_op.items(), key=lambda row: (row[1].share(), row[0])):
        loose = f"{t.loose['value']}/{t.n['value']}" if t.n["value"] else "-"
        cells = (t.cell("value"), loose, t.cell("error", "silent"), t.cell("data"), t.cell("beyond"))
        why = t.why.most_common(1)[0][0] if t.why else ""
        print("{:44} {:6.1%} {:>9} {:>9} {:>9} {:>9} {:>9}  {}".format(name[:44], t.share(), *cells, why))


def score(by_op):
    """Return a line with the shares of operators and records that pass."""
    all_ops = Tally()
    for t in by_op.values():
        for name in ("n", "strict", "loose", "why"):
            getattr(all_ops, name).update(getattr(t, name))
    scored = [t for t in by_op.values() if t.total()]
    full = sum(t.passed() == t.total() for t in scored)
    loose = f"{all_ops.loose['value']}/{all_ops.n['value']}"
    return (
        f"ops fully passing: {full}/{len(scored)} | calls strict: {all_ops.cell('value')} | loose: {loose}"
        f" | errors: {all_ops.cell('error', 'silent')} | data-dependent: {all_ops.cell('data')}"
        f" | beyond torch: {all_ops.cell('beyond')}"
    )


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--module", default="metatensor", help="import name of the module under test")
    parser.add_argument("--device", default="meta")
    parser.add_argument("--ops", help="comma separated op names, all variants of each")
    parser.add_argument("--kinds", help="comma separated: sample, inplace, out, error")
    parser.add_argument("--sample", type=int, default=1, metavar="K", help="every K-th record only")
    parser.add_argument("--no-internal", action="store_true", help="omit ops that are not public API")
    parser.add_argument("--table", action="store_true", help="a line for each op, worst first")
    parser.add_argument("--fail-list", type=int, default=0, metavar="N", help="print the first N failing records")
    parser.add_argument("--missing", action="store_true", help="list the names that the module lacks")
    parser.add_argument("--timeout", type=float, default=2.0, help="limit of a call in seconds, 0 for none")
    args = parser.parse_args(argv)

    module = importlib.import_module(args.module)
    warnings.simplefilter("ignore")
    found = records.read(
        records.files(),
        ops=set(args.ops.split(",")) if args.ops else None,
        sample=args.sample,
        kinds=set(args.kinds.split(",")) if args.kinds else None,
        internal=not args.no_internal,
    )
    shown = 0

    def on_failure(record, outcome):
        nonlocal shown
        shown += 1
        if shown <= args.fail_list:
            show(record, outcome)

    missing = Counter()
    by_op = replay(
        Replayer(module, args.device, args.timeout), found, on_failure, lambda name: missing.update([name])
    )
    if args.table:
        table(by_op)
    if args.missing:
        for name, count in missing.most_common():
            print(f"{count:6}  {name}")
    print(f"missing: {sum(missing.values())} calls, {len(missing)} names")
    print(score(by_op))


if __name__ == "__main__":
    main()
