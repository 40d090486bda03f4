"""Small helpers of layers: a number that stands for one of each dimension."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import repeat
from typing import Any

__all__ = ["consume_prefix_in_state_dict_if_present", "factory_kwargs"]


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


def keep_constants(module: Any, arguments: Mapping[str, Any]) -> None:
    """Set the attributes that ``module.__constants__`` lists to the constructor arguments of the same names."""
    for name in module.__constants__:
        if name in arguments:
            setattr(module, name, arguments[name])


def _reverse_repeat_tuple(values: tuple, n: int) -> tuple:
    """Each value ``n`` times, the last value first: paddings by dimension in the order that `pad` takes."""
    return tuple(x for value in reversed(values) for x in repeat(value, n))


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Take a prefix off the names of a state dict that have it, in place, and off those of its metadata."""
    for key in [key for key in state_dict if key.startswith(prefix)]:
        state_dict[key[len(prefix) :]] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", {})
    for key in [key for key in metadata if key == prefix.removesuffix(".") or key.startswith(prefix)]:
        metadata[key[len(prefix) :]] = metadata.pop(key)


def factory_kwargs(kwargs: Mapping[str, Any] | None) -> dict[str, Any]:
    """What a layer hands to factories: device, dtype and memory_format out of its keywords.

    They may stand in a dict under "factory_kwargs" instead. TypeError for other keywords, and for one that is in both.
    """
    known = ("device", "dtype", "memory_format")
    given = dict(kwargs or {})
    result = dict(given.pop("factory_kwargs", {}))
    for name, value in given.items():
        if name not in known or name in result:
            raise TypeError(f"factory_kwargs: unexpected or repeated keyword {name!r}")
        result[name] = value
    return result
