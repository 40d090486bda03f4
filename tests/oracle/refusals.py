"""Compare with PyTorch which invalid calls are rejected, for every operator.

    cd tests
    python -m oracle.refusals                      # every call; the score
    python -m oracle.refusals --table              # by operator and kind of change
    python -m oracle.refusals --ops add,mul --fail-list 20
    python -m oracle.refusals --share 10           # every tenth call
    python -m oracle.refusals --lower              # lower the limits to the numbers of differences found

This needs PyTorch 2.13. The calls are the recorded ones, and for operators without records those of
`metatensor.testing.samples`, changed by `mutations`. On cpu, a call is right if it raises the class that PyTorch
raises, or returns what PyTorch returns: metadata, which argument is returned, values, and the memory around an
``out=``. On meta, it is right if it does what PyTorch does on cpu or on meta.
"""

import argparse
import gc
import importlib
import itertools
import json
import os
import pickle
import warnings
import zlib
from collections import Counter
from math import prod
from pathlib import Path

import numpy as np
import torch

from . import compare, mutations, records
from .replay import SoftTimeout, brief, limit

VERSION = "2.13"
CEILING = Path(__file__).resolve().parent / "ceiling.json"
SHARE = 23  # the test tries one in this many calls
SMALL = 400  # maximum number of elements of a tensor
OF_EACH = 3  # recorded calls of each operator
# Parts of names of operators whose values are not compared. Their results are uninitialized, random or not unique, or
# the changed arguments have no meaning for them.
WITHOUT_VALUES = ("empty", "resize", "set_", "rand", "bernoulli", "normal", "multinomial", "dropout", "uniform",
"exponential", "cauchy",
                  "geometric", "poisson", "binomial", "gumbel", "fractional", "eig", "svd", "qr", "lstsq", "sorted", "bucketize")
# Deliberate differences by operator. Each is described in docs/differences.md.
ON_PURPOSE = {"fft.ihfft2": "out", "fft.ihfftn": "out"}
LEFT_OUT = {"tolist", "pin_memory", "share_memory_", "is_pinned", "cuda"}
# Kinds of change that make PyTorch write outside of memory, by operator.
CRASHES = {"narrow_copy": "out: ", "nn.functional.avg_pool3d": "out: ", "tril": "out: ", "triu": "out: "}
RESIZED = ("was resized", "The number of elements in the out tensor", "is resized")  # texts of the warnings about a resized `out=`
_PLAIN = {"bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64", "complex64", "complex128"}


class Maker(records.Decoder):
    """Builds the tensors of encoded arguments, with the same values in every library."""

    largest = 2  # exclusive upper bound of integers

    def __call__(self, x):
        if isinstance(x, dict) and "in" in x:
            return self.inputs[x["in"]]
        return super().__call__(x)

    def tensor(self, spec):
        shape, strides, dtype, offset, *length = spec["T"]
        if self.device == "meta" or "a" in spec or dtype not in _FILLED:
            return super().tensor(spec)
        size = max(length[0] if length else 0, records.min_storage(shape, strides, offset), 1)
        t = self._flat(_values(size, shape, dtype, len(self.inputs), self.largest), dtype)
        if (tuple(shape), tuple(strides), offset) != ((size,), (1,), 0):
            t = t.as_strided(tuple(shape), tuple(strides), offset)
        if spec.get("c"):
            t = t.conj()
        if spec.get("n"):
            t = t._neg_view()
        self.inputs.append(t)
        return t

    def _flat(self, array, dtype):
        made = self.module.empty(len(array), dtype=self.attribute(dtype))     # a tensor whose storage can be resized
        return made.copy_(self.module.from_numpy(array))


_FILLED = _PLAIN | {"float16", "bfloat16", "complex32"}


