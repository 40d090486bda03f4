"""Loops along a dimension that carry a state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import metatensor as mt
from metatensor.utils import _pytree as pytree

__all__ = ["scan"]


def scan(
    combine_fn: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any, *, dim: int = 0, reverse: bool = False
) -> tuple[Any, Any]:
    """The last state and all outputs, stacked, of ``state, output = combine_fn(state, x)`` for each ``x`` along ``dim``."""
    leaves, spec = pytree.tree_flatten(xs)
    if not leaves:
        return init, []
    length = leaves[0].shape[dim]
    outputs = []
    for index in range(length - 1, -1, -1) if reverse else range(length):
        init, output = combine_fn(init, pytree.tree_unflatten([leaf.select(dim, index) for leaf in leaves], spec))
        outputs.append(output)
    if reverse:
        outputs.reverse()
    if not outputs:
        return init, []
    flat = [pytree.tree_flatten(output) for output in outputs]
    return init, pytree.tree_unflatten([mt.stack(column, 0) for column in zip(*(values for values, _ in flat))], flat[0][1])
