"""Compare gradients on the cpu device with PyTorch's, for PyTorch's own operator database.

    cd tests
    python -m oracle.gradients                       # the score
    python -m oracle.gradients --table               # by op, worst first
    python -m oracle.gradients --ops mul,div --fail-list 20
    python -m oracle.gradients --second              # gradients of gradients as well
    python -m oracle.gradients --in-place            # of the variants that work in place, on a copy of the first argument
    python -m oracle.gradients --forward             # tangents of forward mode instead

This needs PyTorch 2.13 and expecttest. Every differentiable operator of the database gets its own samples. All
floating-point and complex tensors of a sample that PyTorch differentiates require grad; the gradients of the outputs
are drawn once and used in both libraries, and so are the tangents of the inputs in forward mode. A sample is right if the
same inputs get a gradient, with the same shape, dtype and values, within the tolerance of PyTorch's own tests. Else it
is compared with PyTorch's gradient in double precision: it is right if it is within this tolerance of it, or not much
farther from it than PyTorch's (`judging.nearer`). Equal elements of which a sort may choose any are compared by the sums
of their gradients. Where PyTorch raises, nothing is compared. Forward mode is compared in float64, float32 and complex128
by default: where the formulas differ, bfloat16 rounds differently.
"""

import argparse
import warnings
from collections import Counter

import torch

import metatensor

from . import database, judging
from .records import Missing
from .replay import SoftTimeout, limit
from .twins import Twins, Unsupported, as_torch, leaves, tree_map
from .values import Tally, fix_hashing, table

DTYPES = ("float64", "float32", "complex128", "complex64", "bfloat16")


def differentiable(t):
    return isinstance(t, torch.Tensor) and (t.is_floating_point() or t.is_complex())


class Gradients:
    """Computes gradients of one sample in one library."""

    def __init__(self, module, function, translate):
        self.module, self.function, self.translate = module, function, translate

    def __call__(self, args, kwargs, wanted, weights, second):
        """Return the outputs' gradients for the inputs numbered in `wanted`: a list with None, or an exception."""
        twins = Twins(self.module, self.translate)
        args, kwargs = twins(args), twins(kwargs)
        inputs = [twins.inputs[i] for i in wanted]
        for t in inputs:
            t.requires_grad_()
        result = self.function(*args, **kwargs)
        outputs = [t for t in leaves(result) if isinstance(t, self.module.Tensor) and t.requires_grad]
        weights = [self._weight(w, t) for w, t in zip(weights(outputs), outputs)]
        found = list(self.module.autograd.grad(outputs, inputs, weights, create_graph=second, allow_unused=True))
        if second:
            first = [g for g in found if g is not None and g.requires_grad]
            again = [None] * len(inputs)
            if first:
                again = self.module.autograd.grad(first, inputs, [self.module.ones_like(g) for g in first], allow_unused=True)
            found += again
        return found

    def _weight(self, w, t):
        return w if self.module is torch else self.translate_tensor(w)

    def translate_tensor(self, w):
        return Twins(self.module, self.translate)((w,))[0]


class Tangents(Gradients):
    """Computes the tangents of the results of one sample in one library."""

    def __call__(self, args, kwargs, wanted, weights, second):
        """Return the tangents of the outputs, where the inputs numbered in `wanted` have some: a list with None."""
        twins = Twins(self.module, self.translate)
        args, kwargs = twins(args), twins(kwargs)
        inputs = [twins.inputs[i] for i in wanted]
        forward_ad = self.module.autograd.forward_ad
        with forward_ad.dual_level():
            duals = {id(t): forward_ad.make_dual(t, self._weight(w, t)) for t, w in zip(inputs, weights(inputs))}
            args, kwargs = exchanged(args, duals), exchanged(kwargs, duals)
            outputs = [t for t in leaves(self.function(*args, **kwargs)) if isinstance(t, self.module.Tensor)]
            outputs = [t for t in outputs if t.is_floating_point() or t.is_complex()]
            return [forward_ad.unpack_dual(t).tangent for t in outputs]


