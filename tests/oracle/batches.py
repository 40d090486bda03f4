"""Compare `vmap` with a loop over the members, for the samples of PyTorch's operator database.

    cd tests
    python -m oracle.batches                         # the score, and which operators run one member at a time
    python -m oracle.batches --ops mul,div --fail-list 20

Every sample becomes a batch of two members, the second with values that differ a little: once with all tensors in the
batch, and once with each tensor alone. The result must be that of a loop, within a tolerance. Where `vmap` refuses, PyTorch's
`vmap` must raise as well.
"""

import argparse
import warnings
from collections import Counter, defaultdict

import torch

import metatensor
from metatensor.func import _batched, vmap

from . import database
from .gradients import exchanged
from .records import Missing
from .replay import SoftTimeout, limit
from .twins import Twins, Unsupported, leaves
from .twins import tensors as torch_tensors
from .values import fix_hashing


def second(t):
    """Return another member: the values of a floating-point tensor times 0.9."""
    return t * 0.9 if t.is_floating_point() or t.is_complex() else t.clone()


class Watch:
    """Notes the operators that run one member at a time."""

    def __init__(self):
        self.names = Counter()

    def __enter__(self):
        self.original = _batched._by_member

        def noted(func, *args):
            self.names[func.name] += 1
            return self.original(func, *args)

        _batched._by_member = noted
        return self

    def __exit__(self, *_):
        _batched._by_member = self.original


def refused(function, args, kwargs, chosen):
    """Return whether PyTorch's `vmap` raises RuntimeError, too. All arguments are PyTorch's."""

    def run(*members):
        exchange = {id(t): m for t, m in zip(chosen, members, strict=True)}
        result = function(*exchanged(args, exchange), **exchanged(kwargs, exchange))
        return tuple(t for t in leaves(result) if isinstance(t, torch.Tensor))

    try:
        torch.func.vmap(run)(*[torch.stack([t, second(t)]) for t in chosen])
    except RuntimeError:
        return True
    except Exception:
        return False
    return False


def check(name, function, args, kwargs, chosen, theirs):
    """Return what is wrong, None, or SKIPPED if a member alone raises. `theirs` says whether PyTorch's `vmap` refuses."""
    try:
        each = []
        for k in range(2):
            exchange = {id(t): (t if k == 0 else second(t)).clone() for t in chosen}
            each.append(function(*exchanged(args, exchange), **exchanged(kwargs, exchange)))
        columns = list(zip(*[leaves(e) for e in each], strict=True))
    except Exception:
        return SKIPPED
    if any(isinstance(a, metatensor.Tensor) != isinstance(b, metatensor.Tensor) or (isinstance(a, metatensor.Tensor) and a.shape != b.shape)
           for a, b in columns):
        return SKIPPED
    if not any(isinstance(a, metatensor.Tensor) for a, _ in columns):
        return SKIPPED

    def run(*members):
        exchange = {id(t): m for t, m in zip(chosen, members, strict=True)}
        result = function(*exchanged(args, exchange), **exchanged(kwargs, exchange))
        return tuple(t for t in leaves(result) if isinstance(t, metatensor.Tensor))

    try:
        many = vmap(run)(*[metatensor.stack([t, second(t)]) for t in chosen])
    except Exception as error:
        if "randomness=" in str(error):
            return SKIPPED
        if isinstance(error, RuntimeError) and theirs():
            return None
        return f"raised {type(error).__name__}: {str(error)[:200]}"
    columns = [(a, b) for a, b in columns if isinstance(a, metatensor.Tensor)]
    if len(many) != len(columns):
        return f"{len(many)} results instead of {len(columns)}"
    for i, (got, members) in enumerate(zip(many, columns, strict=True)):
        want = metatensor.stack(list(members))
        if got.shape != want.shape or got.dtype != want.dtype:
            return f"result {i}: {tuple(got.shape)} {got.dtype} instead of {tuple(want.shape)} {want.dtype}"
        if name in UNINITIALIZED:
            continue
        rtol, atol = TOLERANCES.get(str(want.dtype).rpartition(".")[2], (1e-5, 1e-6))
        if not metatensor.allclose(got.resolve_conj(), want.resolve_conj(), rtol=rtol, atol=atol, equal_nan=True):
            return f"result {i}: other values"
    return None


SKIPPED = object()
TOLERANCES = {"float16": (5e-3, 5e-3), "bfloat16": (3e-2, 3e-2), "float32": (1e-4, 1e-5), "complex64": (1e-4, 1e-5)}
UNINITIALIZED = ("empty", "empty_like", "new_empty", "new_empty_strided", "empty_strided", "resize_", "resize_as_")


def run(op, samples=4, dtypes=("float64", "int64"), timeout=10.0):
    """Return how many checks were right, how many there were, the first problem, and what ran one member at a time."""
    translate = database.Translator(metatensor)
    right = n = 0
    first, slow = None, Counter()
    try:
        function = translate(op.op, op.name)
    except Missing:
        return 0, 0, None, slow
    for name in dtypes:
        dtype = getattr(torch, name)
        if dtype not in op.supported_dtypes("cpu"):
            continue
        for number, sample in enumerate(database.samples(op, dtype, samples)):
            twins = Twins(metatensor, translate)
            try:
                args, kwargs = twins((sample.input, *sample.args)), twins(dict(sample.kwargs))
            except (Missing, Unsupported):
                continue
            given = [(sample.input, *sample.args), dict(sample.kwargs)]
            tensors = [t for t in leaves([args, kwargs]) if isinstance(t, metatensor.Tensor)]
            twins_of = {id(t): theirs for t, theirs in zip(tensors, torch_tensors(given), strict=True)}
            for chosen in [tensors, *([t] for t in tensors if len(tensors) > 1)]:
                if not chosen:
                    continue
                with Watch() as watch:
                    try:
                        with limit(timeout):
                            problem = check(op.name, function, args, kwargs, chosen, lambda: refused(
                                op.op, *given, [twins_of[id(t)] for t in chosen]))  # fmt: skip
                    except SoftTimeout:
                        problem = "took too long"
                if problem is SKIPPED:
                    continue
                slow.update(watch.names)
                n += 1
                right += problem is None
                if problem and first is None:
                    which = "all" if chosen is tensors else [i for i, t in enumerate(tensors) if t is chosen[0]][0]
                    first = f"{name} {number} ({which}): {problem}"
    return right, n, first, slow


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", help="comma separated op names, all variants of each")
    parser.add_argument("--samples", type=int, default=4, metavar="K", help="maximum number of samples of each op and dtype")
    parser.add_argument("--fail-list", type=int, default=0, metavar="N", help="print the first N failing operators")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    total = whole = right = n = failed = 0
    slow = defaultdict(set)
    for op in database.entries(set(args.ops.split(",")) if args.ops else None):
        good, count, first, names = run(op, args.samples)
        if not count:
            continue
        total, whole, right, n = total + 1, whole + (good == count), right + good, n + count
        for name in names:
            slow[name].add(database.name_of(op))
        if first:
            failed += 1
            if failed <= args.fail_list:
                print(f"{database.name_of(op)}: {good}/{count}, {first}")
    print("one member at a time: " + ", ".join(f"{name} ({len(ops)})" for name, ops in sorted(slow.items())))
    print(f"ops fully right: {whole}/{total} | samples: {right}/{n}")


if __name__ == "__main__":
    fix_hashing(__spec__.name)
    main()
