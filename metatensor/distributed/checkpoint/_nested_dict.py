"""Nested state dicts and their flat form, in which the keys are paths joined by dots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import metatensor as mt
from metatensor.checkpoint.budget import current

__all__ = ["flatten_state_dict", "set_element", "unflatten_state_dict"]

Path = tuple[Any, ...]
"""Keys of dicts, as str, and indices of lists."""


def flatten_state_dict(state_dict: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Path]]:
    """Return the entries of nested dicts and lists under their paths joined by dots, and the path of each.

    Dicts are always entered, lists if they contain tensors or dicts. Empty dicts have no entries. Raise ValueError if two
    entries have the same key.
    """
    flat: dict[str, Any] = {}
    paths: dict[str, Path] = {}
    for key, value in state_dict.items():
        for path, entry in _entries((str(key),), value):
            name = ".".join(map(str, path))
            if name in flat:
                raise ValueError(f"torch.distributed.checkpoint: the state dict has two entries with the path {name!r}")
            flat[name], paths[name] = entry, path
    return flat, paths


def _entries(path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, Mapping):
        for key, entry in value.items():
            yield from _entries((*path, str(key)), entry)
    elif isinstance(value, list) and _has_tensors(value):
        for index, entry in enumerate(value):
            yield from _entries((*path, index), entry)
    else:
        yield path, value


def _has_tensors(values: list[Any]) -> bool:
    return any(isinstance(one, (mt.Tensor, Mapping)) or (isinstance(one, list) and _has_tensors(one)) for one in values)


def set_element(state_dict: Any, path: Path, value: Any) -> None:
    """Set the entry of a nested state dict at a path. Dicts and lists that are missing are created."""
    place = state_dict
    for here, after in zip(path, path[1:]):
        made: Any = {} if isinstance(after, str) else []
        if isinstance(place, list):
            _extend(place, here)
            if place[here] is None:
                place[here] = made
            place = place[here]
        else:
            place = place.setdefault(here, made)
    if isinstance(place, list):
        _extend(place, path[-1])
    place[path[-1]] = value


def _extend(values: list[Any], index: Any) -> None:
    if type(index) is not int or index < 0:
        raise ValueError(f"torch.distributed.checkpoint: {str(index)[:50]!r} is not an index of a list")
    missing = index + 1 - len(values)
    if missing > 1:  # a path in a file could ask for a list of any length
        current().charge("the checkpoint", 8 * missing, "lists in the nested state dict take memory")
    values.extend([None] * missing)


def unflatten_state_dict(state_dict: Mapping[str, Any], mapping: Mapping[str, Path]) -> dict[str, Any]:
    """Return the nested state dict with these entries and paths."""
    nested: dict[str, Any] = {}
    for key, value in state_dict.items():
        set_element(nested, mapping.get(key, (key,)), value)
    return nested
