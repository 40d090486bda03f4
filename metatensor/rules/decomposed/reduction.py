"""Reductions, scans, norms, distances, and ops that sort."""

from __future__ import annotations

import math
from typing import Any

import metatensor as mt
from metatensor.rules.decomposed.pointwise import floating
from metatensor.rules.decompositions import decomposition, numeric


def dims_of(x: Any, dim: Any) -> tuple[int, ...]:
    """Return the reduced dimensions as non-negative numbers. None and () mean all dimensions."""
    if dim is None or (isinstance(dim, tuple) and not dim):
        return tuple(range(x.dim()))
    dims = (dim,) if isinstance(dim, int) else dim
    return tuple(d % max(x.dim(), 1) for d in dims) if x.dim() else ()


def count_of(x: Any, dim: Any) -> int:
    """Return the number of elements that are reduced to each result."""
    return math.prod(x.shape[d] for d in dims_of(x, dim))


@decomposition("all")
def every(x: Any, dim: Any, keepdim: bool) -> Any:
    """Test whether all elements are nonzero. The result is uint8 for a uint8 tensor."""
    found = mt.any(x == 0, dim, keepdim) == 0
    return found.to(mt.uint8) if x.dtype is mt.uint8 else found


@decomposition("count_nonzero")
def count_nonzero(x: Any, dim: Any) -> Any:
    return (x != 0).sum(dim)


