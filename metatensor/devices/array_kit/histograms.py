"""Kernels of histograms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from metatensor.devices.array_kit.accumulation import tally
from metatensor.devices.array_kit.ranges import spaced
from metatensor.devices.array_kit.registry import kernel


def ends(kit: Any, values: Any, low: float, high: float, widen: float) -> tuple[float, float]:
    """Return the range of the bins, widened if it is a single point. Raise RuntimeError if it is not finite."""
    if low == high:
        low, high = low - widen, high + widen
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"the range from {low} to {high} is not finite")
    return low, high


def extremes(values: Any) -> tuple[float, float]:
    return float(values.min()), float(values.max())


@kernel("histc")
def histc(kit: Any, out: Any, input: Any, bins: int, low: Any, high: Any) -> Any:
    xp = kit.xp
    values = input.reshape(-1) if input.dtype.kind == "f" else input.reshape(-1).astype("f8")
    if low == high and values.size:
        low, high = extremes(values)
    low, high = (values.dtype.type(end) for end in ends(kit, values, low, high, 1))
    values = values[(values >= low) & (values <= high)]
    place = ((values - low) * values.dtype.type(bins) / (high - low)).astype(np.int64)
    return tally(xp, xp.minimum(place, bins - 1), None, bins)


# Between edges ------------------------------------------------------------------------


def edges_of(kit: Any, dtype: Any, values: Any, bins: int, range: Any) -> Any:
    """Return the edges of bins of equal width over ``range``, by default over all values."""
    if range is None:
        range = extremes(values) if values.size else (0.0, 1.0)
    low, high = range
    return spaced(kit, dtype, *ends(kit, values, low, high, 0.5), bins + 1)


def place(xp: Any, values: Any, edges: Any) -> tuple[Any, Any]:
    """Return the bin of each value, and a mask of the values within the edges. The last bin includes its upper edge."""
    inside = (values >= edges[0]) & (values <= edges[-1])
    return xp.clip(xp.searchsorted(edges, values, side="right") - 1, 0, edges.size - 2), inside


def counts(kit: Any, out: Any, columns: list[Any], edges: list[Any], weight: Any, density: bool) -> Any:
    """Return counts of points, or sums of their weights, in the shape of ``out``. ``columns`` holds the coordinates."""
    xp = kit.xp
    index: Any = 0
    inside: Any = True
    for values, limits in zip(columns, edges, strict=True):
        found, within = place(xp, values, limits)
        index, inside = index * (limits.size - 1) + found, within & inside
    weight = None if weight is None else weight.reshape(-1)[inside].astype("f8")
    result = tally(xp, index[inside], weight, out.size).reshape(out.shape)
    if not density:
        return result
    result = result / result.sum()
    for axis, limits in enumerate(edges):
        width = limits[1:] - limits[:-1]
        result = result / width.reshape([-1 if i == axis else 1 for i in range(len(edges))])
    return result


@kernel("histogram")
def histogram(kit: Any, out: Any, input: Any, bins: Any, weight: Any, density: bool) -> Any:
    return counts(kit, out[0], [input.reshape(-1)], [bins], weight, density), bins


@kernel("histogram.bin_ct")
def histogram_count(kit: Any, out: Any, input: Any, bins: int, range: Any, weight: Any, density: bool) -> Any:
    edges = edges_of(kit, out[1].dtype, input, bins, range)
    return counts(kit, out[0], [input.reshape(-1)], [edges], weight, density), edges


@kernel("_histogramdd_bin_edges")
def bin_edges(kit: Any, out: Any, input: Any, bins: Any, range: Any, weight: Any, density: bool) -> Any:
    points = input.reshape(-1, input.shape[-1] or 1)
    return [
        edges_of(kit, edges.dtype, points[:, i], edges.size - 1, None if range is None else range[2 * i : 2 * i + 2])
        for i, edges in enumerate(out)
    ]


@kernel("_histogramdd_from_bin_tensors")
def from_edges(kit: Any, out: Any, input: Any, bins: Any, weight: Any, density: bool) -> Any:
    if not bins:
        return kit.xp.full(out.shape, np.nan if density else 0)  # points without coordinates fall into no bin
    points = input.reshape(-1, input.shape[-1])
    return counts(kit, out, [points[:, i] for i in range(len(bins))], bins, weight, density)


# Integers -------------------------------------------------------------------------------


@kernel("bincount")
def bincount(kit: Any, out: Any, input: Any, weights: Any, minlength: int) -> Any:
    xp = kit.xp
    if not input.size:
        return xp.zeros(minlength, np.int64)
    if input.min() < 0:
        raise RuntimeError("bincount(): input must not have negative elements")
    if int(input.max()) == np.iinfo(np.int64).max:
        raise RuntimeError(f"bincount(): the result would need {int(input.max()) + 1} elements, which is too many")
    found = xp.bincount(input.astype(np.int64), weights, minlength=minlength)
    return found.astype(np.int64 if weights is None else weights.dtype)
