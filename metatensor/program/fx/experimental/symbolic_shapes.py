"""Queries about symbolic sizes. In metatensor every size is a number, so each query has a definite answer."""

from __future__ import annotations

from typing import Any

__all__ = ["GuardOnDataDependentSymNode", "definitely_false", "definitely_true", "free_symbols", "free_unbacked_symbols",
           "guard_int", "guard_or_false", "guard_or_true", "guard_size_oblivious", "has_free_symbols", "hint_int", "is_concrete_bool",
           "is_concrete_int", "statically_known_true"]  # fmt: skip


class GuardOnDataDependentSymNode(RuntimeError):
    """Raised in PyTorch when a size that depends on data is needed. metatensor never raises it."""


def guard_or_true(a: Any) -> bool:
    """Return `a` as a bool."""
    return bool(a)


guard_or_false = guard_size_oblivious = statically_known_true = definitely_true = guard_or_true


def definitely_false(a: Any) -> bool:
    """Return whether `a` is false."""
    return not a


def guard_int(a: Any) -> int:
    """Return `a` as an int."""
    return int(a)


hint_int = guard_int


def free_symbols(val: Any) -> set[Any]:
    """Return an empty set, because there are no symbols."""
    return set()


free_unbacked_symbols = free_symbols


def has_free_symbols(val: Any) -> bool:
    """Return False, because there are no symbols."""
    return False


def is_concrete_int(a: Any) -> bool:
    """Return whether `a` is an int."""
    return isinstance(a, int)


def is_concrete_bool(a: Any) -> bool:
    """Return whether `a` is a bool."""
    return isinstance(a, bool)