def _values(size, shape, dtype, number, largest):
    """Return distinct floats below 1. Square matrices are symmetric and can be factored."""
    rng = np.random.default_rng([size, number])
    if dtype == "bool":
        return rng.integers(0, 2, size).astype(bool)
    if "int" in dtype:
        return rng.integers(0, largest, size).astype(dtype)
    made = (rng.permutation(size) + 1) / 2 ** (size + 1).bit_length()
    if len(shape) > 1 and shape[-1] == shape[-2] and size == prod(shape):
        square = made.reshape(shape)
        made = (square + np.swapaxes(square, -1, -2) + shape[-1] * np.eye(shape[-1])).reshape(-1)
    if dtype.startswith("complex"):
        return made.astype("complex128" if dtype == "complex128" else "complex64")
    return made.astype("float64" if dtype == "float64" else "float32")


class Place:
    """Makes calls with one library on one device."""

    def __init__(self, module, device):
        self.module, self.device = module, device
        self.resolve = records.Resolver(module)
        self.make = Maker(module, device)

    def run(self, call, args, kwargs, largest=2):
        """Return ``(result or exception, inputs, warnings)`` of one call."""
        make = self.make
        make.inputs, make.largest = [], largest
        args = [make(a) for a in args]
        kwargs = {k: make(v) for k, v in kwargs.items()}
        inputs = make.inputs
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                with limit(5):
                    result = records.invoke(self.resolve, call, args, kwargs)
            except records.Missing:
                raise
            except SoftTimeout:
                result = TimeoutError("took too long")
            except Exception as error:
                result = error
        return result, inputs, [w for w in caught if any(text in str(w.message) for text in RESIZED)]


def described(outcome):
    result, inputs, _ = outcome
    return compare.describe(result, inputs, [compare.storage_key(t) for t in inputs])


