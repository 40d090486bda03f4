"""Loops over a dimension that carry a state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import metatensor as mt
from metatensor.utils import _pytree as pytree

__all__ = ["scan"]


def scan(
    combine_fn: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any, *, dim: int = 0, reverse: bool = False
) -> tuple[Any, Any]:
    """Loop over slices along a dimension: ``state, output = combine_fn(state, x)``.

    Parameters
    ----------
    combine_fn : callable
    init : any
        The first state.
    xs : tree of Tensor
        Tensors in nested containers. `combine_fn` receives their slices in the same containers.
    dim : int
        Default: 0.
    reverse : bool
        If True, start at the end. Default: False.

    Returns
    -------
    state : any
        The last state.
    outputs : tree of Tensor
        The outputs, stacked along a new first dimension. An empty list if there are no slices.
    """
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
