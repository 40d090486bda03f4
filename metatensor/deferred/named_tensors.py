"""Find the tensors in modules and nested containers."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import metatensor as mt

__all__ = ["CONTAINERS", "NamedEntry", "named_tensors", "part_of"]

CONTAINERS = (Mapping, list, tuple, set, frozenset, collections.deque, collections.abc.ValuesView, collections.abc.ItemsView)
_PLAIN = (str, bytes, int, float, complex, type(None))
_REGISTERED = frozenset(("_parameters", "_buffers", "_modules"))


def part_of(tensor: Any) -> Any:
    """Return the part of a distributed tensor that this process holds, or the tensor itself if it is an ordinary one."""
    return tensor._local_tensor if getattr(tensor, "_has_parts", False) else tensor


class NamedEntry(NamedTuple):
    """A tensor, or an object that may contain tensors, with its name."""

    name: str
    """``"encoder.layers.3.weight"``, ``"tables['a'][0]"``."""
    kind: str
    """"parameter", "buffer", "buffer (not in the state dict)", "attribute" or "item"."""
    value: Any
    owner: Any
    """For a plain attribute, the module or tensor that has it; else None."""


def named_tensors(obj: Any) -> Iterator[NamedEntry]:
    """Yield each tensor in ``obj`` with its name. ``obj`` is a tensor, a module, or a nested container or dataclass.

    Plain attributes of modules and tensors are searched too. A module found in a plain attribute is treated as part of
    its owner, unless it contains that owner. Each module and container is searched once.
    """
    stack = [NamedEntry("", "item", obj, None)]
    seen: set[int] = set()
    while stack:
        entry = stack.pop()
        value = entry.value
        if isinstance(value, mt.Tensor):
            yield entry
            if value.__dict__ and id(value) not in seen:
                seen.add(id(value))
                stack += reversed([NamedEntry(_dotted(entry.name, n), "attribute", v, value) for n, v in value.__dict__.items()])
        elif isinstance(value, mt.nn.Module):
            if id(value) not in seen and not _hides_its_owner(entry):
                seen.add(id(value))
                stack += reversed(list(_of_module(entry.name, value)))
        elif isinstance(value, CONTAINERS):
            if id(value) not in seen:
                seen.add(id(value))
                items = value.items() if isinstance(value, Mapping) else enumerate(value)
                inner = [(key, item) for key, item in items if not isinstance(item, _PLAIN)]
                stack += reversed([NamedEntry(f"{entry.name}[{key!r}]", entry.kind, item, entry.owner) for key, item in inner])
        elif dataclasses.is_dataclass(value) and not isinstance(value, type) and id(value) not in seen:
            seen.add(id(value))
            stack += reversed([NamedEntry(_dotted(entry.name, n), entry.kind, v, entry.owner) for n, v in vars(value).items()])


def _of_module(name: str, module: Any) -> Iterator[NamedEntry]:
    for n, tensor in module._parameters.items():
        yield NamedEntry(_dotted(name, n), "parameter", tensor, None)
    hidden = module._non_persistent_buffers_set
    for n, tensor in module._buffers.items():
        yield NamedEntry(_dotted(name, n), "buffer (not in the state dict)" if n in hidden else "buffer", tensor, None)
    for n, value in vars(module).items():
        if n not in _REGISTERED:
            yield NamedEntry(_dotted(name, n), "attribute", value, module)
    for n, child in module._modules.items():
        yield NamedEntry(_dotted(name, n), "item", child, None)


def _hides_its_owner(entry: NamedEntry) -> bool:
    """Return True if a module in a plain attribute contains the module that has the attribute."""
    owner = entry.owner
    if isinstance(owner, mt.Tensor):
        return True
    return owner is not None and any(inner is owner for inner in entry.value.modules())


def _dotted(start: str, name: str) -> str:
    return f"{start}.{name}" if start else str(name)