@numeric("mean", complex=True)
def mean(x: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    x = x if dtype is None else x.to(dtype)
    return mt.sum(x, dim, keepdim) / count_of(x, dim)


@numeric("nansum")
def nansum(x: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    x = x if dtype is None else x.to(dtype)
    return mt.sum(mt.where(x.isnan(), 0, x) if x.is_floating_point() or x.is_complex() else x, dim, keepdim)


@numeric("nanmean")
def nanmean(x: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    return mt.nansum(x, dim, keepdim, dtype=dtype) / (~x.isnan()).sum(dim, keepdim)


def _variance(x: Any, dim: Any, correction: Any, keepdim: bool) -> tuple[Any, Any]:
    kept = mt.mean(x, dims_of(x, dim) or None, True)
    spread = (x - kept).abs()
    free = max(count_of(x, dim) - (1 if correction is None else correction), 0)
    total = mt.sum(spread * spread, dims_of(x, dim) or None, keepdim)
    middle = mt.mean(x, dims_of(x, dim) or None, keepdim)
    return total / mt.full((), float(free), dtype=total.dtype, device=x.device), middle


def _moments(number: int, root: bool) -> Any:
    def function(x: Any, dim: Any, correction: Any, keepdim: bool) -> Any:
        variance, middle = _variance(x, dim, correction, keepdim)
        variance = variance.sqrt() if root else variance
        return (variance, middle) if number == 2 else variance

    return function


for _name, _number, _root in (("var", 1, False), ("std", 1, True), ("var_mean", 2, False), ("std_mean", 2, True)):
    _whole = _moments(_number, _root)
    numeric(_name, complex=True)(_whole)
    numeric(f"{_name}.dim", complex=True)(
        lambda x, dim, unbiased, keepdim, _whole=_whole: _whole(x, dim, int(unbiased), keepdim))
    numeric(f"{_name}.unbiased", complex=True)(lambda x, unbiased, _whole=_whole: _whole(x, None, int(unbiased), False))


@decomposition("max")
def maximum_of_all(x: Any) -> Any:
    return mt.amax(x)


@decomposition("min")
def minimum_of_all(x: Any) -> Any:
    return mt.amin(x)


@decomposition("max.dim")
def max_dim(x: Any, dim: int, keepdim: bool) -> Any:
    return _best(x, mt.argmax, dim, keepdim)


@decomposition("min.dim")
def min_dim(x: Any, dim: int, keepdim: bool) -> Any:
    return _best(x, mt.argmin, dim, keepdim)


def _best(x: Any, find: Any, dim: int, keepdim: bool) -> Any:
    if not x.dim():
        return x.clone(), mt.zeros((), dtype=mt.int64, device=x.device)
    places = find(x.to(mt.uint8) if x.dtype is mt.bool else x, dim, True)
    values = mt.gather(x, dim, places)
    return (values, places) if keepdim else (values.squeeze(dim), places.squeeze(dim))


@decomposition("aminmax")
def aminmax(x: Any, dim: Any, keepdim: bool) -> Any:
    dims = () if dim is None else (dim,)
    return mt.amin(x, dims, keepdim), mt.amax(x, dims, keepdim)


@numeric("logsumexp")
def logsumexp(x: Any, dim: Any, keepdim: bool) -> Any:
    """Subtract the maximum first, so that no exponential overflows."""
    x = floating(x)
    if not x.numel():
        return x.exp().sum(dim, keepdim).log()
    dims = dims_of(x, dim)
    top = x.amax(dims, True)
    top = mt.where(top.abs() == math.inf, 0.0, top)
    found = (x - top).exp().sum(dims, True).log() + top
    return found if keepdim else found.reshape([size for d, size in enumerate(x.shape) if d not in dims])


@numeric("logcumsumexp")
def logcumsumexp(x: Any, dim: int) -> Any:
    if not x.numel() or not x.dim():
        return x.clone()
    steps = list(x.unbind(dim))
    for i in range(1, len(steps)):
        steps[i] = mt.logaddexp(steps[i - 1], steps[i])
    return mt.stack(steps, dim)


@numeric("linalg.vector_norm", complex=True)
def vector_norm(x: Any, ord: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    x = (x if dtype is None else x.to(dtype)).abs()
    dims = dims_of(x, dim) or None
    if ord == math.inf:
        return x.amax(dims or (), keepdim)
    if ord == -math.inf:
        return x.amin(dims or (), keepdim)
    if ord == 0:
        return (x != 0).to(x.dtype).sum(dims, keepdim)
    if ord == 1:
        return x.sum(dims, keepdim)
    if ord == 2:
        return (x * x).sum(dims, keepdim).sqrt()
    return (x**ord).sum(dims, keepdim) ** (1.0 / ord)


@numeric("nn.functional.normalize", complex=True)
def normalize(x: Any, p: float, dim: Any, eps: float) -> Any:
    return x / mt.linalg.vector_norm(x, p, dim, True).clamp_min(eps)


@numeric("dist", complex=True)
def dist(x: Any, other: Any, p: Any) -> Any:
    return mt.linalg.vector_norm(x - other, p)


@numeric("pairwise_distance", complex=True)
def pairwise_distance(x1: Any, x2: Any, p: float, eps: float, keepdim: bool) -> Any:
    return mt.linalg.vector_norm(x1 - x2 + eps, p, -1, keepdim)


@numeric("cosine_similarity")
def cosine_similarity(x1: Any, x2: Any, dim: int, eps: float) -> Any:
    x1, x2 = mt.broadcast_tensors(x1, x2)
    lengths = [mt.linalg.vector_norm(x, 2, dim, True).clamp_min(eps) for x in (x1, x2)]
    return ((x1 / lengths[0]) * (x2 / lengths[1])).sum(dim)


@numeric("cdist")
def cdist(x1: Any, x2: Any, p: float, mode: Any) -> Any:
    return mt.linalg.vector_norm(x1.unsqueeze(-2) - x2.unsqueeze(-3), p, -1)


@numeric("pdist")
def pdist(x: Any, p: float) -> Any:
    rows = [(i, j) for i in range(len(x)) for j in range(i + 1, len(x))]
    if not rows:
        return x.new_zeros((0,))
    first, second = (mt.tensor(places, device=x.device) for places in zip(*rows, strict=True))
    return mt.linalg.vector_norm(x.index_select(0, first) - x.index_select(0, second), p, -1)


@numeric("renorm")
def renorm(x: Any, p: Any, dim: int, maxnorm: Any) -> Any:
    others = [d for d in range(x.dim()) if d != dim % x.dim()]
    length = mt.linalg.vector_norm(x, p, others, True)
    return x * mt.where(length > maxnorm, maxnorm / (length + 1e-7), 1.0)


# Sorting and selection --------------------------------------------------------------------------------------


@decomposition("sort")
def sort(x: Any, dim: int, descending: bool) -> Any:
    return tuple(mt.sort(x, stable=True, dim=dim, descending=descending))


@decomposition("argsort")
def argsort(x: Any, dim: int, descending: bool) -> Any:
    return mt.sort(x, stable=True, dim=dim, descending=descending)[1]


@decomposition("argsort.stable")
def argsort_stable(x: Any, stable: bool, dim: int, descending: bool) -> Any:
    return mt.sort(x, stable=True, dim=dim, descending=descending)[1]


@decomposition("msort")
def msort(x: Any) -> Any:
    return mt.sort(x, stable=True, dim=0)[0]


@decomposition("topk")
def topk(x: Any, k: int, dim: int, largest: bool, ordered: bool) -> Any:
    values, places = mt.sort(x, stable=True, dim=dim, descending=largest)
    return (values, places) if not x.dim() else (values.narrow(dim, 0, k), places.narrow(dim, 0, k))


@decomposition("kthvalue")
def kthvalue(x: Any, k: int, dim: int, keepdim: bool) -> Any:
    values, places = mt.sort(x, stable=True, dim=dim)
    if not x.dim():
        return values, places
    found = values.narrow(dim, k - 1, 1), places.narrow(dim, k - 1, 1)
    return found if keepdim else tuple(item.squeeze(dim) for item in found)


@decomposition("cross")
def cross(a: Any, b: Any, dim: Any) -> Any:
    if dim is None:
        shape = mt.broadcast_tensors(a, b)[0].shape
        dim = next((d for d, size in enumerate(shape) if size == 3), -1)
    return mt.linalg.cross(a, b, dim=dim)


@numeric("linalg.cross", complex=True)
def linalg_cross(a: Any, b: Any, dim: int) -> Any:
    a, b = mt.broadcast_tensors(a, b)
    return a.roll(-1, dim) * b.roll(-2, dim) - a.roll(-2, dim) * b.roll(-1, dim)


@decomposition("trace")
def trace(x: Any) -> Any:
    return x.diagonal().sum()
