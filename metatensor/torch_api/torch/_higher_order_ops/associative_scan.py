"""Cumulative combination of elements along a dimension."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import metatensor as mt
from metatensor.utils import _pytree as pytree

__all__ = ["associative_scan"]


def associative_scan(
    combine_fn: Callable[[Any, Any], Any], xs: Any, dim: int, reverse: bool = False, combine_mode: str = "pointwise"
) -> Any:
    """Combine slices cumulatively along a dimension.

    ``out[0]`` is ``xs[0]``, and ``out[i]`` is ``combine_fn(out[i - 1], xs[i])``.

    Parameters
    ----------
    combine_fn : callable
        Function of two trees of slices that returns a tree of the same structure.
    xs : tree of Tensor
        Tensors with the same size along `dim`, in nested containers.
    dim : int
    reverse : bool
        If True, start at the end. Default: False.
    combine_mode : {"pointwise", "generic"}
        Checked and otherwise ignored.

    Returns
    -------
    tree of Tensor
        Tensors with the shapes of `xs`, if `combine_fn` keeps the shapes of slices.

    Raises
    ------
    ValueError
        If `combine_fn` is not callable, `combine_mode` is unknown, or the tensors do not fit.
    RuntimeError
        If `combine_fn` returns a tree of another structure.
    """
    if not callable(combine_fn):
        raise ValueError(f"associative_scan: combine_fn must be callable, got {type(combine_fn).__name__}")
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(f"associative_scan: combine_mode must be 'pointwise' or 'generic', got {combine_mode!r}")
    leaves, spec = pytree.tree_flatten(xs)
    if not leaves or not all(isinstance(leaf, mt.Tensor) for leaf in leaves):
        raise ValueError("associative_scan: expected at least one tensor, and tensors only")
    length = leaves[0].shape[dim]
    if any(leaf.shape[dim] != length for leaf in leaves):
        raise ValueError(f"associative_scan: the tensors differ in size along dimension {dim}")
    order = range(length - 1, -1, -1) if reverse else range(length)
    rows: list[list[Any]] = []
    for index in order:
        row = [leaf.select(dim, index) for leaf in leaves]
        if rows:
            combined = combine_fn(pytree.tree_unflatten(rows[-1], spec), pytree.tree_unflatten(row, spec))
            row, got = pytree.tree_flatten(combined)
            if got != spec:
                raise RuntimeError("associative_scan: combine_fn must return a tree with the structure of its "
                                   f"arguments, {spec}, got {got}")
        rows.append(row)
    if not rows:
        return pytree.tree_unflatten([leaf.clone() for leaf in leaves], spec)
    if reverse:
        rows.reverse()
    return pytree.tree_unflatten([mt.stack(column, dim) for column in zip(*rows)], spec)
