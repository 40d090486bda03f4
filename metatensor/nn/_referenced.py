"""The modules that a callable refers to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from metatensor.nn.modules.module import Module

__all__ = ["referenced_modules"]


def referenced_modules(fn: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Iterator[tuple[str, Module]]:
    """Yield the modules that a callable refers to, with a name: itself, its object, its variables and its arguments."""
    values = [("", fn), ("self", getattr(fn, "__self__", None)), ("func", getattr(fn, "func", None))]
    values += [(f"argument{i}", value) for i, value in enumerate((*args, *getattr(fn, "args", ())))] + list((kwargs or {}).items())
    code = getattr(fn, "__code__", None)
    for name, cell in zip(getattr(code, "co_freevars", ()), getattr(fn, "__closure__", None) or (), strict=False):
        try:
            values.append((name, cell.cell_contents))
        except ValueError:  # an empty cell
            continue
    if code is not None:
        values += [(name, fn.__globals__[name]) for name in code.co_names if name in fn.__globals__]
    seen: set[int] = set()
    for name, value in values:
        if isinstance(value, Module) and id(value) not in seen:
            seen.add(id(value))
            yield name, value
