"""Kernels of sorting and order statistics. NaN is larger than every other value."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from metatensor.devices.array_kit.registry import kernel


def order_of(xp: Any, array: Any, axis: int, descending: bool = False) -> Any:
    """Return the indices that sort along an axis. Equal elements keep their order."""
    if not descending:
        return array.argsort(axis=axis, kind="stable")
    # Reverse before and after sorting, so that equal elements keep their order.
    order = xp.flip(xp.argsort(xp.flip(array, axis), axis=axis, kind="stable"), axis)
    return array.shape[axis] - 1 - order


def _sorted(kit: Any, input: Any, dim: int, descending: bool) -> Any:
    xp = kit.xp
    if not input.ndim:
        return input, xp.zeros((), np.int64)
    order = order_of(xp, input, dim, descending)
    return (input[order] if input.ndim == 1 else xp.take_along_axis(input, order, axis=dim)), order


@kernel("sort")
def sort(kit: Any, out: Any, input: Any, dim: int, descending: bool) -> Any:
    return _sorted(kit, input, dim, descending)


@kernel("sort.stable")
def sort_stable(kit: Any, out: Any, input: Any, stable: bool | None, dim: int, descending: bool) -> Any:
    return _sorted(kit, input, dim, descending)


@kernel("argsort")
def argsort(kit: Any, out: Any, input: Any, dim: int, descending: bool) -> Any:
    return _sorted(kit, input, dim, descending)[1]


@kernel("argsort.stable")
def argsort_stable(kit: Any, out: Any, input: Any, stable: bool, dim: int, descending: bool) -> Any:
    return _sorted(kit, input, dim, descending)[1]


@kernel("msort")
def msort(kit: Any, out: Any, input: Any) -> Any:
    return kit.xp.sort(input, axis=0) if input.ndim else input


@kernel("topk")
def topk(kit: Any, out: Any, input: Any, k: int, dim: int, largest: bool, sorted: bool) -> Any:
    xp = kit.xp
    if not input.ndim:
        return input.reshape(out[0].shape), xp.zeros(out[1].shape, np.int64)
    order = xp.take(order_of(xp, input, dim, descending=largest), xp.arange(k), axis=dim)
    return xp.take_along_axis(input, order, axis=dim), order


# Order statistics -------------------------------------------------------------------


def _pick(kit: Any, out: Any, input: Any, order: Any, place: Any, dim: int) -> Any:
    """Return the elements at ``place`` in the sorted order along ``dim``, and their indices in the input."""
    xp = kit.xp
    indices = xp.take_along_axis(order, place, axis=dim)
    values = xp.take_along_axis(input, indices, axis=dim)
    return values.reshape(out[0].shape), indices.reshape(out[1].shape)


def _places(xp: Any, input: Any, dim: int, value: Any) -> Any:
    shape = list(input.shape)
    shape[dim] = 1
    return xp.broadcast_to(xp.asarray(value, dtype=np.int64), shape)


@kernel("kthvalue")
def kthvalue(kit: Any, out: Any, input: Any, k: int, dim: int, keepdim: bool) -> Any:
    xp = kit.xp
    if not input.ndim:
        return input.reshape(out[0].shape), xp.zeros(out[1].shape, np.int64)
    return _pick(kit, out, input, order_of(xp, input, dim), _places(xp, input, dim, k - 1), dim)


def _median(kit: Any, out: Any, input: Any, dim: int, ignore_nan: bool) -> Any:
    xp = kit.xp
    if not input.ndim:
        return input.reshape(out[0].shape), xp.zeros(out[1].shape, np.int64)
    if not out[0].size:
        return out
    order = order_of(xp, input, dim)
    place = _places(xp, input, dim, (input.shape[dim] - 1) // 2)
    if input.dtype.kind == "f":
        there = xp.sum(~xp.isnan(input), axis=dim, keepdims=True)
        if ignore_nan:
            place = xp.maximum(there - 1, 0) // 2
        else:
            # In the sorted order NaN comes last, so this is the position of the first NaN if there is one.
            place = xp.where(there < input.shape[dim], there, place)
    return _pick(kit, out, input, order, place, dim)


@kernel("median.dim")
def median_dim(kit: Any, out: Any, input: Any, dim: int, keepdim: bool) -> Any:
    return _median(kit, out, input, dim, False)


@kernel("nanmedian.dim")
def nanmedian_dim(kit: Any, out: Any, input: Any, dim: int, keepdim: bool) -> Any:
    return _median(kit, out, input, dim, True)


def _median_of_all(kit: Any, out: Any, input: Any, ignore_nan: bool) -> Any:
    xp = kit.xp
    if not input.size:
        return xp.asarray(np.nan if out.dtype.kind == "f" else np.iinfo(out.dtype).min).astype(out.dtype)
    flat = input.reshape(-1)
    return _median(kit, (out, out), flat, 0, ignore_nan)[0]


@kernel("median")
def median(kit: Any, out: Any, input: Any) -> Any:
    return _median_of_all(kit, out, input, False)


@kernel("nanmedian")
def nanmedian(kit: Any, out: Any, input: Any) -> Any:
    return _median_of_all(kit, out, input, True)


@kernel("mode")
def mode(kit: Any, out: Any, input: Any, dim: int, keepdim: bool) -> Any:
    """Find the longest run in the sorted order. Its last element is the last occurrence in the input."""
    xp = kit.xp
    if not input.ndim:
        return input.reshape(out[0].shape), xp.zeros(out[1].shape, np.int64)
    if not out[0].size:
        return out
    order = xp.moveaxis(order_of(xp, input, dim), dim, -1)
    values = xp.take_along_axis(xp.moveaxis(input, dim, -1), order, axis=-1)
    length = values.shape[-1]
    starts = xp.zeros(values.shape, np.int64)
    for i in range(1, length):
        same = values[..., i] == values[..., i - 1]
        starts[..., i] = xp.where(same, starts[..., i - 1], i)
    runs = xp.arange(length) - starts
    place = xp.argmax(runs, axis=-1)[..., None]
    indices = xp.take_along_axis(order, place, axis=-1)
    picked = xp.take_along_axis(values, place, axis=-1)
    return picked.reshape(out[0].shape), indices.reshape(out[1].shape)


def _quantile(kit: Any, out: Any, input: Any, q: Any, dim: int | None, interpolation: str, ignore_nan: bool) -> Any:
    xp = kit.xp
    several = getattr(q, "ndim", 0) == 1
    rows = input.reshape(-1) if dim is None or not input.ndim else xp.moveaxis(input, dim, -1)
    rows = xp.sort(rows, axis=-1)
    q = xp.asarray(q, dtype=np.float64).reshape(-1)
    if not bool(((q >= 0) & (q <= 1)).all()):  # rejects NaN too
        raise RuntimeError("quantile(): q values must be between 0 and 1")
    there = xp.sum(~xp.isnan(rows), axis=-1, keepdims=True)
    last = xp.maximum(there - 1, 0) if ignore_nan else xp.full_like(there, rows.shape[-1] - 1)
    rank = q * last
    if not ignore_nan:
        rank = xp.where(there < rows.shape[-1], np.float64(rows.shape[-1] - 1), rank)
    below, above = xp.floor(rank).astype(np.int64), xp.ceil(rank).astype(np.int64)
    if interpolation == "nearest":
        below = above = xp.rint(rank).astype(np.int64)
    elif interpolation == "lower":
        above = below
    elif interpolation == "higher":
        below = above
    low, high = xp.take_along_axis(rows, below, axis=-1), xp.take_along_axis(rows, above, axis=-1)
    weight = xp.full_like(rank, 0.5) if interpolation == "midpoint" else rank - below
    # Interpolate from `low` or `high`, whichever is nearer, as `lerp` does.
    gap = high - low
    between = xp.where(weight < 0.5, low + gap * weight, high - gap * (1 - weight))
    result = xp.where(below == above, low, between)
    return xp.moveaxis(result, -1, 0).reshape(out.shape) if several else result.reshape(out.shape)


@kernel("quantile")
def quantile(kit: Any, out: Any, input: Any, q: Any, dim: int | None, keepdim: bool, interpolation: str) -> Any:
    return _quantile(kit, out, input, q, dim, interpolation, False)


@kernel("nanquantile")
def nanquantile(kit: Any, out: Any, input: Any, q: Any, dim: int | None, keepdim: bool, interpolation: str) -> Any:
    return _quantile(kit, out, input, q, dim, interpolation, True)


# Results that depend on values -------------------------------------------------------


def _chosen(values: Any, inverse: Any, counts: Any, return_inverse: bool, return_counts: bool) -> Any:
    results = (values,) + ((inverse,) if return_inverse else ()) + ((counts,) if return_counts else ())
    return results if len(results) > 1 else values


@kernel("unique")
def unique(
    kit: Any, out: Any, input: Any, sorted: bool, return_inverse: bool, return_counts: bool, dim: int | None
) -> Any:
    xp = kit.xp
    if dim is not None and not input.ndim:
        input, dim = input.reshape(1), 0
    if dim is not None and not input.size:
        if input.shape[dim]:
            raise RuntimeError(f"unique(): input of shape {input.shape} has empty slices along dimension {dim}")
        empty = xp.zeros(0, np.int64)
        return _chosen(input, empty, empty, return_inverse, return_counts)
    if dim is not None:
        return _chosen(*_unique_slices(xp, input, dim), return_inverse, return_counts)
    values, inverse, counts = xp.unique(input, return_inverse=True, return_counts=True, equal_nan=False)
    inverse = inverse.reshape(input.shape)
    return _chosen(values, inverse.astype(np.int64), counts.astype(np.int64), return_inverse, return_counts)


def _unique_slices(xp: Any, input: Any, dim: int) -> tuple[Any, Any, Any]:
    """Return the distinct slices along `dim` in lexical order, the inverse indices, and the counts.

    NaN is not equal to itself, so every slice that contains NaN is distinct. NaN sorts last.
    """
    slices = xp.moveaxis(input, dim, 0)
    rows = xp.reshape(slices, (slices.shape[0], math.prod(slices.shape[1:])))
    order = xp.lexsort(rows.T[::-1])
    ordered = rows[order]
    first = xp.ones(len(order), np.bool_)
    first[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    inverse = xp.empty(len(order), np.int64)
    inverse[order] = xp.cumsum(first.astype(np.int64)) - 1
    starts = xp.nonzero(first)[0]
    counts = xp.diff(xp.concatenate([starts, xp.asarray([len(order)])])).astype(np.int64)
    return xp.moveaxis(slices[order[starts]], 0, dim), inverse, counts


@kernel("unique_consecutive")
def unique_consecutive(
    kit: Any, out: Any, input: Any, return_inverse: bool, return_counts: bool, dim: int | None
) -> Any:
    xp = kit.xp
    items = input.reshape(-1) if dim is None or not input.ndim else xp.moveaxis(input, dim, 0)
    first = xp.ones(items.shape[0], np.bool_)
    if items.shape[0] > 1:
        differs = items[1:] != items[:-1]
        first[1:] = differs.reshape(differs.shape[0], -1).any(axis=1)
    starts = xp.nonzero(first)[0]
    values = items[starts]
    inverse = xp.cumsum(first.astype(np.int64)) - 1
    counts = xp.diff(xp.concatenate([starts, xp.asarray([items.shape[0]])])).astype(np.int64)
    if dim is None or not input.ndim:
        inverse = inverse.reshape(input.shape)
    else:
        values = xp.moveaxis(values, 0, dim)
    return _chosen(values, inverse, counts, return_inverse, return_counts)


@kernel("equal")
def equal(kit: Any, out: Any, input: Any, other: Any) -> bool:
    return input.shape == other.shape and bool((input == other).all())


@kernel("allclose")
def allclose(kit: Any, out: Any, input: Any, other: Any, rtol: float, atol: float, equal_nan: bool) -> bool:
    if input.dtype != other.dtype:
        raise RuntimeError(f"allclose(): input and other must have the same dtype, got {input.dtype} and {other.dtype}")
    return bool(kit.xp.isclose(input, other, rtol, atol, equal_nan).all())


@kernel("is_nonzero")
def is_nonzero(kit: Any, out: Any, input: Any) -> bool:
    if input.size != 1:
        raise RuntimeError(f"is_nonzero(): expected a tensor with one element, got {input.size}")
    return bool(input.reshape(())[()] != 0)
