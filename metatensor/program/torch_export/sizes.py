"""Sizes in exported programs: expressions of names, such as ``2*s0 + 1`` or ``Mul(Integer(2), Symbol('s0', integer=True))``."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

__all__ = ["evaluated", "name_of"]

_DEPTH = 50


def _floor_div(a: int, b: int) -> int:
    return a // b


def _mod(a: int, b: int) -> int:
    return a % b


def _power(a: int, b: int) -> int:
    if not 0 <= b <= 64 or abs(a) > 1 << 32:
        raise ValueError("a power is too large")
    return int(a**b)


_OPERATIONS: dict[type, Callable[[int, int], int]] = {
    ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b, ast.FloorDiv: _floor_div, ast.Mod: _mod,
    ast.Pow: _power,
}  # fmt: skip
_CALLS: dict[str, Callable[..., int]] = {
    "Add": lambda *args: sum(args), "Mul": lambda *args: math.prod(args), "Pow": _power, "FloorDiv": _floor_div, "CleanDiv": _floor_div,
    "Mod": _mod, "PythonMod": _mod, "Max": max, "Min": min,
}  # fmt: skip


@lru_cache(1024)
def _parsed(text: str) -> Any:
    """Return the tree of an expression, or None if it is not an expression."""
    try:
        return ast.parse(text, mode="eval").body if len(text) < 10_000 else None
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def _symbol(node: Any) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("Symbol", "Dummy") and node.args:
        first = node.args[0]
        return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None
    return None


def name_of(text: str) -> str | None:
    """Return the name that an expression is, or None if it is more than a name."""
    return _symbol(_parsed(text))


def evaluated(text: str, names: dict[str, int]) -> int | None:
    """Return the value of an expression of sizes. None if it has parts that are unknown here."""
    try:
        return _evaluated(_parsed(text), names, 0)
    except (ValueError, KeyError, ZeroDivisionError, TypeError):
        return None


def _evaluated(node: Any, names: dict[str, int], depth: int) -> int:
    if depth > _DEPTH:
        raise ValueError("an expression is nested too deeply")
    name = _symbol(node)
    if name is not None:
        return names[name]
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return _small(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_evaluated(node.operand, names, depth + 1)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        return _small(_OPERATIONS[type(node.op)](_evaluated(node.left, names, depth + 1), _evaluated(node.right, names, depth + 1)))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id == "Integer" and len(node.args) == 1:
            return _evaluated(node.args[0], names, depth + 1)
        if node.func.id in _CALLS:
            return _small(_CALLS[node.func.id](*[_evaluated(a, names, depth + 1) for a in node.args]))
    raise ValueError("a part of an expression is unknown")


def _small(value: int) -> int:
    if abs(value) >= 1 << 128:
        raise ValueError("a number is too large")
    return value
