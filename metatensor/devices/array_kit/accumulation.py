"""Scatter-reduction: combine many values into fewer elements, where several values may belong to the same element.

NumPy's ``ufunc.at`` does this for all operations and dtypes. CuPy's version covers only what the GPU does atomically:
sums of some dtypes, and minimum and maximum, but these ignore NaN. All other cases use a segmented scan: sort the
values by target element and combine them in log2(n) steps. The scan is deterministic.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["accumulate_at", "by_segments", "tally"]

_ATOMIC = frozenset(np.dtype(code) for code in ("i4", "u4", "u8", "f4", "f8"))
_INT64 = np.dtype("i8")


def accumulate_at(xp: Any, name: str, out: Any, key: Any, values: Any) -> None:
    """Compute ``out[key] = ufunc(out[key], values)``, applying all values if ``key`` repeats an element.

    `name` is the name of an associative and commutative ufunc.
    """
    if xp is np:
        getattr(np, name).at(out, key, values)
    elif name == "add" and out.dtype in _ATOMIC:
        xp.add.at(out, key, values)
    elif name == "add" and out.dtype == _INT64:
        # Two's-complement addition: the bits are the same as for int64.
        values = values.astype(_INT64).view("u8") if isinstance(values, xp.ndarray) else np.int64(values).astype("u8")
        xp.add.at(out.view("u8"), key, values)
    else:
        by_segments(xp, getattr(xp, name), out, key, values)


def by_segments(xp: Any, combine: Any, out: Any, key: Any, values: Any) -> None:
    """Do what `accumulate_at` does, by sorting. ``combine`` is any associative, commutative function of two arrays."""
    places = xp.arange(out.size).reshape(out.shape)[key]
    if not places.size:
        return
    values = xp.broadcast_to(xp.asarray(values, dtype=out.dtype), places.shape).reshape(-1)
    order = xp.argsort(places.reshape(-1), kind="stable")
    places, values = places.reshape(-1)[order], values[order]
    # Each step doubles the number of preceding values for the same target that an element may combine.
    step = 1
    while step < places.size:
        same = places[step:] == places[:-step]
        if not same.any():
            break
        both = xp.where(same, combine(values[:-step], values[step:]), values[step:])
        values = xp.concatenate([values[:step], both])
        step *= 2
    last = xp.ones(places.shape, np.bool_)
    last[:-1] = places[1:] != places[:-1]
    places, values = places[last], values[last]
    flat = out.reshape(-1)
    flat[places] = combine(flat[places], values)
    if not out.flags.c_contiguous:
        out[...] = flat.reshape(out.shape)


def tally(xp: Any, places: Any, weights: Any, length: int) -> Any:
    """Return ``bincount`` with at least ``length`` bins. Unlike CuPy's function, this one accepts empty arrays."""
    if not places.size:
        return xp.zeros(length, np.int64 if weights is None else np.float64)
    return xp.bincount(places, weights, minlength=length)
