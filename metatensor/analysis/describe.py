"""Format tensors and numbers as text: ``float32[1,1024]``, ``124 M``, ``1.56 GB``."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from typing import Any

import metatensor as mt

__all__ = ["bytes_text", "count_text", "describe", "relative", "spec", "spec_text"]

DEPTH = 6
"""Greatest nesting depth that descriptions cover."""
UNITS = ("", "K", "M", "G", "T", "P", "E")


def spec(tensor: mt.Tensor) -> str:
    """Return a tensor's dtype and shape in the form that the command line accepts for inputs."""
    return f"{tensor.dtype.name}[{','.join(map(str, tensor.shape))}]"


def describe(value: Any, depth: int = DEPTH) -> Any:
    """Return ``value`` as JSON types, with `spec` for each tensor and the class name for other objects."""
    if isinstance(value, mt.Tensor):
        return spec(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if depth and isinstance(value, dict):
        return {str(key): describe(item, depth - 1) for key, item in value.items()}
    if depth and isinstance(value, (list, tuple)):
        return [describe(item, depth - 1) for item in value]
    if depth and dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: describe(item, depth - 1) for name, item in vars(value).items()}
    return type(value).__name__


def spec_text(described: Any) -> str:
    """Return a result of `describe` as one line; empty for None."""
    if isinstance(described, dict):
        return "{" + ", ".join(f"{key}: {spec_text(item) or None}" for key, item in described.items()) + "}"
    if isinstance(described, list):
        return "(" + ", ".join(spec_text(item) or "None" for item in described) + ")"
    return "" if described is None else str(described)


def _scaled(value: float, units: tuple[str, ...], plain: Callable[[float], str]) -> str:
    if abs(value) < 1000:
        return plain(value)
    power = 0
    while abs(value) >= 999.5 and power + 1 < len(units):
        value /= 1000
        power += 1
    digits = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    return f"{value:.{digits}f} {units[power]}"


def count_text(value: int) -> str:
    """Return a count with three significant digits: ``124 M``."""
    return _scaled(value, UNITS, lambda small: f"{small:.0f}")


def bytes_text(value: int) -> str:
    """Return a number of bytes with three significant digits, in powers of 1000: ``498 MB``."""
    return _scaled(value, tuple(f"{unit}B" for unit in UNITS), lambda small: f"{small:.0f} B")


def relative(location: str) -> str:
    """Return a ``file:line`` relative to the current directory if it is inside that."""
    return location.removeprefix(os.getcwd() + os.sep)
