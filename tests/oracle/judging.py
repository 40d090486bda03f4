"""Decide whether values are right: near PyTorch's, or, if a result is not unique, one of the correct results.

All tensors here are PyTorch's. Callers convert those of the module under test.
"""

import math

import torch

from .twins import leaves, tensors

# Operators that return uninitialized memory, at least in part.
UNINITIALISED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "resize_",
"resize_as_"}

# For random operators: number of draws, number of elements compared in each, and number of permutations of the draws.
DRAWS, ELEMENTS, DEALS = 60, 200, 100


def difference(ours, theirs, rtol, atol):
    """Return None if nested results are equal within the tolerances, else a description of the first difference."""
    for mine, its in zip(leaves(ours), leaves(theirs)):
        if isinstance(its, torch.Tensor) or isinstance(its, (bool, int, float, complex)):
            problem = _apart(mine, its, rtol, atol)
        else:
            problem = None if mine == its or not isinstance(its, str) else f"{mine!r} instead of {its!r}"
        if problem:
            return problem
    return None


def _apart(mine, its, rtol, atol):
    exact = not isinstance(its, torch.Tensor) or not (its.is_floating_point() or its.is_complex())
    if exact and not isinstance(its, (float, complex)):
        rtol = atol = 0
    if isinstance(its, torch.Tensor) and its.is_floating_point() and its.itemsize == 1:
        mine, its, rtol, atol = mine.float(), its.float(), 0, 0
    try:
        torch.testing.assert_close(mine, its, rtol=rtol, atol=atol, equal_nan=True, check_stride=False)
    except AssertionError as error:
        lines = [line for line in str(error).splitlines() if line and not line.startswith("Tensor-likes")]
        return " ".join(lines)[:300]
    return None


# Indices into the input --------------------------------------------------------------------------

# By operator: the position, name and default of the argument with the dimension.
_SELECTIONS = {"sort": (1, -1), "argsort": (1, -1), "topk": (2, -1), "kthvalue": (2, -1), "mode": (1, -1)}


def selection(name, args, kwargs, ours, theirs):
    """Return True if indices select elements equal to those that PyTorch's indices select, without duplicates."""
    if name not in _SELECTIONS or kwargs.get("stable") or not isinstance(args[0], torch.Tensor) or not args[0].ndim:
        return False
    mine, its = ([x] if isinstance(x, torch.Tensor) else list(x) for x in (ours, theirs))
    if len(mine) == 2 and difference(mine[0], its[0], 0, 0):
        return False
    place, default = _SELECTIONS[name]
    dim = kwargs.get("dim", args[place] if len(args) > place else default)
    indices, wanted = mine[-1], its[-1]
    if indices.ndim < args[0].ndim:
        indices, wanted = indices.unsqueeze(dim), wanted.unsqueeze(dim)
    if ((indices < 0) | (indices >= args[0].shape[dim])).any():
        return False
    again = indices.sort(dim).values.diff(dim=dim) == 0
    chosen = [args[0].gather(dim, where) for where in (indices, wanted)]
    return not again.any() and difference(*chosen, 0, 0) is None


# Singular systems --------------------------------------------------------------------------------

# Operators that divide by the elements of a given triangular factor.
_SOLVERS = {"cholesky_solve", "linalg.lu_solve", "linalg.solve_triangular", "lu_solve", "triangular_solve"}


def singular(name, ours, theirs):
    """Return True if a system has no solution, both results say so in the same places, and they agree elsewhere.

    Whether such an element is NaN or infinite depends on the order of operations, and so on the BLAS kernel that suits the CPU.
    """
    if name not in _SOLVERS:
        return False
    pairs = list(zip(tensors(ours), tensors(theirs)))
    if not any((~torch.isfinite(its)).any() for _, its in pairs):
        return False
    return all(
        torch.equal(torch.isfinite(mine), torch.isfinite(its))
        and _apart(mine[torch.isfinite(mine)], its[torch.isfinite(its)], 1.3e-6, 1e-5) is None
        for mine, its in pairs
    )


def saturated(name, ours, theirs, args, kwargs):
    """Return True if PyTorch's product of 8-bit floats has NaN where ours has the greatest value, for sums beyond the range.

    Such sums are conversions of float32 results. PyTorch's conversions saturate, but on some processors oneDNN's kernels make NaN of them.
    """
    if name != "torch._scaled_mm" or not isinstance(ours, torch.Tensor) or ours.dtype != torch.float8_e4m3fn:
        return False
    options = {key: value for key, value in kwargs.items() if key not in ("out", "out_dtype")}
    wide = torch._scaled_mm(*args[:6], **options, out_dtype=torch.float32)
    mine, its = ours.float(), theirs.float()
    lost = its.isnan() & (wide.abs() > torch.finfo(ours.dtype).max)
    return torch.equal(mine, wide.to(ours.dtype).float()) and torch.equal(mine[~lost], its[~lost])


def tensorsolve_matrix(a, b, dims=None):
    """Return the square matrix of `linalg.tensorsolve`: ``dims`` of ``a`` become its last dimensions, and the first ``b.ndim`` its rows."""
    if dims is not None:
        kept = [d for d in range(a.ndim) if d not in {d % a.ndim for d in dims}]
        a = a.permute(*kept, *dims)
    return a.reshape(b.numel(), -1)


# The matrix that an operator inverts, from the arguments of a call.
_INVERTED = {
    "inverse": lambda a: a,
    "linalg.inv": lambda a: a,
    "linalg.solve": lambda a, b, **_: a,
    "linalg.tensorinv": lambda a, ind=2: a.reshape(math.prod(a.shape[:ind]), -1),
    "linalg.tensorsolve": tensorsolve_matrix,
}