def exchanged(tree, duals):
    """Return nested lists, tuples and dicts with tensors exchanged."""
    if isinstance(tree, dict):
        return {key: exchanged(value, duals) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        parts = [exchanged(value, duals) for value in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    return duals.get(id(tree), tree)


def weights_for(outputs):
    """Return gradients for outputs: the same numbers for the same shapes and dtypes."""
    made = []
    for i, t in enumerate(outputs):
        generator = torch.Generator().manual_seed(i + 1)
        dtype = getattr(torch, str(t.dtype).rpartition(".")[2])
        wide = torch.complex128 if dtype.is_complex else torch.float64
        made.append(torch.randn(tuple(t.shape), dtype=wide, generator=generator).to(dtype))
    return made


class Recall:
    """Weights that are drawn once and converted later."""

    def __init__(self):
        self.drawn = None

    def __call__(self, outputs):
        if any(isinstance(t, torch.Tensor) and t.layout is not torch.strided for t in outputs):
            raise Unsupported("a result that is not strided")
        if self.drawn is None:
            self.drawn = weights_for(outputs)
        return self.drawn

    def wide(self, outputs):
        return [judging.widened(w).to(t.dtype) for w, t in zip(self.drawn, outputs)]


def as_strided_scatter(x, src, size, stride, storage_offset=None):
    made = x.clone()
    made.as_strided(size, stride, storage_offset).copy_(src)
    return made


# PyTorch gives the replaced part of as_strided_scatter's input the gradient, and the rest none. It should be the other way round.
EQUIVALENT = {"as_strided_scatter": as_strided_scatter}

# There are no sparse tensors.
SPARSE = frozenset(["to_sparse"])

# Operators that choose among equal elements.
CHOOSING = frozenset("sort msort topk mode kthvalue median nanmedian argsort".split())


class Runner:
    """Runs the samples of an operator in both libraries."""

    def __init__(self, dtypes=DTYPES, samples=8, second=False, timeout=10.0, forward=False, in_place=False):
        self.in_place = in_place
        self.dtypes, self.samples, self.second, self.timeout = dtypes, samples, second, timeout
        self.kind = Tangents if forward else Gradients
        self.ours, self.theirs = database.Translator(metatensor), database.Translator(torch)
        self.by_dtype = {name: Tally() for name in dtypes}  # of operators

    def run(self, op, on_failure=None):
        tally = Tally()
        for name in self.dtypes:
            dtype = getattr(torch, name)
            if dtype not in op.supported_backward_dtypes("cpu") or dtype not in op.supported_dtypes("cpu"):
                continue
            before = tally.n, tally.right
            for number, sample in enumerate(database.samples(op, dtype, self.samples)):
                try:
                    problem = self.check(op, dtype, sample)
                except Unsupported:
                    tally.skipped["not plain tensors"] += 1
                    continue
                except Missing as missing:
                    tally.missing = str(missing)
                    return tally
                if problem is SKIPPED:
                    tally.skipped["PyTorch raises"] += 1
                    continue
                tally.n += 1
                tally.right += not problem
                if problem:
                    tally.why[problem.partition(":")[0][:60]] += 1
                    tally.first = tally.first or f"{name} {number}: {problem}"
                    if on_failure:
                        on_failure(op, dtype, number, sample, problem)
            n, right = tally.n - before[0], tally.right - before[1]
            self.by_dtype[name].n += n > 0
            self.by_dtype[name].right += n > 0 and n == right
        return tally

    def check(self, op, dtype, sample):
        """Return None, SKIPPED, or what is wrong."""
        args, kwargs = (sample.input, *sample.args), dict(sample.kwargs)
        twins = Twins(torch)
        twins(args), twins(kwargs)
        candidates = [i for i, t in enumerate(twins.inputs) if differentiable(t)]
        if self.in_place:
            variant = op.inplace_variant
            if not callable(variant) or sample.broadcasts_input or not isinstance(sample.input, torch.Tensor):
                return SKIPPED
            ours, theirs = _on_copy(self.ours(variant, op.name)), _on_copy(self.theirs(variant, op.name))
        else:
            ours, theirs = self.ours(op.op, op.name), self.theirs(EQUIVALENT.get(op.name, op.op), op.name)
        if sample.output_process_fn_grad is not None:
            process = sample.output_process_fn_grad
            ours, theirs = _then(ours, self.ours, process), _then(theirs, self.theirs, process)
        state, weights = torch.get_rng_state(), Recall()
        try:
            expected = self.kind(torch, theirs, None)(args, kwargs, candidates, weights, self.second)
        except Unsupported:
            raise
        except Exception:
            return SKIPPED
        if any(g is not None and g.layout is not torch.strided for g in expected):
            raise Unsupported("a gradient that is not strided")
        if not torch.equal(state, torch.get_rng_state()) or all(g is None for g in expected):
            return SKIPPED  # random operators draw other numbers
        try:
            with limit(self.timeout):
                got = self.kind(metatensor, ours, self.ours)(args, kwargs, candidates, weights, self.second)
        except (Missing, Unsupported):
            raise
        except SoftTimeout:
            return "took too long"
        except Exception as error:
            return f"raised {type(error).__name__}: {str(error)[:300]}"
        problem = self.difference(op, dtype, got, expected)
        if problem is None or len(got) != len(expected):
            return problem
        got = [None if g is None else as_torch(g) for g in got]
        if op.name in CHOOSING:
            values = [twins.inputs[i] for i in candidates] * 2
            got, expected = ([None if g is None else by_value(g, x) for g, x in zip(gs, values)] for gs in (got, expected))
            return self.difference(op, dtype, got, expected)
        try:
            wide = tree_map(judging.widened, args), tree_map(judging.widened, kwargs)
            precise = self.kind(torch, theirs, None)(*wide, candidates, weights.wide, self.second)
        except Exception:
            return problem
        if len(precise) != len(expected):
            return problem
        exact = [g if g is None or e is None else g.to(e.dtype) for g, e in zip(precise, expected)]
        return None if nearer(got, expected, precise) or self.difference(op, dtype, got, exact) is None else problem

    def difference(self, op, dtype, got, expected):
        rtol, atol = database.tolerance(op, dtype)
        if self.second:
            rtol, atol = 10 * rtol, 10 * atol
        if len(got) != len(expected):
            return f"{len(got)} gradients instead of {len(expected)}"
        for i, (a, b) in enumerate(zip(got, expected)):
            if b is None or a is None:
                if (a is None) != (b is None) and not (b is not None and not b.any()) and not (a is not None and not as_torch(a).any()):
                    return f"gradient {i}: {'none' if a is None else 'one'} instead of {'none' if b is None else 'one'}"
                continue
            a, b = as_torch(a), b.detach()
            if a.shape != b.shape or a.dtype != b.dtype:
                return f"gradient {i}: {tuple(a.shape)} {a.dtype} instead of {tuple(b.shape)} {b.dtype}"
            problem = judging.difference(a, b, rtol, atol)
            if problem:
                return f"gradient {i}: {problem}"
        return None


SKIPPED = object()


def by_value(grad, x):
    """Return the sums of the gradients of equal elements."""
    _, where = torch.unique(x, return_inverse=True)
    return torch.zeros(x.numel(), dtype=torch.float64).index_add(0, where.flatten(), grad.flatten().double())


def nearer(got, expected, precise):
    """Apply `judging.nearer`. A gradient of zeros may be missing."""
    rows = []
    for row in zip(got, expected, precise):
        present = [g for g in row if g is not None]
        if present:
            rows.append([torch.zeros_like(present[0]) if g is None else g.detach() for g in row])
    return all(judging.nearer(*row) for row in rows)


def _on_copy(function):
    return lambda first, *args, **kwargs: function(first.clone(), *args, **kwargs)


def _then(function, translate, process):
    """Return a function that calls ``function`` and processes the result as the database does before differentiating it."""
    try:
        process = translate(process)
    except Missing:
        return function
    return lambda *args, **kwargs: process(function(*args, **kwargs))


def score(tallies):
    rows = [t for t in tallies.values() if t.n]
    n, right = sum(t.n for t in rows), sum(t.right for t in rows)
    whole = sum(t.n == t.right for t in rows)
    shares = (100 * whole / max(len(rows), 1), 100 * right / max(n, 1))
    return f"ops fully right: {whole}/{len(rows)} ({shares[0]:.2f}%) | samples: {right}/{n} ({shares[1]:.2f}%)"


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", help="comma separated op names, all variants of each")
    parser.add_argument("--dtypes")
    parser.add_argument("--samples", type=int, default=8, metavar="K", help="maximum number of samples of each op and dtype")
    parser.add_argument("--second", action="store_true", help="also compare the gradients of the gradients")
    parser.add_argument("--in-place", action="store_true", help="compare the variants that work in place")
    parser.add_argument("--forward", action="store_true", help="compare the tangents of forward mode instead")
    parser.add_argument("--table", action="store_true", help="a line for each op that is not fully right, worst first")
    parser.add_argument("--fail-list", type=int, default=0, metavar="N", help="print the first N failing samples")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    shown = Counter()

    def on_failure(op, dtype, number, sample, problem):
        shown["n"] += 1
        if shown["n"] <= args.fail_list:
            print(f"{database.name_of(op)} {dtype} {number}: {problem}")

    dtypes = tuple(args.dtypes.split(",")) if args.dtypes else DTYPES[:3] if args.forward else DTYPES
    runner = Runner(dtypes, args.samples, args.second, forward=args.forward, in_place=args.in_place)
    ops = set(args.ops.split(",")) if args.ops else None
    chosen = [op for op in database.entries(ops) if op.name not in SPARSE
              and (op.supports_forward_ad if args.forward else op.supports_autograd)]
    tallies = {database.name_of(op): runner.run(op, on_failure) for op in chosen}
    if args.table:
        table(tallies)
    for name, t in runner.by_dtype.items():
        if t.n:
            print(f"{name}: {t.right}/{t.n} ops fully right ({100 * t.right / t.n:.2f}%)")
    print(score(tallies))


if __name__ == "__main__":
    fix_hashing(__spec__.name)
    main()
