"""Kernels of ranges, identity matrices and index grids."""

from __future__ import annotations

from typing import Any

from metatensor.devices.array_kit.factory import fit
from metatensor.devices.array_kit.registry import kernel


@kernel("arange")
def arange(kit: Any, out: Any, end: Any, *_: Any) -> Any:
    return kit.xp.arange(out.size)


@kernel("arange.start")
def arange_start(kit: Any, out: Any, start: Any, end: Any, step: Any, *_: Any) -> Any:
    if out.dtype.kind in "iu":  # truncate before adding
        start, step = int(start), int(step)
    return kit.xp.arange(out.size) * step + start


@kernel("range")
def closed_range(kit: Any, out: Any, start: Any, end: Any, step: Any, *_: Any) -> Any:
    if out.dtype.kind in "iu":
        start, step = int(start), int(step)
    return kit.xp.arange(out.size) * step + start


def spaced(kit: Any, dtype: Any, start: Any, end: Any, steps: int) -> Any:
    """Return evenly spaced numbers. Each is computed from the nearer end of the range, so that both ends are exact.

    For integer dtypes the ends are truncated first, and the result is float64.
    """
    xp = kit.xp
    start, end = xp.asarray(start).astype(dtype), xp.asarray(end).astype(dtype)
    if dtype.kind in "iu":
        dtype = xp.dtype("f8")
        start, end = start.astype(dtype), end.astype(dtype)
    if steps < 2:
        return xp.broadcast_to(start, (steps,))
    step = (end - start) / dtype.type(steps - 1)
    i = xp.arange(steps)
    return xp.where(i < steps // 2, start + step * i.astype(dtype), end - step * (steps - 1 - i).astype(dtype))


@kernel("linspace")
def linspace(kit: Any, out: Any, start: Any, end: Any, steps: int, *_: Any) -> Any:
    return spaced(kit, out.dtype, start, end, steps)


@kernel("logspace")
def logspace(kit: Any, out: Any, start: Any, end: Any, steps: int, base: float, *_: Any) -> Any:
    exponents = spaced(kit, out.dtype, start, end, steps)
    return kit.xp.power(exponents.dtype.type(base), exponents)


@kernel("eye", "eye.m")
def eye(kit: Any, out: Any, *_: Any) -> Any:
    return kit.xp.eye(*out.shape)


@kernel("tril_indices")
def tril_indices(kit: Any, out: Any, row: int, col: int, offset: int, *_: Any) -> None:
    first = max(0, -offset)
    rows = kit.xp.arange(first, row) if out.size else kit.xp.arange(0)
    _fill_rows(kit.xp, out, rows, 0, kit.xp.minimum(rows + offset + 1, col))


@kernel("triu_indices")
def triu_indices(kit: Any, out: Any, row: int, col: int, offset: int, *_: Any) -> None:
    rows = kit.xp.arange(min(row, col - offset)) if out.size else kit.xp.arange(0)
    _fill_rows(kit.xp, out, rows, kit.xp.maximum(rows + offset, 0), col)


def _fill_rows(xp: Any, out: Any, rows: Any, first: Any, end: Any) -> None:
    """Write the indices (row, column) of the elements in each row from column ``first`` up to ``end``."""
    lengths = xp.broadcast_to(end - first, rows.shape)
    starts = xp.cumsum(lengths) - lengths
    places = xp.arange(out.shape[1])
    found = xp.searchsorted(starts + lengths, places, side="right")
    out[0] = rows[found]
    out[1] = places - (starts - first)[found]


@kernel("scalar_tensor")
def scalar_tensor(kit: Any, out: Any, s: Any, *_: Any) -> None:
    out[...] = fit(out.dtype, s)
