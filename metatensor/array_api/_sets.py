"""The different elements of a tensor. Shapes depend on the data: DataDependentError on meta."""

from __future__ import annotations

from typing import Any, NamedTuple

import metatensor as mt
from metatensor.array_api._dtypes import array

__all__ = ["unique_all", "unique_counts", "unique_inverse", "unique_values"]


class unique_all_result(NamedTuple):
    """What `unique_all` gives."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class unique_counts_result(NamedTuple):
    """What `unique_counts` gives."""

    values: Any
    counts: Any


class unique_inverse_result(NamedTuple):
    """What `unique_inverse` gives."""

    values: Any
    inverse_indices: Any


def unique_all(x: Any, /) -> unique_all_result:
    """The different elements, where each occurs first, which of them each element is, and how often each occurs.

    NaNs are all different; 0.0 and -0.0 are not.
    """
    values, inverse, counts = mt.unique(array(x), return_inverse=True, return_counts=True)
    # Elements by what they are, each in its order: the first of each is where the counts before it end.
    order = mt.sort(inverse.flatten(), stable=True)[1]
    return unique_all_result(values, order[mt.cumsum(counts, 0) - counts], inverse, counts)


def unique_counts(x: Any, /) -> unique_counts_result:
    """The different elements, and how often each occurs."""
    return unique_counts_result(*mt.unique(array(x), return_counts=True))


def unique_inverse(x: Any, /) -> unique_inverse_result:
    """The different elements, and which of them each element is."""
    return unique_inverse_result(*mt.unique(array(x), return_inverse=True))


def unique_values(x: Any, /) -> Any:
    """The different elements."""
    return mt.unique(array(x))
