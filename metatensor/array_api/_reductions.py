"""Reductions, cumulative sums and products, searches and sorting."""

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
    """Return ``op(x, axes, keepdim)`` for one axis, several, all (None) or none (an empty tuple)."""
    places = places_of(axis, x.ndim)
    if not places:  # `op` would take () as all axes, so reduce an additional axis of size 1
        return op(x.unsqueeze(-1), (x.ndim,), False)
    return op(x, places, keepdims)


def _each(op: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that reduces several axes by calling `op`, which reduces one axis."""

    def over(x: Any, places: tuple[int, ...], keepdims: bool) -> Any:
        for place in sorted(places, reverse=True):  # descending, so that the remaining axes keep their indices
            x = op(x, place, keepdims)
        return x

    return over


def all(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Return whether all elements are nonzero, over one axis, several axes, or all (None)."""
    return _over(_each(lambda x, dim, keep: mt.all(x, dim, keep)), array(x) != 0, axis, keepdims)


def any(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Return whether at least one element is nonzero, over one axis, several axes, or all (None)."""
    return _over(_each(lambda x, dim, keep: mt.any(x, dim, keep)), array(x) != 0, axis, keepdims)


def count_nonzero(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the number of nonzero elements, as int64, over one axis, several axes, or all (None)."""
    return _over(lambda x, dims, keep: mt.sum(x, dims, keep, dtype=mt.int64), array(x) != 0, axis, keepdims)


def max(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the maximum over one axis, several axes, or all (None). It is NaN if an element is NaN."""
    return _over(mt.amax, array(x), axis, keepdims)


def min(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the minimum over one axis, several axes, or all (None). It is NaN if an element is NaN."""
    return _over(mt.amin, array(x), axis, keepdims)


def mean(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the mean over one axis, several axes, or all (None).

    The result has the dtype of `x`, or the default dtype if `x` holds integers or bools.
    """
    return _over(mt.mean, floating(x), axis, keepdims)


def sum(x: Any, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """Return the sum over one axis, several axes, or all (None).

    Parameters
    ----------
    x : Tensor
    axis : int or tuple of int, optional
        Default: all axes.
    dtype : dtype, optional
        Dtype of the sum. Default: uint64 for unsigned integers, int64 for signed integers and bools, else that of `x`.
    keepdims : bool
        If True, reduced axes remain with size 1. Default: False.
    """
    chosen = sum_dtype(array(x), dtype)
    return _over(lambda x, dims, keep: mt.sum(x, dims, keep, dtype=chosen), x, axis, keepdims)


def prod(x: Any, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """Return the product over one axis, several axes, or all (None).

    Parameters
    ----------
    x : Tensor
    axis : int or tuple of int, optional
        Default: all axes.
    dtype : dtype, optional
        Dtype of the product. Default: uint64 for unsigned integers, int64 for signed integers and bools, else that of
        `x`.
    keepdims : bool
        If True, reduced axes remain with size 1. Default: False.
    """
    chosen = sum_dtype(array(x), dtype)
    return _over(_each(lambda x, dim, keep: mt.prod(x, dim, keep, dtype=chosen)), x, axis, keepdims)


def std(x: Any, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    """Return the standard deviation over one axis, several axes, or all (None).

    It is the square root of `var` with the same arguments.
    """
    return _over(lambda x, dims, keep: mt.std(x, dims, correction=correction, keepdim=keep), floating(x), axis, keepdims)


def var(x: Any, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    """Return the variance over one axis, several axes, or all (None).

    The sum of squared deviations from the mean is divided by N - `correction`, where N is the number of elements.
    Integers and bools are converted to the default dtype.
    """
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
    """Return the cumulative sum along `axis`.

    Parameters
    ----------
    x : Tensor
    axis : int, optional
        Required if `x` has two or more dimensions.
    dtype : dtype, optional
        Default: as in `sum`.
    include_initial : bool
        If True, a 0 precedes the sums, so that the axis has one more element. Default: False.

    Raises
    ------
    ValueError
        If `axis` is missing.
    """
    return _cumulative(mt.cumsum, array(x), axis, dtype, 0 if include_initial else None)


def cumulative_prod(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Any:
    """Return the cumulative product along `axis`.

    Parameters
    ----------
    x : Tensor
    axis : int, optional
        Required if `x` has two or more dimensions.
    dtype : dtype, optional
        Default: as in `prod`.
    include_initial : bool
        If True, a 1 precedes the products, so that the axis has one more element. Default: False.

    Raises
    ------
    ValueError
        If `axis` is missing.
    """
    return _cumulative(mt.cumprod, array(x), axis, dtype, 1 if include_initial else None)


def diff(x: Any, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Any:
    """Return the `n`-th difference of neighbouring elements along `axis`.

    The tensors `prepend` and `append` are joined to the start and end of `x` first.
    """
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
    """Return the index of the maximum along `axis`, or in the flattened tensor (None).

    If several elements are equal, it is the index of the first.
    """
    return _arg(mt.argmax, x, axis, keepdims)


def argmin(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
    """Return the index of the minimum along `axis`, or in the flattened tensor (None).

    If several elements are equal, it is the index of the first.
    """
    return _arg(mt.argmin, x, axis, keepdims)


def argsort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """Return the int64 indices that sort `x` along `axis`. If `stable`, equal elements keep their order."""
    return mt.sort(array(x), dim=place_of(axis, x.ndim), descending=descending, stable=stable)[1]


def sort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """Return the elements of `x` sorted along `axis`. If `stable`, equal elements keep their order."""
    return mt.sort(array(x), dim=place_of(axis, x.ndim), descending=descending, stable=stable)[0]


def nonzero(x: Any, /) -> tuple[Any, ...]:
    """Return the indices of the nonzero elements in row-major order, as one int64 vector for each axis.

    Raises
    ------
    ValueError
        If `x` has no dimensions.
    DataDependentError
        On meta, because the number of elements depends on values.
    """
    if array(x).ndim == 0:
        raise ValueError("nonzero: a tensor without dimensions has no indices")
    return tuple(mt.nonzero(x, as_tuple=True))


def searchsorted(x1: Any, x2: Any, /, *, side: Any = "left", sorter: Any = None) -> Any:
    """Return the indices at which the elements of `x2` would be inserted into the sorted vector `x1`.

    Parameters
    ----------
    x1 : Tensor
        Vector, sorted in ascending order unless `sorter` is given.
    x2 : Tensor or number
    side : {"left", "right"}
        Whether an element goes before or after the elements equal to it.
    sorter : Tensor, optional
        Indices that sort `x1`.

    Returns
    -------
    Tensor
        int64, of the shape of `x2`.

    Raises
    ------
    ValueError
        If `side` is unknown or `x1` is not a vector.
    """
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: side must be 'left' or 'right', got {side!r}")
    if array(x1, "x1").ndim != 1:
        raise ValueError(f"searchsorted: x1 must be a vector, got shape {list(x1.shape)}")
    a, v = pair(x1, x2)
    return mt.searchsorted(a, v, side=side, sorter=None if sorter is None else sorter.to(mt.int64))


def where(condition: Any, x1: Any, x2: Any, /) -> Any:
    """Return elements of `x1` where `condition` is true, else of `x2`. One of the two may be a Python number."""
    return mt.where(array(condition, "condition").to(mt.bool), *pair(x1, x2))
