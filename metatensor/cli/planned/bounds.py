"""Substitutes for results whose sizes depend on values that are not available."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import metatensor as mt
from metatensor._core.errors import DataDependentError
from metatensor._core.nested import map_tensors
from metatensor.cli.planned.values import Values
from metatensor.deferred.known import is_constant

__all__ = ["result", "without_masks"]

MOST_COMPUTED = 1 << 22
"""An operator is computed with substituted arguments only if these have at most this many elements."""


def _integers(*shape: int) -> Any:
    return mt.empty(shape, dtype=mt.int64, device="meta")


def _nonzero(input: Any, as_tuple: bool = False) -> Any:
    count = input.numel()
    if as_tuple:
        return tuple(_integers(count) for _ in range(max(input.dim(), 1)))
    return _integers(count, input.dim())


def _masked_select(input: Any, mask: Any) -> Any:
    shape = mt.broadcast_shapes(tuple(input.shape), tuple(mask.shape))
    return input.expand(shape).reshape(-1)


def _unique(input: Any, return_inverse: bool, return_counts: bool, dim: int | None) -> Any:
    found = input.detach().clone() if dim is not None else input.detach().reshape(-1)
    length = found.shape[dim] if dim is not None else found.shape[0]
    if not (return_inverse or return_counts):
        return found
    results = [found]
    if return_inverse:
        results.append(_integers(length) if dim is not None else _integers(*input.shape))
    if return_counts:
        results.append(_integers(length))
    return tuple(results)


def _all_unique(input: Any, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None) -> Any:
    return _unique(input, return_inverse, return_counts, dim)


def _unique_consecutive(input: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None) -> Any:
    return _unique(input, return_inverse, return_counts, dim)


LARGEST: dict[str, Callable[..., Any]] = {
    "nonzero": _nonzero,
    "where": lambda condition: list(_nonzero(condition, True)),
    "masked_select": _masked_select,
    "unique": _all_unique,
    "unique_consecutive": _unique_consecutive,
}
"""Functions that return the largest possible result, by operator."""


def result(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], values: Values) -> Any:
    """Return a result on meta for an operator whose result depends on values that are not available.

    With the policy "bound", the result has the largest possible size, if that is known. Otherwise the operator is
    computed with substituted arguments, which are filled with the policy's value. DataDependentError is raised if
    these would have more than `MOST_COMPUTED` elements.
    """
    if values.policy == "bound" and op.name in LARGEST:
        return LARGEST[op.name](*args, **kwargs)
    return _computed(op, args, kwargs, values)


def _computed(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], values: Values) -> Any:
    total = 0

    def standing(tensor: mt.Tensor) -> mt.Tensor:
        nonlocal total
        if not tensor.is_meta:
            return tensor
        total += tensor.numel()
        if total > MOST_COMPUTED:
            raise DataDependentError(f"{op.name}(): the result depends on the values of more than {MOST_COMPUTED:,} elements")
        return values.filled(tensor)

    with mt.no_grad():
        return map_tensors(_on_meta, op(*map_tensors(standing, args), **map_tensors(standing, kwargs)))


def _on_meta(tensor: mt.Tensor) -> mt.Tensor:
    return mt.empty_strided(tuple(tensor.shape), tensor.stride(), dtype=tensor.dtype, device="meta")


def without_masks(index: Any, values: Values) -> Any:
    """Return an index in which integer indices replace masks on meta, or ``index`` if it has no such mask."""
    items = index if isinstance(index, tuple) else (index,)
    if not any(_is_mask(item) for item in items):
        return index
    values.requests.count()
    found: list[Any] = []
    for item in items:
        if not _is_mask(item):
            found.append(item)
        elif item.dim() == 0:
            found += [None, _integers(int(values.policy == "bound"))]
        else:
            count = item.numel() if values.policy == "bound" else 0
            found += [_integers(count) for _ in range(item.dim())]
    return tuple(found)


def _is_mask(item: Any) -> bool:
    return isinstance(item, mt.Tensor) and item.is_meta and item.dtype in (mt.bool, mt.uint8) and not is_constant(item)
