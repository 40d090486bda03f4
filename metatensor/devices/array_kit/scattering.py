"""Kernels that write elements by index arrays and masks. A reduction combines all values written to one element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from metatensor.devices.array_kit.accumulation import accumulate_at
from metatensor.devices.array_kit.factory import fit
from metatensor.devices.array_kit.gathering import check, check_key, names_nothing, place
from metatensor.devices.array_kit.registry import kernel


def begin(kit: Any, out: Any, input: Any) -> None:
    """Copy the input to ``out``, unless both are the same memory because the operation is in place."""
    same = kit.xp.may_share_memory(out, input) and out.shape == input.shape and out.strides == input.strides
    if not same:
        out[...] = input


def grid(kit: Any, index: Any, dim: int) -> tuple[Any, ...]:
    """Return a key with one element for each position in ``index``.

    The element's coordinate along ``dim`` is the value of ``index``. The others are those of the position.
    """
    dim %= index.ndim
    return tuple(
        [
            index if i == dim else kit.xp.arange(size).reshape([-1 if k == i else 1 for k in range(index.ndim)])
            for i, size in enumerate(index.shape)
        ]
    )


def flat_grid(kit: Any, index: Any, dim: int, shape: tuple[int, ...]) -> Any:
    """Return `grid` as a vector of positions in a contiguous array of the given shape."""
    dim %= index.ndim
    units = [math.prod(shape[i + 1 :]) for i in range(index.ndim)]
    start = kit.xp.zeros((), np.int64)
    for i, coordinates in enumerate(grid(kit, index, dim)):
        if i != dim:
            start = start + coordinates * units[i]
    return (index * np.int64(units[dim]) + start).reshape(-1)


def along(ndim: int, dim: int, index: Any) -> tuple[Any, ...]:
    """Return the key that selects slices along ``dim`` by a vector of indices."""
    return (slice(None),) * (dim % ndim) + (index.reshape(-1),)


def vectors(*arrays: Any) -> list[Any]:
    """Return the arrays with 0-d arrays replaced by views of shape (1,)."""
    return [array.reshape((1,)) if array.ndim == 0 else array for array in arrays]


IDENTITY = {"sum": 0, "mean": 0, "prod": 1}
UFUNCS = {"sum": "add", "mean": "add", "prod": "multiply", "amax": "maximum", "amin": "minimum"}


def extreme(dtype: Any, reduce: str) -> Any:
    """Return the result of amax or amin over no elements."""
    if dtype.kind == "b":
        return reduce == "amin"
    if dtype.kind == "f":
        return -np.inf if reduce == "amax" else np.inf
    limits = np.iinfo(dtype)
    return limits.min if reduce == "amax" else limits.max


def reduce_at(kit: Any, out: Any, key: Any, values: Any, reduce: str, include_self: bool = True) -> None:
    """Reduce ``values`` into ``out[key]``. The present contents are included only if ``include_self`` is true."""
    xp = kit.xp
    if not include_self:
        out[key] = IDENTITY[reduce] if reduce in IDENTITY else extreme(out.dtype, reduce)
    accumulate_at(xp, UFUNCS[reduce], out, key, values)
    if reduce == "mean":
        counts = xp.full(out.shape, 1 if include_self else 0, "i8")
        accumulate_at(xp, "add", counts, key, 1)
        counts = xp.maximum(counts, 1)
        out[...] = xp.floor_divide(out, counts) if out.dtype.kind in "iu" else out / counts


def scatter(kit: Any, out: Any, input: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool = True) -> None:
    """Implement the scatter family. ``reduce`` is "set" or a reduction. ``src`` is an array or a number."""
    begin(kit, out, input)
    if not index.size:
        return
    out, index = vectors(out, index)
    check(index, out.shape[dim], "scatter", RuntimeError)
    if isinstance(src, (kit.xp.ndarray, np.generic)):
        (src,) = vectors(src)
        values = src[tuple([slice(size) for size in index.shape])]
    else:
        values = kit.xp.asarray(fit(out.dtype, src)).astype(out.dtype)
    if reduce == "set":
        out[grid(kit, index, dim)] = values
    elif out.flags.c_contiguous:
        # With a single vector of indices, NumPy takes a tenth of the time.
        values = kit.xp.broadcast_to(values, index.shape).reshape(-1)
        reduce_at(kit, out.reshape(-1), flat_grid(kit, index, dim, out.shape), values, reduce, include_self)
    else:
        reduce_at(kit, out, grid(kit, index, dim), values, reduce, include_self)


@kernel("scatter", "scatter.value")
def scatter_set(kit: Any, out: Any, input: Any, dim: int, index: Any, src: Any) -> None:
    scatter(kit, out, input, dim, index, src, "set")


@kernel("scatter.reduce", "scatter.value_reduce")
def scatter_mode(kit: Any, out: Any, input: Any, dim: int, index: Any, src: Any, reduce: str) -> None:
    scatter(kit, out, input, dim, index, src, "sum" if reduce == "add" else "prod")


@kernel("scatter_add")
def scatter_add(kit: Any, out: Any, input: Any, dim: int, index: Any, src: Any) -> None:
    scatter(kit, out, input, dim, index, src, "sum")


@kernel("scatter_reduce")
def scatter_reduce(kit: Any, out: Any, input: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool) -> None:
    scatter(kit, out, input, dim, index, src, reduce, include_self)


@kernel("index_add")
def index_add(kit: Any, out: Any, input: Any, dim: int, index: Any, source: Any, alpha: Any) -> None:
    begin(kit, out, input)
    out, source = vectors(out, source)
    check(index, out.shape[dim], "index_add")
    if alpha != 1:
        source = source * kit.xp.asarray(fit(out.dtype, alpha)).astype(out.dtype)
    accumulate_at(kit.xp, "add", out, along(out.ndim, dim, index), source)


@kernel("index_copy")
def index_copy(kit: Any, out: Any, input: Any, dim: int, index: Any, source: Any) -> None:
    begin(kit, out, input)
    out, source = vectors(out, source)
    check(index, out.shape[dim], "index_copy")
    out[along(out.ndim, dim, index)] = source


@kernel("index_reduce")
def index_reduce(kit: Any, out: Any, input: Any, dim: int, index: Any, source: Any, reduce: str, include_self: bool) -> None:
    begin(kit, out, input)
    out, source = vectors(out, source)
    check(index, out.shape[dim], "index_reduce")
    reduce_at(kit, out, along(out.ndim, dim, index), source, reduce, include_self)


@kernel("index_fill")
def index_fill(kit: Any, out: Any, input: Any, dim: int, index: Any, value: Any) -> None:
    begin(kit, out, input)
    (out,) = vectors(out)
    if not isinstance(value, (kit.xp.ndarray, np.generic)):
        value = fit(out.dtype, value)
    out[along(out.ndim, dim, index)] = value


@kernel("put")
def put(kit: Any, out: Any, input: Any, index: Any, source: Any, accumulate: bool) -> None:
    begin(kit, out, input)
    if not index.size:
        return
    total = out.size
    if int(index.min()) < -total or int(index.max()) >= total:
        raise IndexError(f"put(): an index is out of bounds for {total} elements")
    (flat,) = vectors(out)
    key = kit.xp.unravel_index(index.reshape(-1) % total, flat.shape)
    if accumulate:
        accumulate_at(kit.xp, "add", flat, key, source.reshape(-1))
    else:
        flat[key] = source.reshape(-1)


@kernel("masked_scatter")
def masked_scatter(kit: Any, out: Any, input: Any, mask: Any, source: Any) -> None:
    begin(kit, out, kit.xp.broadcast_to(input, out.shape))
    mask = kit.xp.broadcast_to(mask, out.shape)
    count = int(kit.xp.count_nonzero(mask))
    if count > source.size:
        raise RuntimeError(f"masked_scatter(): the mask has {count} true elements, but the source has only {source.size}")
    out[mask] = source.reshape(-1)[:count]


@kernel("_index_put_", half="native")
def index_put(kit: Any, out: Any, input: Any, indices: Any, dims: Any, values: Any) -> None:
    key = place(out.ndim, indices, dims)
    try:
        check_key(kit, key, out.shape)
        out[key] = values
    except IndexError:
        if out.size or not names_nothing(key, out.shape):
            raise
    except ValueError:  # possible only with masks: all other shapes have been checked
        raise RuntimeError(
            f"index_put_(): values of shape {values.shape} do not broadcast to the indexed part, of shape {out[key].shape}"
        ) from None


@kernel("_index_put_accumulate_")
def index_put_accumulate(kit: Any, out: Any, input: Any, indices: Any, dims: Any, values: Any) -> None:
    begin(kit, out, input)
    key = place(out.ndim, indices, dims)
    check_key(kit, key, out.shape)
    try:
        accumulate_at(kit.xp, "add", out, key, values)
    except ValueError:  # as in _index_put_
        raise RuntimeError(
            f"index_put_(): values of shape {values.shape} do not broadcast to the indexed part, of shape {out[key].shape}"
        ) from None
