"""Whether values are right: near PyTorch's, or, where a result is not unique, of the properties that define it.

Everything here compares tensors of PyTorch: those of the module under test were converted before.
"""

import math

import torch

from .twins import leaves, tensors

# What these return was never written, all or in part.
UNINITIALISED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "resize_", "resize_as_"}

# Of a random operator on one sample: draws, elements looked at in each, and other ways to deal the draws.
DRAWS, ELEMENTS, DEALS = 60, 200, 100


def difference(ours, theirs, rtol, atol):
    """None where nested results have equal values, up to the tolerances, else how the first that differ do."""
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


# Results that point into the input -------------------------------------------------------------

# By operator: where among the arguments the dimension is, by position and name, and its default.
_SELECTIONS = {"sort": (1, -1), "argsort": (1, -1), "topk": (2, -1), "kthvalue": (2, -1), "mode": (1, -1)}


def selection(name, args, kwargs, ours, theirs):
    """Whether indices that differ from PyTorch's point to equal elements, each to another one."""
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


# Results that are near a more precise one ---------------------------------------------------

_WIDER = {
    torch.float16: torch.float64, torch.bfloat16: torch.float64, torch.float32: torch.float64,
    torch.complex64: torch.complex128, torch.complex32: torch.complex128,
}  # fmt: skip


def widened(x):
    """An argument in double precision: a tensor of a narrower dtype, or such a dtype itself."""
    if isinstance(x, torch.Tensor):
        return x.to(_WIDER[x.dtype]) if x.dtype in _WIDER else x
    return _WIDER.get(x, x) if isinstance(x, torch.dtype) else x


def nearer(ours, theirs, precise):
    """Whether results are about as near to those in double precision as PyTorch's, at most twice as far.

    So PyTorch judges its own reference implementations where rounding adds up.
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
    # What is beyond the range of the dtype is infinite in it.
    tolerance = torch.testing._comparison.default_tolerances(its.dtype)
    exact = exact.to(its.dtype).to(exact.dtype)
    mine, its = mine.to(exact.dtype), its.to(exact.dtype)
    finite = torch.isfinite(exact)
    if not torch.equal(torch.nan_to_num(mine[~finite], 7.0), torch.nan_to_num(exact[~finite], 7.0)):
        return False
    if not torch.isfinite(mine[finite]).all():
        return False
    # Where PyTorch's own is lost, it is no measure: then the value must be right.
    known = finite & torch.isfinite(its)
    far, allowed = (torch.linalg.vector_norm(t[known] - exact[known]) for t in (mine, its))
    lost = finite & ~known
    return bool(far <= 2 * allowed) and _apart(mine[lost], exact[lost], *tolerance) is None


# Random results ------------------------------------------------------------------------------


def same_distribution(ours, theirs):
    """None where two lists of results of repeated calls look as if drawn from one distribution, else why not.

    All elements together are compared by the Kolmogorov-Smirnov distance, which is held against that of other ways to
    deal the same draws into two lists: elements of one draw may depend on each other. Each element by itself is compared
    by the sum of the ranks of its draws (Mann-Whitney), which needs no moments.
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
    """Numbers in the order of the values, equal for neighbours that only rounding tells apart.

    What comes of sums that nearly cancel is rounded as their terms are: at the size of the larger values.
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
