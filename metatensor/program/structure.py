"""Nested arguments and results, with values in place of tensors."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from metatensor._core.tensor import Tensor
from metatensor.nn.modules.module import Module

__all__ = ["Opaque", "leaves", "mapped"]


@dataclasses.dataclass(frozen=True)
class Opaque:
    """Replaces, in a saved program, an object without tensors that a file cannot hold."""

    kind: str
    """Name of the class."""


def mapped(function: Callable[[Any], Any], kind: type | tuple[type, ...], value: Any) -> Any:
    """Return `value` with every object of class `kind` in its lists, tuples, dicts and objects replaced by what `function` returns."""
    if isinstance(value, kind):
        return function(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        made: Any = copy.copy(value)
        for field in dataclasses.fields(value):
            new = mapped(function, kind, getattr(value, field.name))
            object.__setattr__(made, field.name, new)
            if isinstance(made, dict) and field.name in made:
                dict.__setitem__(made, field.name, new)
        return made
    if isinstance(value, dict):
        made = copy.copy(value)
        for key, item in value.items():
            made[key] = mapped(function, kind, item)
        return made
    if isinstance(value, (list, tuple)):
        items = [mapped(function, kind, item) for item in value]
        if type(value) in (list, tuple):
            return type(value)(items)
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if _opens(value) and next(leaves(kind, value), None) is not None:
        made = copy.copy(value)
        for key, item in vars(value).items():
            object.__setattr__(made, key, mapped(function, kind, item))
        return made
    return value


def _opens(value: Any) -> bool:
    """Return True for objects of which `leaves` looks at the attributes: those of plain classes, such as caches of keys and values."""
    return hasattr(value, "__dict__") and not isinstance(value, (type, Module, ModuleType, Tensor, int, float, str)) and not callable(value)


def leaves(kind: type | tuple[type, ...], value: Any, outer: tuple[int, ...] = ()) -> Iterator[Any]:
    """Yield the objects of class `kind` in a nested structure, from left to right.

    `outer` has the ids of the objects around `value`. A cycle is not entered again.
    """
    if isinstance(value, kind):
        yield value
    elif id(value) in outer:
        return
    elif isinstance(value, dict):
        for item in value.values():
            yield from leaves(kind, item, (*outer, id(value)))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from leaves(kind, item, (*outer, id(value)))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from leaves(kind, getattr(value, field.name), (*outer, id(value)))
    elif _opens(value):
        for item in vars(value).values():
            yield from leaves(kind, item, (*outer, id(value)))
