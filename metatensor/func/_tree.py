"""Nested tuples, lists and dicts as trees: flattening, unflattening and mapping over leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["broadcast_prefix", "flatten", "structure", "tree_map", "unflatten"]


def _parts(tree: Any) -> list[Any] | None:
    """Return the children of a container, or None for a leaf."""
    if isinstance(tree, dict):
        return list(tree.values())
    if type(tree) in (tuple, list) or isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return list(tree)
    if isinstance(tree, tuple) and hasattr(type(tree), "n_sequence_fields"):
        return list(tree)
    return None


def _like(tree: Any, parts: list[Any]) -> Any:
    """Return a container of the type of `tree` with the given children."""
    if isinstance(tree, dict):
        made = tree.copy()
        made.update(zip(tree, parts, strict=True))
        return made
    if hasattr(tree, "_fields"):
        return type(tree)(*parts)
    return type(tree)(parts)


def flatten(tree: Any) -> list[Any]:
    """Return the leaves from left to right. None is a leaf."""
    parts = _parts(tree)
    return [tree] if parts is None else [leaf for part in parts for leaf in flatten(part)]


def unflatten(tree: Any, leaves: list[Any]) -> Any:
    """Return a tree with the structure of `tree` and the given leaves."""
    rest = iter(leaves)
    return tree_map(lambda _: next(rest), tree)


def tree_map(function: Callable[[Any], Any], tree: Any) -> Any:
    """Return a tree with the structure of `tree`, in which `function` is applied to each leaf."""
    parts = _parts(tree)
    return function(tree) if parts is None else _like(tree, [tree_map(function, part) for part in parts])


def structure(tree: Any) -> str:
    """Return the structure of a tree as text, with * for each leaf."""
    parts = _parts(tree)
    if parts is None:
        return "*"
    if isinstance(tree, dict):
        return "{" + ", ".join(f"{key!r}: {structure(part)}" for key, part in tree.items()) + "}"
    inside = ", ".join(map(structure, parts))
    return f"[{inside}]" if isinstance(tree, list) else f"({inside})"


def broadcast_prefix(prefix: Any, tree: Any) -> list[Any] | None:
    """Return, for each leaf of `tree`, the leaf of `prefix` at the same position or above it.

    Return None if `prefix` is not a prefix of `tree`.
    """
    above, below = _parts(prefix), _parts(tree)
    if above is None:
        return [prefix] * len(flatten(tree))
    if below is None or len(above) != len(below) or isinstance(prefix, dict) != isinstance(tree, dict):
        return None
    if isinstance(prefix, dict) and list(prefix) != list(tree) or type(prefix) is not type(tree):
        return None
    found: list[Any] = []
    for part, inside in zip(above, below, strict=True):
        leaves = broadcast_prefix(part, inside)
        if leaves is None:
            return None
        found += leaves
    return found
