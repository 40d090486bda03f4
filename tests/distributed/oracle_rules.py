"""Check the sharding rules by values on the operators that the recorded calls of PyTorch's operator database run.

    cd tests
    python -m distributed.oracle_rules                  # forward and backward of all records; some minutes
    python -m distributed.oracle_rules scatter tril     # some overloads, by qualified name
    python -m distributed.oracle_rules --make           # make the table anew, from the calls of the records and other samples

Each call of a primitive operator becomes a sample. If a rule of the table cuts an axis of the sample, running the operator on
parts of it, at three sizes and with several kinds of values, must give the whole. So must a rule that passes reductions on.
"""

import argparse
import sys
import time
import warnings
from collections import Counter, defaultdict
from math import prod

import numpy as np

import metatensor as mt
from metatensor._core.dispatch import bound_arguments
from metatensor._core.op import operator_flags
from metatensor.distributed.tensor.sharding import features, rules_of
from metatensor.distributed.tensor.sharding.making import (
    cut_outcome,
    make_rules,
    make_table,
    pass_outcome,
    sharded_overloads,
    with_fine_values,
)
from metatensor.distributed.tensor.sharding.samples import described
from metatensor.distributed.tensor.sharding.table import FILE, HEADER, format_rules
from metatensor.distributed.tensor.sharding.trying import Trial
from oracle import records

SAMPLES = 16  # of each overload, for making the table
MOST_ELEMENTS = 4000  # of the tensors of a sample
ROUNDED = ("complex32", "bfloat16", "float16")
# Kinds of values that have a reduction.
KINDS = {"sum": "fciu", "avg": "fc", "product": "fciu", "max": "fiu", "min": "fiu"}


class Collector(mt.DispatchMode):
    """Collects the calls of overloads as samples, at most ``most`` for each."""

    def __init__(self, wanted, most):
        super().__init__()
        self.wanted, self.most, self.found = wanted, most, defaultdict(dict)

    def dispatch(self, op, args, kwargs):
        bound = bound_arguments(op, tuple(args), dict(kwargs))
        if bound is not None:
            overload, arguments = bound
            calls = self.found[overload.qualname]
            if overload.qualname in self.wanted and len(calls) < self.most:
                sample = described(arguments)
                calls.setdefault(str(sample), sample)
        return op(*args, **kwargs)


def collect(ops=None, most=60, step=1):
    """Return {qualified name: samples} of the primitive operators that the records run on meta, forward and backward."""
    wanted = {overload.qualname: (op, overload) for op, overload in sharded_overloads()}
    collector = Collector(wanted, most)
    resolve = records.Resolver(mt)
    for record in records.read(records.files(), ops, sample=step, kinds=("sample",)):
        if record["dt"] not in ("float32", "int64", "bool", "complex64") or record["cat"] == "error":
            continue
        decode = records.Decoder(mt, "meta")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                args, kwargs = decode(record["args"]), decode({"d": record["kw"]})
                leaves = [one.requires_grad_() for one in decode.inputs if one.is_floating_point() and one.is_leaf]
                with collector:
                    result = records.invoke(resolve, record["call"], args, kwargs)
                    outputs = [one for one in (result if isinstance(result, (list, tuple)) else [result])
                               if isinstance(one, mt.Tensor) and one.requires_grad]  # fmt: skip
                    if outputs and leaves:
                        mt.autograd.grad(outputs, leaves, [mt.ones_like(one) for one in outputs], allow_unused=True)
            except Exception:
                continue
    return wanted, collector.found