def rightly_refused(name, args, kwargs, error):
    """Return True if an error says that a matrix is singular, and a matrix of the batch is: its rank in double precision is not full.

    The elimination of such a matrix ends in an exact zero or in a rounding error. Which of them depends on the BLAS kernel that suits
    the CPU, and with the latter PyTorch returns meaningless values.
    """
    if name not in _INVERTED or type(error).__name__ != "LinAlgError" or "singular" not in str(error):
        return False
    matrix = widened(_INVERTED[name](*args, **{key: value for key, value in kwargs.items() if key != "out"}))
    return bool((torch.linalg.matrix_rank(matrix) < matrix.shape[-1]).any())


# Comparison with results in double precision -------------------------------------------------

_WIDER = {
    torch.float16: torch.float64, torch.bfloat16: torch.float64, torch.float32: torch.float64,
    torch.complex64: torch.complex128, torch.complex32: torch.complex128,
}  # fmt: skip


def widened(x):
    """Convert a tensor, or a dtype, to double precision."""
    if isinstance(x, torch.Tensor):
        return x.to(_WIDER[x.dtype]) if x.dtype in _WIDER else x
    return _WIDER.get(x, x) if isinstance(x, torch.dtype) else x


def nearer(ours, theirs, precise):
    """Return True if the error against double precision is at most about twice the error of PyTorch.

    PyTorch's tests of its own reference implementations use this criterion where rounding errors accumulate.
    """
    for mine, its, exact in zip(leaves(ours), leaves(theirs), leaves(precise)):
        if not isinstance(its, torch.Tensor):
            if difference(mine, its, 1.3e-6, 1e-5):
                return False
        elif not (its.is_floating_point() or its.is_complex()):
            if not torch.equal(mine, its):
                return False
        elif not _no_further(mine, its, exact):
            return False
    return True


def _no_further(mine, its, exact):
    # Conversion to the result's dtype makes values beyond its range infinite, as they are in the results.
    tolerance = torch.testing._comparison.default_tolerances(its.dtype)
    exact = exact.to(its.dtype).to(exact.dtype)
    mine, its = mine.to(exact.dtype), its.to(exact.dtype)
    finite = torch.isfinite(exact)
    if not torch.equal(torch.nan_to_num(mine[~finite], 7.0), torch.nan_to_num(exact[~finite], 7.0)):
        return False
    if not torch.isfinite(mine[finite]).all():
        return False
    # Where PyTorch's result is not finite but the exact value is, ours must be close to the exact value.
    known = finite & torch.isfinite(its)
    far, allowed = (torch.linalg.vector_norm(t[known] - exact[known]) for t in (mine, its))
    lost = finite & ~known
    return bool(far <= 2 * allowed) and _apart(mine[lost], exact[lost], *tolerance) is None


# Random results ------------------------------------------------------------------------------


def same_distribution(ours, theirs):
    """Return None if two lists of results of repeated calls may have the same distribution, else the reason why not.

    The Kolmogorov-Smirnov distance of all elements is compared with the distances for random permutations of the same
    draws, because the elements of one draw may depend on each other. Each element is compared by the rank sum of its
    draws (Mann-Whitney), which does not assume that moments exist.
    """
    for mine, its in zip(zip(*map(tensors, ours)), zip(*map(tensors, theirs))):
        if its[0].numel() == 0:
            continue
        both = torch.stack([_real(t) for t in (*mine, *its)])
        chosen = torch.linspace(0, both.shape[1] - 1, min(both.shape[1], ELEMENTS)).long()
        labels = _merged(both[:, chosen], torch.testing._comparison.default_tolerances(its[0].dtype)[0])
        problem = _apart_together(labels) or _apart_by_element(labels)
        if problem:
            return problem
    return None


def _real(t):
    t = t.resolve_conj().resolve_neg()
    return torch.nan_to_num((torch.view_as_real(t) if t.is_complex() else t).double(), nan=1e300).flatten()


def _merged(values, rtol):
    """Return ranks of the values. Neighbours that differ only by rounding have equal ranks.

    Sums that nearly cancel have the rounding error of their terms, so the tolerance is relative to the larger values.
    """
    found, inverse = values.unique(return_inverse=True)
    size = found.abs()
    new = found.diff(prepend=found[:1]) > 2 * rtol * size.clamp_min(float(size[size < 1e299].max() if len(size) else 0) / 8)
    return new.long().cumsum(0)[inverse]


def _apart_together(labels):
    half = len(labels) // 2
    counts = torch.stack([torch.bincount(row, minlength=int(labels.max()) + 1) for row in labels]).double()
    generator = torch.Generator().manual_seed(0)
    deals = [torch.arange(2 * half), *(torch.randperm(2 * half, generator=generator) for _ in range(DEALS))]
    signs = torch.stack([torch.where(deal < half, 1.0, -1.0) for deal in deals]).double()
    distances = (signs @ counts).cumsum(1).abs().amax(1) / (half * labels.shape[1])
    limit = float(distances[1:].mean() + 6 * distances[1:].std()) + 1e-9
    return f"distributions {distances[0]:.3f} apart, {limit:.3f} allowed" if distances[0] > limit else None


def _apart_by_element(labels):
    half = len(labels) // 2
    columns = labels.T.contiguous()
    ordered = columns.sort(1).values
    rank = (torch.searchsorted(ordered, columns) + torch.searchsorted(ordered, columns, right=True)).double() / 2
    spread = rank.std(1) * math.sqrt(2 / half)
    apart = (rank[:, :half].mean(1) - rank[:, half:].mean(1)).abs() / spread.clamp_min(1e-12)
    return f"an element's draws are {float(apart.max()):.1f} deviations apart" if apart.max() > 6.5 else None
