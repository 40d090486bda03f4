"""How results of parts are joined, as functions of NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

__all__ = ["JOINS", "ALIKE", "REDUCTIONS", "equal", "reduced"]

Pieces = Sequence[np.ndarray]


def _all_alike(pieces: Pieces, units: Sequence[int]) -> Any:
    first = pieces[0]
    return first if all(equal(piece, first) for piece in pieces[1:]) else None


def _weighted_mean(pieces: Pieces, units: Sequence[int]) -> Any:
    if first_is_not_float(pieces) or any(piece.shape != pieces[0].shape for piece in pieces):
        return None
    return sum(piece * count for piece, count in zip(pieces, units, strict=True) if count) / sum(units)


def first_is_not_float(pieces: Pieces) -> bool:
    """Return True if the values are neither floating-point nor complex."""
    return pieces[0].dtype.kind not in "fc"


# In order of preference, if several give the whole. "same" means that every part has the whole result.
JOINS: dict[str, Callable[[Pieces, Sequence[int]], Any]] = {
    "same": _all_alike,
    "sum": lambda pieces, units: reduced("sum", pieces),
    "mean": _weighted_mean,
    "max": lambda pieces, units: reduced("max", pieces),
    "min": lambda pieces, units: reduced("min", pieces),
    "product": lambda pieces, units: reduced("product", pieces),
}

# The reductions of `Partial`.
REDUCTIONS = ("sum", "avg", "max", "min", "product")
# The reductions of a result that a reduction of arguments may become. Others would fit only by chance, or, as a product of
# exponentials, overflow.
ALIKE = {"sum": ("sum",), "avg": ("avg",), "max": ("max", "min"), "min": ("min", "max"), "product": ("product",)}


def reduced(reduction: str, pieces: Pieces) -> Any:
    """Reduce arrays of equal shape. Return None if their shapes differ, or if the dtype has no such reduction.

    The sum of booleans is True where any is, the product where all are.
    """
    if any(piece.shape != pieces[0].shape for piece in pieces):
        return None
    kind = pieces[0].dtype.kind
    if kind == "c" and reduction in ("max", "min"):
        return None
    if reduction == "sum":
        return reduce(np.add, pieces)
    if reduction == "avg":
        return reduce(np.add, pieces) / len(pieces) if kind in "fc" else None
    if reduction == "product":
        return reduce(np.multiply, pieces)
    return reduce(np.maximum if reduction == "max" else np.minimum, pieces)


def equal(got: Any, expected: np.ndarray) -> bool:
    """Return True if two arrays have the same shape and kind and equal values within rounding. NaN equals NaN."""
    if got is None or got.shape != expected.shape or got.dtype.kind != expected.dtype.kind:
        return False
    if got.tobytes() == expected.tobytes():
        return True
    if expected.dtype.kind not in "fc":
        return False
    relative, absolute = (1e-8, 1e-10) if expected.dtype.itemsize >= 8 and expected.dtype.name != "complex64" else (2e-4, 2e-5)
    with np.errstate(all="ignore"):
        wrong = np.abs(got - expected) > absolute + relative * np.abs(expected)
        same = (got == expected) | ((got != got) & (expected != expected))
        return bool((same | (~wrong & np.isfinite(got) & np.isfinite(expected))).all())
