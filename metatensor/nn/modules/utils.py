"""Small helpers of layers: a number that stands for one of each dimension."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any

__all__: list[str] = []


def _ntuple(n: int, name: str) -> Callable[[Any], tuple]:
    def spread(value: Any) -> tuple:
        if type(value) is int or not isinstance(value, Iterable):
            return (value,) * n
        return tuple(value)

    spread.__name__ = spread.__qualname__ = name
    spread.__doc__ = f"A number as a tuple of {n}; an iterable as a tuple."
    return spread


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(values: tuple, n: int) -> tuple:
    """Each value ``n`` times, the last value first: paddings by dimension in the order that `pad` takes."""
    return tuple(x for value in reversed(values) for x in repeat(value, n))
