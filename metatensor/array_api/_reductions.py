"""One value of many: statistics, searches, truth; and running sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import metatensor as mt
from metatensor.array_api._dtypes import array, floating, pair, sum_dtype
from metatensor.array_api._manipulation import concat, place_of, places_of

__all__ = [
    "all", "any", "argmax", "argmin", "argsort", "count_nonzero", "cumulative_prod", "cumulative_sum", "diff", "max", "mean",
    "min", "nonzero", "prod", "searchsorted", "sort", "std", "sum", "var", "where",
]  # fmt: skip


def _over(op: Callable[..., Any], x: Any, axis: Any, keepdims: bool) -> Any:
    """``op(x, axes, keepdim)`` over one axis, several, all (None) or none (an empty tuple)."""
    places = places_of(axis, x.ndim)
    if not places:  # PyTorch-like ops take no axes for all of them: an axis of one element stands in
        return op(x.unsqueeze(-1), (x.ndim,), False)
    return op(x, places, keepdims)


def _each(op: Callable[..., Any]) -> Callable[..., Any]:
    """An op of one axis, over several: the last first, so that the others keep their places."""

    def over(x: Any, places: tuple[int, ...], keepdims: bool) -> Any:
        for place in sorted(places, reverse=True):
            x = op(x, place, keepdims)
        return x

    return over


def all(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Whether all elements are true: not zero."""
    return _over(_each(lambda x, dim, keep: mt.all(x, dim, keep)), array(x) != 0, axis, keepdims)


def any(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Whether an element is true: not zero."""
    return _over(_each(lambda x, dim, keep: mt.any(x, dim, keep)), array(x) != 0, axis, keepdims)


def count_nonzero(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """How many elements are not zero."""
    return _over(lambda x, dims, keep: mt.sum(x, dims, keep, dtype=mt.int64), array(x) != 0, axis, keepdims)


def max(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """The greatest element; NaN where there is one."""
    return _over(mt.amax, array(x), axis, keepdims)


def min(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """The smallest element; NaN where there is one."""
    return _over(mt.amin, array(x), axis, keepdims)


def mean(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """The mean, of the dtype of `x`; of whole numbers in the default dtype."""
    return _over(mt.mean, floating(x), axis, keepdims)


def sum(x: Any, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """The sum, of the dtype of `x` or, for smaller whole numbers and truth values, 64 bits."""
    chosen = sum_dtype(array(x), dtype)
    return _over(lambda x, dims, keep: mt.sum(x, dims, keep, dtype=chosen), x, axis, keepdims)


def prod(x: Any, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """The product, of the dtype of `x` or, for smaller whole numbers and truth values, 64 bits."""
    chosen = sum_dtype(array(x), dtype)
    return _over(_each(lambda x, dim, keep: mt.prod(x, dim, keep, dtype=chosen)), x, axis, keepdims)


def std(x: Any, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    """The standard deviation; squares are summed and divided by N - `correction`."""
    return _over(lambda x, dims, keep: mt.std(x, dims, correction=correction, keepdim=keep), floating(x), axis, keepdims)


def var(x: Any, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    """The variance; squares are summed and divided by N - `correction`."""
    return _over(lambda x, dims, keep: mt.var(x, dims, correction=correction, keepdim=keep), floating(x), axis, keepdims)


def _cumulative(op: Any, x: Any, axis: int | None, dtype: Any, initial: int | None) -> Any:
    if axis is None:
        if array(x).ndim > 1:
            raise ValueError(f"{op.name}: axis is needed for a tensor of shape {list(x.shape)}")
        axis = 0
    x = x if x.ndim else x.unsqueeze(0)
    place, dtype = place_of(axis, x.ndim), sum_dtype(x, dtype)
    out = op(x, place, dtype=dtype)
    if initial is None:
        return out
    first = x.new_full([*x.shape[:place], 1, *x.shape[place + 1 :]], initial, dtype=dtype)
    return mt.cat([first, out], place)


def cumulative_sum(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Any:
    """Running sums, after a 0 where `include_initial` is true. ValueError without an axis unless `x` is a vector."""
    return _cumulative(mt.cumsum, array(x), axis, dtype, 0 if include_initial else None)


def cumulative_prod(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Any:
    """Running products, after a 1 where `include_initial` is true. ValueError without an axis unless `x` is a vector."""
    return _cumulative(mt.cumprod, array(x), axis, dtype, 1 if include_initial else None)


def diff(x: Any, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Any:
    """Differences of neighbours along `axis`, `n` times, of `x` with other tensors before and after it."""
    place = place_of(axis, array(x).ndim)
    parts = [part for part in (prepend, x, append) if part is not None]
    if len(parts) > 1:
        x = concat(parts, axis=place)
    return mt.diff(x, n=n, dim=place) if n else x.clone()


def _arg(op: Callable[..., Any], x: Any, axis: int | None, keepdims: bool) -> Any:
    x = x.to(mt.uint8) if array(x).dtype is mt.bool else x
    if axis is not None:
        return op(x, place_of(axis, x.ndim), keepdims)
    found = op(x.flatten())
    return found.reshape((1,) * x.ndim) if keepdims else found


def argmax(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
    """Where the greatest element is, the first of them: along an axis, or in the flattened tensor."""
    return _arg(mt.argmax, x, axis, keepdims)


def argmin(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
    """Where the smallest element is, the first of them: along an axis, or in the flattened tensor."""
    return _arg(mt.argmin, x, axis, keepdims)


def argsort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """The indices that sort `x` along `axis`; equal elements stay in order where `stable` is true."""
    return mt.sort(array(x), dim=place_of(axis, x.ndim), descending=descending, stable=stable)[1]


def sort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """The elements in order along `axis`; equal ones stay in theirs where `stable` is true."""
    return mt.sort(array(x), dim=place_of(axis, x.ndim), descending=descending, stable=stable)[0]


def nonzero(x: Any, /) -> tuple[Any, ...]:
    """Where the elements are that are not zero: indices along each axis, in row-major order.

    ValueError for a tensor without dimensions, DataDependentError on meta.
    """
    if array(x).ndim == 0:
        raise ValueError("nonzero: a tensor without dimensions has no indices")
    return tuple(mt.nonzero(x, as_tuple=True))


def searchsorted(x1: Any, x2: Any, /, *, side: Any = "left", sorter: Any = None) -> Any:
    """Where the elements of `x2` go into the sorted vector `x1`: before its equals, or with side 'right' behind them.

    `sorter` holds the indices that sort `x1` where it is not sorted.
    """
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: side must be 'left' or 'right', got {side!r}")
    if array(x1, "x1").ndim != 1:
        raise ValueError(f"searchsorted: x1 must be a vector, got shape {list(x1.shape)}")
    a, v = pair(x1, x2)
    return mt.searchsorted(a, v, side=side, sorter=None if sorter is None else sorter.to(mt.int64))


def where(condition: Any, x1: Any, x2: Any, /) -> Any:
    """Elements of `x1` where `condition` is true, else of `x2`; one of the two may be a Python number."""
    return mt.where(array(condition, "condition").to(mt.bool), *pair(x1, x2))
