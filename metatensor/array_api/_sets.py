"""Distinct elements of tensors. Output shapes depend on values, so every function raises DataDependentError on meta."""

from __future__ import annotations

from typing import Any, NamedTuple

import metatensor as mt
from metatensor.array_api._dtypes import array

__all__ = ["unique_all", "unique_counts", "unique_inverse", "unique_values"]


class unique_all_result(NamedTuple):
    """Result of `unique_all`."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class unique_counts_result(NamedTuple):
    """Result of `unique_counts`."""

    values: Any
    counts: Any


class unique_inverse_result(NamedTuple):
    """Result of `unique_inverse`."""

    values: Any
    inverse_indices: Any


def unique_all(x: Any, /) -> unique_all_result:
    """Return the distinct elements of `x` with their positions and counts.

    Every NaN is distinct from all others. 0.0 and -0.0 are equal.

    Returns
    -------
    values : Tensor
        Distinct elements, as a vector.
    indices : Tensor
        Index of the first occurrence of each value in the flattened `x`.
    inverse_indices : Tensor
        Index of each element in `values`, with the shape of `x`.
    counts : Tensor
        Number of occurrences of each value.
    """
    values, inverse, counts = mt.unique(array(x), return_inverse=True, return_counts=True)
    # A stable sort groups equal elements by first occurrence. A group starts where the counts before it end.
    order = mt.sort(inverse.flatten(), stable=True)[1]
    return unique_all_result(values, order[mt.cumsum(counts, 0) - counts], inverse, counts)


def unique_counts(x: Any, /) -> unique_counts_result:
    """Return the distinct elements of `x` and the number of occurrences of each."""
    return unique_counts_result(*mt.unique(array(x), return_counts=True))


def unique_inverse(x: Any, /) -> unique_inverse_result:
    """Return the distinct elements of `x`, and the index among them of each element of `x`."""
    return unique_inverse_result(*mt.unique(array(x), return_inverse=True))


def unique_values(x: Any, /) -> Any:
    """Return the distinct elements of `x`, as a vector."""
    return mt.unique(array(x))
