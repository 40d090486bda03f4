"""Range checks of hyperparameters. Ranges are written as intervals: "[0, 1)" includes 0 and excludes 1."""

from __future__ import annotations

import functools
from typing import Any

import metatensor as mt

__all__ = ["NON_NEGATIVE", "check_range", "check_scalar"]

NON_NEGATIVE = "[0, inf)"


@functools.cache
def _parsed(interval: str) -> tuple[float, bool, float, bool]:
    """Return the lower bound, whether it is included, the upper bound, and whether that is included."""
    low, high = interval[1:-1].split(",")
    return float(low), interval[0] == "[", float(high), interval[-1] == "]"


def _contains(interval: str, value: float) -> bool:
    low, with_low, high, with_high = _parsed(interval)
    return (low <= value if with_low else low < value) and (value <= high if with_high else value < high)


def check_range(owner: object, name: str, value: Any, interval: str | tuple[str, ...]) -> None:
    """Raise ValueError unless ``value`` lies in ``interval``.

    The elements of a tuple are checked separately, against a single interval or a tuple of intervals. None and tensors
    are not checked, because a tensor may have no data and may change later.
    """
    if isinstance(value, (tuple, list)):
        intervals = interval if isinstance(interval, tuple) else (interval,) * len(value)
        for i, (item, one) in enumerate(zip(value, intervals, strict=True)):
            check_range(owner, f"{name}[{i}]", item, one)
    elif value is not None and not isinstance(value, mt.Tensor) and not _contains(str(interval), value):
        raise ValueError(f"{type(owner).__name__}: {name} must be in {interval}, got {value}")


def check_scalar(owner: object, name: str, value: Any) -> None:
    """Raise ValueError if ``value`` is a tensor that does not have exactly 1 element."""
    if isinstance(value, mt.Tensor) and value.numel() != 1:
        raise ValueError(f"{type(owner).__name__}: {name} must be a number or a tensor of 1 element, got shape {tuple(value.shape)}")
