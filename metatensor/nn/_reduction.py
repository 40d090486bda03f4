"""Reductions of losses: their names and PyTorch's numbers, and the deprecated bools ``size_average`` and ``reduce``."""

from __future__ import annotations

import warnings

__all__ = ["get_enum", "legacy_get_enum", "legacy_get_string"]

_NUMBERS = {"none": 0, "mean": 1, "elementwise_mean": 1, "sum": 2}


def get_enum(reduction: str) -> int:
    """Return the number of a reduction: 0 for "none", 1 for "mean", 2 for "sum". Raise ValueError for any other."""
    if reduction not in _NUMBERS:
        raise ValueError(f"reduction must be 'none', 'mean' or 'sum', got {reduction!r}")
    if reduction == "elementwise_mean":
        warnings.warn("reduction='elementwise_mean' is called 'mean' now", stacklevel=2)
    return _NUMBERS[reduction]


def legacy_get_string(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> str:
    """Return the reduction that ``size_average`` and ``reduce`` stand for. None means True."""
    found = "none" if reduce is False else "sum" if size_average is False else "mean"
    if emit_warning:
        warnings.warn(f"size_average and reduce are deprecated; use reduction={found!r}", stacklevel=2)
    return found


def legacy_get_enum(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> int:
    """Return the number of the reduction that ``size_average`` and ``reduce`` stand for."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))
