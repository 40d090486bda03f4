"""Dicts and sets in which code looks up a number, found by its source text."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Mapping
from itertools import islice
from typing import Any

__all__ = ["integers_of"]

_METHODS = ("get", "pop", "setdefault", "__getitem__", "__contains__", "discard", "remove")
_UNKNOWN = object()


def integers_of(frame: Any) -> list[int] | None:
    """Return the ints among the keys of the dict or set that the running instruction of a frame looks up a number in.

    None if the instruction is no such lookup, or its text is not known.
    """
    node = None if frame is None else _running(frame)
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], (ast.In, ast.NotIn)):
        inside: Any = node.comparators[0]
        key = node.left
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        inside, key = node.value, node.slice
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS and node.args:
        inside, key = node.func.value, node.args[0]
    else:
        return None
    if isinstance(key, (ast.Tuple, ast.List)):  # a part of the key
        return None
    if isinstance(inside, ast.Dict):
        found: Any = [_literal(one) for one in inside.keys]
    elif isinstance(inside, ast.Set):
        found = [_literal(one) for one in inside.elts]
    else:
        found = _resolved(inside, frame)
        if not isinstance(found, (Mapping, set, frozenset)):
            return None
        found = list(found)
    if any(one is _UNKNOWN for one in found) or any(type(one) is tuple for one in found):
        return None
    return [int(one) for one in found if isinstance(one, (int, float)) and one == int(one)]


def _running(frame: Any) -> Any:
    """Return the syntax tree of the expression that a frame computes, or None if that is not known. Before Python 3.11 it is not."""
    if not hasattr(frame.f_code, "co_positions"):
        return None
    start, end, column, until = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
    if start is None or end is None or column is None or until is None:
        return None
    lines = [linecache.getline(frame.f_code.co_filename, i, frame.f_globals).encode() for i in range(start, end + 1)]
    if not lines or not lines[-1]:
        return None
    lines[-1] = lines[-1][:until]
    lines[0] = lines[0][column:]
    try:
        return ast.parse(f"({b''.join(lines).decode()})", mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def _literal(node: Any) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return _UNKNOWN


def _resolved(node: Any, frame: Any) -> Any:
    """Return the object that a name, or an attribute of one, has in a frame. No property is computed."""
    if isinstance(node, ast.Name):
        for table in (frame.f_locals, frame.f_globals, frame.f_builtins):
            if node.id in table:
                return table[node.id]
    if isinstance(node, ast.Attribute):
        inside = _resolved(node.value, frame)
        for table in (getattr(inside, "__dict__", {}), *(vars(base) for base in type(inside).__mro__)):
            if node.attr in table:
                found = table[node.attr]
                return _UNKNOWN if hasattr(type(found), "__get__") else found
    return _UNKNOWN
