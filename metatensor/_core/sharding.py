"""Sharding rules that are stated beside operators, because trying cannot find them.

A rule is a line of the table in `metatensor.distributed.tensor.sharding`, which explains the form.
"""

from __future__ import annotations

__all__ = ["sharding", "stated_names", "stated_rules"]

_stated: dict[str, list[str]] = {}


def sharding(name: str, *lines: str) -> None:
    """State rules of an overload, given by its qualified name. They are preferred to those found by trying.

    The line "no cuts" states that the cuts found by trying do not hold, "no passes" that nothing passes reductions on, and "gather"
    states both: the operator runs on gathered tensors.
    """
    _stated.setdefault(name, []).extend(lines)


def stated_rules(name: str) -> tuple[str, ...]:
    """Return the lines stated for an overload."""
    return tuple(_stated.get(name, ()))


def stated_names() -> tuple[str, ...]:
    """Return the qualified names of the overloads for which rules are stated."""
    return tuple(_stated)
