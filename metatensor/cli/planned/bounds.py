"""Substitutes for results whose sizes depend on values that are not available."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor._core.errors import DataDependentError
from metatensor._core.nested import map_tensors
from metatensor.analysis.assumptions import largest
from metatensor.cli.planned.values import Values
from metatensor.deferred.known import is_constant

__all__ = ["result", "without_masks"]

MOST_COMPUTED = 1 << 22
"""An operator is computed with substituted arguments only if these have at most this many elements."""


def _integers(*shape: int) -> Any:
    return mt.empty(shape, dtype=mt.int64, device="meta")


def result(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], values: Values) -> Any:
    """Return a result on meta for an operator whose result depends on values that are not available.

    With the policy "bound", the result has the largest possible size, if that is known. Otherwise the operator is
    computed with substituted arguments, which are filled with the policy's value. DataDependentError is raised if
    these would have more than `MOST_COMPUTED` elements.
    """
    found = largest(op.name, args, kwargs) if values.policy == "bound" else NotImplemented
    return found if found is not NotImplemented else _computed(op, args, kwargs, values)


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
