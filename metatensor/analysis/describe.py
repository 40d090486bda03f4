"""Descriptions of arguments and results as text: ``float32[1,1024]``."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import metatensor as mt

__all__ = ["describe", "relative", "spec", "spec_text"]

DEPTH = 6
"""Greatest nesting depth that descriptions cover."""


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


def relative(location: str) -> str:
    """Return a ``file:line`` with a path relative to the current directory, if the file is in it."""
    return location.removeprefix(os.getcwd() + os.sep)
