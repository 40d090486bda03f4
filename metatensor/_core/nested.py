"""Search and replacement of tensors in nested lists, tuples, named tuples, dicts and dataclasses."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from metatensor._core.tensor import Tensor

__all__ = ["map_tensors", "tensors_in"]


def tensors_in(value: Any, outer: tuple[int, ...] = ()) -> Iterator[Tensor]:
    """Yield the tensors in a nested structure, from left to right.

    ``outer`` holds the ids of the containers around ``value``. A container inside itself is not entered again.
    """
    items: Iterable[Any] = ()
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        items = value.values()
    elif isinstance(value, (list, tuple)):
        items = value
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        items = vars(value).values()
    if id(value) not in outer:
        for item in items:
            yield from tensors_in(item, (*outer, id(value)))


def map_tensors(function: Callable[[Tensor], Any], value: Any) -> Any:
    """Return ``value`` with each tensor ``t`` in its lists, tuples, dicts and dataclasses replaced by ``function(t)``.

    Containers without tensors are returned as they are, others as new ones of the same class.
    """
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, dict):
        made = {key: map_tensors(function, item) for key, item in value.items()}
        if all(made[key] is item for key, item in value.items()):
            return value
        return made if type(value) is dict else _filled(value, made)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        made = {key: map_tensors(function, item) for key, item in vars(value).items()}
        return value if all(made[key] is item for key, item in vars(value).items()) else _filled(value, made)
    if isinstance(value, (list, tuple)):
        items = [map_tensors(function, item) for item in value]
        if all(new is old for new, old in zip(items, value, strict=True)):
            return value
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def _filled(value: Any, members: dict[Any, Any]) -> Any:
    """Return a shallow copy of a dict or dataclass with other members."""
    made = copy.copy(value)
    if isinstance(made, dict):
        for key, item in members.items():
            made[key] = item
    else:
        for key, item in members.items():
            object.__setattr__(made, key, item)
    return made