def raised(error):
    """Return ``(class, built-in base)`` of an exception."""
    base = next(c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins")
    return [(type(error).__name__, base)]


def array(t):
    """Return the contents of the storage of a tensor, as numbers to compare."""
    if t.is_conj() or t.is_neg():
        t = t.resolve_conj().resolve_neg()
    t = t.detach()
    n = t.untyped_storage().nbytes() // t.element_size()
    flat = t.as_strided((n,), (1,), 0)
    if compare.dtype_name(t.dtype) not in _PLAIN:
        flat = flat.to(_module(t).complex64 if "complex" in str(t.dtype) else _module(t).float32)
    return flat.numpy()


def _module(t):
    return importlib.import_module(type(t).__module__.partition(".")[0])


def _same_values(ours, theirs):
    if ours.shape != theirs.shape:
        return False
    kind = theirs.dtype.kind
    with np.errstate(all="ignore"):
        return bool(np.allclose(ours, theirs, rtol=1e-2 if kind in "fc" else 0, atol=1e-2 if kind in "fc" else 0, equal_nan=True))


class Calls:
    """The calls that are changed: some recorded ones of each operator, and generated ones for operators without records."""

    def __init__(self, ops=None, first=""):
        self.ops, self.first = ops, first
        self.theirs = Place(torch, "cpu")

    def bases(self):
        """Yield ``(name, call, args, kwargs, largest integer, encoded results)`` of calls that PyTorch accepts."""
        from metatensor._core.op import registry

        seen = set()
        chosen = {}
        for record in records.read(records.files(), self.ops, kinds={"sample", "inplace"}):
            if record["cat"] != "error" and not record.get("internal") and self._small(record):
                chosen.setdefault((record["op"], record["k"], record["dt"], record["call"][1]), []).append(record)
        by_name = {}
        for (_, kind, dtype, path), found in chosen.items():
            by_name.setdefault((path, kind), []).append((dtype, found))
        for (path, kind), groups in sorted(by_name.items()):
            if path.rpartition(".")[2] in LEFT_OUT or path < self.first:
                continue
            groups.sort(key=lambda g: g[0] != "float32")
            first = groups[0][1]
            picked = [first[i * (len(first) - 1) // (OF_EACH - 1)] for i in range(min(OF_EACH, len(first)))]
            picked += [found[len(found) // 2] for _, found in groups[1:3]]
            for record in picked:
                seen.add(path.rpartition(".")[2])
                yield from self._base(record["op"], record["call"], record["args"], record["kw"])
                inplace = path.rpartition(".")[2] + "_"
                if kind == "sample" and inplace in registry and hasattr(torch.Tensor, inplace) and record["args"]:
                    seen.add(inplace)
                    yield from self._base(inplace, ["method", inplace], record["args"], record["kw"])
        for name in sorted(registry):
            if name.rpartition(".")[2] not in seen | LEFT_OUT and not name.startswith("_") and (self.ops is None or name in self.ops):
                yield from self._sampled(name, registry[name])

    @staticmethod
    def _small(record):
        return all(prod(item["T"][0]) <= SMALL for _, item in mutations.tensor_places([record["args"], record["kw"]]))

    def _sampled(self, name, op):
        from metatensor.testing.samples import Spec
        from metatensor.testing.search import find_samples

        for overload in list(op.functional.overloads)[:2]:
            for sample in find_samples(op.functional, overload, ("int64",), "cpu", limit=2)[:4]:
                arguments, plain = {}, True
                for key, value in sample.arguments.items():
                    if isinstance(value, Spec):
                        value = mutations.spec(value.shape, value.dtype)
                    elif isinstance(value, list):
                        value = [mutations.spec(v.shape, v.dtype) for v in value]
                    elif isinstance(value, tuple):
                        value = list(value)
                    elif value is not None and not isinstance(value, (int, float, str)):
                        plain = False
                    arguments[key] = value
                if not plain:
                    continue
                method = name.endswith("_") or name not in dir(torch)
                call = ["method" if method and "." not in name else "function", name]
                first = [arguments.pop(next(iter(arguments)))] if arguments else []
                yield from self._base(name, call, first, arguments)

    def _base(self, name, call, args, kwargs):
        kwargs = {k: v for k, v in kwargs.items() if k != "out"}
        for largest in (2, 1):
            try:
                outcome = self.theirs.run(call, args, kwargs, largest)
            except records.Missing:
                return
            if not isinstance(outcome[0], Exception):
                yield name, call, args, kwargs, largest, described(outcome)
                return

    def __iter__(self):
        """Yield every changed call as ``(name, kind, call, args, kwargs, largest)``."""
        for name, call, args, kwargs, largest, results in self.bases():
            made = [args, kwargs]
            inplace = call[1].endswith("_") and not call[1].endswith("__")
            many = [mutations.other_tensors(made), mutations.other_numbers(made)]
            if inplace:
                many.append(mutations.targets(made))
            encoded = results if isinstance(results, list) else [results]
            if encoded and all(mutations.is_spec(r) for r in encoded) and call[0] == "function" and not inplace:
                many.append(mutations.outs(made, results))
            for kind, new_args, new_kwargs in itertools.chain(*many):
                if not kind.startswith(CRASHES.get(name, "-")):
                    yield name, kind, call, new_args, new_kwargs, largest


def deliberate(name, kind, theirs, ours):
    """Return True if a difference is deliberate, with a reason in docs/differences.md."""
    if kind.startswith(ON_PURPOSE.get(name, "-")):
        return True
    if isinstance(ours, RuntimeError) and "cannot write to a tensor" in str(ours) and not isinstance(theirs, Exception):
        return True     # metatensor rejects targets whose elements, or arguments, share memory
    if isinstance(theirs, NotImplementedError) and not isinstance(ours, Exception):
        return any(f"'{half}'" in str(theirs) for half in ("Half", "BFloat16", "ComplexHalf"))
    return kind.startswith("out") and isinstance(theirs, TypeError) and any(text in str(theirs) for text in _WITHOUT_OUT)


_WITHOUT_OUT = ("unexpected keyword argument 'out'", "received an invalid combination of arguments", "positional arguments but")


class Judge:
    """Makes a call in both libraries, on cpu and on meta, and reports the differences."""

    def __init__(self, module):
        self.here, self.meta = Place(module, "cpu"), Place(module, "meta")
        self.there, self.there_meta = Place(torch, "cpu"), Place(torch, "meta")
        from metatensor import DataDependentError

        self.unknown = DataDependentError

    def __call__(self, name, kind, call, args, kwargs, largest):
        """Return ``(difference on cpu, difference on meta, and the results of PyTorch, of the cpu and of meta)``.

        A difference is None if there is none. Return None if the arguments cannot be built.
        """
        try:
            there = self.there.run(call, args, kwargs, largest)
        except (records.Missing, RuntimeError, TypeError):     # these arguments cannot be built
            return None
        try:
            here, meta = self.here.run(call, args, kwargs, largest), self.meta.run(call, args, kwargs)
        except records.Missing:
            return None
        on_cpu = self.differs(name, there, here, kind)
        if on_cpu is None and not deliberate(name, kind, there[0], here[0]) and self.valued(call[1], kind, there[0], here[0]):
            on_cpu = self.values(there, here)
        on_meta = None
        if not isinstance(meta[0], self.unknown):
            on_meta = self.differs(name, there, meta, kind)
            if on_meta is not None:
                on_meta = self.differs(name, self.there_meta.run(call, args, kwargs), meta, kind) and on_meta
        return on_cpu, on_meta, there[0], here[0], meta[0]

    def differs(self, name, there, here, kind):
        theirs, ours = there[0], here[0]
        if deliberate(name, kind, theirs, ours):
            return None
        if isinstance(ours, TimeoutError):
            return "slow"
        if isinstance(theirs, Exception):
            if not isinstance(ours, Exception):
                return "accepts"
            return None if compare.error_matches(ours, raised(theirs)) else "class"
        if isinstance(ours, Exception):
            return "refuses"
        issues = set()
        compare.compare(described(there), described(here), issues)
        issues.discard("stride-trivial")
        issues.discard("value")
        if kind.startswith(("out", "in place")):
            if bool(there[2]) != bool(here[2]) and kind.startswith("out"):
                issues.add("warning")
        elif issues <= {"stride", "alias"}:
            issues = set()      # strides are compared by `oracle.values`
        return "+".join(sorted(issues)) or None

    @staticmethod
    def valued(name, kind, *results):
        """Return True if the values of a call are compared.

        They are compared for in-place calls and calls with ``out=``, except if the call reads memory that it writes.
        """
        return kind.startswith(("out", "in place")) and "argument" not in kind and "16" not in kind \
            and not any(isinstance(r, Exception) for r in results) and not any(word in name for word in WITHOUT_VALUES)

    @staticmethod
    def values(there, here):
        for theirs, ours in zip(there[1], here[1]):
            try:
                if not _same_values(array(ours), array(theirs)):
                    return "values"
            except (TypeError, RuntimeError, ValueError, NotImplementedError):
                continue
        return None


def show(found):
    name, kind, call, args, kwargs, where, what, theirs, ours = found
    text = ", ".join([brief(a, 120) for a in args] + [f"{k}={brief(v, 150)}" for k, v in kwargs.items()])
    print(f"{what.upper()} on {where} [{kind}] {call[1]}({brief(text, 500)})\n   PyTorch  {theirs}\n   here     {ours}")


def judged(judge, calls):
    """Return ``(number of calls, differences)``. A difference has the form that `show` expects."""
    n, differences = 0, []
    for name, kind, call, args, kwargs, largest in calls:
        found = judge(name, kind, call, args, kwargs, largest)
        if found is None:
            continue
        n += 1
        on_cpu, on_meta, theirs, here, meta = found
        for where, what, ours in (("cpu", on_cpu, here), ("meta", on_meta, meta)):
            if what:
                texts = [brief(f"{type(x).__name__}: {' '.join(str(x).split())}", 200) for x in (theirs, ours)]
                differences.append((name, kind, call, args, kwargs, where, what, *texts))
    return n, differences


def tally(differences):
    """Return the number of differing calls for each ``(operator, kind of change, what differs)``. A call counts once."""
    calls = {}
    for name, kind, call, args, kwargs, _, what, *_ in differences:
        calls.setdefault((name, kind, json.dumps([call, args, kwargs])), what)
    return Counter((name, kind, what) for (name, kind, _), what in calls.items())


def apart(function, *args):
    """Run a function in a child process. Return None if it crashes, because PyTorch may write outside of memory."""
    ours, theirs = os.pipe()
    gc.freeze()     # a garbage collection in the child would copy every page
    child = os.fork()
    if not child:
        gc.disable()
        try:
            with os.fdopen(theirs, "wb") as pipe:
                pipe.write(pickle.dumps(function(*args)))
        finally:
            os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    return pickle.loads(data) if data else None


def chosen(call, share):
    """Return True for one in ``share`` of the changed calls. The choice depends only on the call itself."""
    return share == 1 or zlib.crc32(json.dumps(call).encode()) % share == 0


def run(ops=None, first="", share=1, kinds="", separate=False):
    """Yield ``(name, number of calls, differences)`` of each operator. The last two are None if the process crashed."""
    judge = Judge(importlib.import_module("metatensor"))
    for name, group in itertools.groupby(Calls(ops, first), lambda call: call[0]):
        calls = [call for call in group if call[1].startswith(kinds) and chosen(call, share)]
        yield name, *((apart(judged, judge, calls) or (None, None)) if separate else judged(judge, calls))


def ceiling():
    """Return how many calls may differ: ``operator: {"kind: what": number}``. Without the file, none may."""
    return json.loads(CEILING.read_text()) if CEILING.exists() else {}


def above(counts):
    """Return the counts of `tally` that exceed the limits."""
    allowed = ceiling()
    return {key: n for key, n in counts.items() if n > allowed.get(key[0], {}).get(f"{key[1]}: {key[2]}", 0)}


def lower(counts, raise_it=False):
    """Lower the limits to the given counts. With `raise_it`, also raise them."""
    allowed, made = ceiling(), {}
    for (name, kind, what), n in sorted(counts.items()):
        key = f"{kind}: {what}"
        n = n if raise_it else min(n, allowed.get(name, {}).get(key, 0))
        if n:
            made.setdefault(name, {})[key] = n
    CEILING.write_text(json.dumps(made, indent=0, sort_keys=True) + "\n")


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", help="comma separated names")
    parser.add_argument("--first", default="", help="omit the names before this one")
    parser.add_argument("--share", type=int, default=1, metavar="K", help="every K-th call only")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--fail-list", type=int, default=0, metavar="N", help="print the first N differences")
    parser.add_argument("--what", help="only these differences: accepts, class, refuses, values, ...")
    parser.add_argument("--kinds", default="", help="only changes whose description starts with this, such as 'out: '")
    parser.add_argument("--lower", action="store_true", help=f"lower the limits, which hold for one call in {SHARE}")
    parser.add_argument("--anew", action="store_true", help="write the limits, even if they increase")
    parser.add_argument("--separate", action="store_true", help="run each operator in a separate process, because PyTorch may crash")
    parser.add_argument("--save", help="write every difference to this file, one JSON object per line")
    args = parser.parse_args(argv)
    if args.lower or args.anew:
        args.share = SHARE
    shown, total, counts = 0, 0, Counter()
    save = open(args.save, "w", buffering=1) if args.save else None
    for name, n, differences in run(args.ops and set(args.ops.split(",")), args.first, args.share, args.kinds, separate=args.separate):
        if n is None:
            print(f"{name}: the process died")
            continue
        total += n
        wanted = [d for d in differences if not args.what or d[6] in args.what.split(",")]
        counts.update(tally(wanted))
        for found in wanted:
            shown += 1
            if save:
                save.write(json.dumps(found) + "\n")
            if shown <= args.fail_list:
                show(found)
    if args.table:
        for (name, kind, what), count in sorted(counts.items()):
            print(f"{count:5}  {name:40} {what:12} {kind}")
    if args.lower or args.anew:
        lower(counts, args.anew)
    by_what = Counter()
    for (_, _, what), count in counts.items():
        by_what[what] += count
    print(f"{total} calls, {sum(counts.values())} differ: {dict(by_what.most_common())}")


if __name__ == "__main__":
    main()