def problems(op, overload, sample):
    """Yield (rule, problem) for each rule that applies to a sample; the problem is "" if the values agree."""
    if not suits(sample) or overload.flags & operator_flags.RANDOM:
        return
    trial = Trial(op, overload, sample, features.size_arguments(overload.text))
    shapes = trial.shapes()
    results = trial.result_shapes(shapes)
    found = rules_of(overload.qualname)
    if results is None or not found or trial.whole() is None:
        return
    chosen = dict(features.options(overload.text, sample.arguments))
    for axis in trial.axes() if found.cuts else ():
        names = features.members(overload.text, sample.arguments, axis, shapes)
        properties = features.position(axis, shapes, results) | chosen
        for rule in found.cuts:
            joins = rule.joins * len(results) if trial.returns_list else rule.joins
            if rule.members != names or len(joins) != len(results) or not rule.holds(properties):
                continue
            if any((join == "cat") != (dim >= 0) for join, dim in zip(joins, axis.outputs)):
                continue
            got = cut_outcome(trial, axis, rule.partial)
            if got == ():
                break
            wrong = got is None or not all(join in one for join, one in zip(joins, got))
            yield rule, f"cut of {axis.places}" if wrong else ""
            break
    fine = with_fine_values(trial)
    kinds_of = defaultdict(set)
    for name, spec in sample.specs():
        kinds_of[name].add(spec.array().dtype.kind)
    # Rules hold for finite results, and not for fractional results of integers, which may be indices.
    values = [] if fine is None else [one for one in fine.whole()[1] if one.dtype.kind in "fc"]
    finite = fine is not None and all(np.isfinite(one).all() for one in values)
    for rule in found.passes if finite else ():
        allowed = set(KINDS[rule.reduction]) - set("iu" if values else "")
        if rule.holds(chosen) and all(kinds_of[name] and kinds_of[name] <= allowed for name in rule.members):
            got = pass_outcome(trial, fine, rule.members, rule.reduction)
            if got == []:
                continue
            kinds = rule.results * len(results) if trial.returns_list else rule.results
            if got is None or len(kinds) != len(got) or not all(kind in one or "same" in one for kind, one in zip(kinds, got)):
                yield rule, f"{rule.reduction} of {rule.members}"
            else:
                yield rule, ""


def make(names, wanted, found):
    samples = {name: spread([one for one in calls.values() if suits(one)], SAMPLES) for name, calls in found.items()}
    if names:
        print(format_rules({name: make_rules(*wanted[name], samples.get(name, ())) for name in names}), end="")
    else:
        FILE.write_text(HEADER + format_rules(make_table(samples)), encoding="utf-8")


def spread(values, count):
    """Return at most ``count`` values, evenly spread."""
    return [values[number * len(values) // count] for number in range(count)] if len(values) > count else values


def suits(sample):
    """Return True if values tell something about a call: it has elements, but not too many, and no rounded dtype."""
    sizes = [prod(spec.shape) for _, spec in sample.specs()]
    return getattr(sample.arguments.get("dtype"), "name", "") not in ROUNDED and 0 not in sizes and sum(sizes) < MOST_ELEMENTS \
        and all(spec.dtype not in ROUNDED for _, spec in sample.specs())  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--ops", help="operators of the database, separated by commas")
    parser.add_argument("--most", type=int, default=40, help="samples of each overload")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--make", action="store_true", help="write the table, or print the rules of the overloads that are named")
    options = parser.parse_args()
    start = time.time()
    wanted, found = collect(set(options.ops.split(",")) if options.ops else None, options.most)
    if options.make:
        make(options.names, wanted, found)
        return 0
    count, wrong = Counter(), defaultdict(list)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, samples in sorted(found.items()):
            if name not in wanted or (options.names and name not in options.names):
                continue
            for sample in samples.values():
                for rule, problem in problems(*wanted[name], sample):
                    count["wrong" if problem else "right"] += 1
                    if problem:
                        wrong[name, rule].append(f"{problem} in {sample}")
    for (name, rule), cases in wrong.items():
        for case in cases if options.show else cases[:1]:
            print(f"{name}: {rule} ({len(cases)}): {case}")
    print(f"{len(found)} overloads: {dict(count)}, {len(wrong)} rules of {len({name for name, _ in wrong})} overloads are wrong, "
          f"in {time.time() - start:.0f} s")  # fmt: skip
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
