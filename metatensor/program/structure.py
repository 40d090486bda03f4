"""Nested arguments and results, with values in the place of tensors."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["leaves", "mapped"]


def mapped(function: Callable[[Any], Any], kind: type | tuple[type, ...], value: Any) -> Any:
    """Return `value` with every object of class `kind` in its lists, tuples, dicts and dataclasses replaced by what `function` returns."""
    if isinstance(value, kind):
        return function(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        made = copy.copy(value)
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
    return value


def leaves(kind: type | tuple[type, ...], value: Any) -> Iterator[Any]:
    """Yield the objects of class `kind` in a nested structure, from left to right."""
    if isinstance(value, kind):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from leaves(kind, item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from leaves(kind, item)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from leaves(kind, getattr(value, field.name))
