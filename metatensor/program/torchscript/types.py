"""Types in the code of TorchScript archives, which are expressions such as ``Optional[List[Tensor]]``."""

from __future__ import annotations

import ast
from typing import Any

from metatensor._core.device import Device
from metatensor._core.tensor import Tensor
from metatensor.program.torchscript.values import EnumMember, ScriptObject

__all__ = ["converted", "is_a"]

_PLAIN: dict[str, Any] = {"Tensor": Tensor, "str": str, "Device": Device, "float": float, "complex": complex}


def _head(kind: ast.expr) -> tuple[str, list[ast.expr]]:
    """Return the name of a type and its parameters."""
    if isinstance(kind, ast.Subscript):
        name, inner = _head(kind.value)[0], kind.slice
        return name, list(inner.elts) if isinstance(inner, ast.Tuple) else [inner]
    if isinstance(kind, ast.Name):
        return kind.id, []
    if isinstance(kind, ast.Constant) and kind.value is None:
        return "NoneType", []
    return ast.unparse(kind), []


def is_a(value: Any, kind: ast.expr) -> bool:
    """Return whether a value has a type. An empty list has every list type."""
    if isinstance(kind, (ast.List, ast.Tuple)):
        return any(is_a(value, one) for one in kind.elts)
    name, parameters = _head(kind)
    if name in _PLAIN:
        return isinstance(value, _PLAIN[name])
    if name == "int":
        return type(value) is int
    if name == "bool":
        return type(value) is bool
    if name in ("number", "Scalar"):
        return isinstance(value, (bool, int, float, complex))
    if name in ("NoneType", "None"):
        return value is None
    if name == "Any":
        return True
    if name == "Optional":
        return value is None or any(is_a(value, one) for one in parameters)
    if name == "Union":
        return any(is_a(value, one) for one in parameters)
    if name in ("List", "list"):
        return isinstance(value, list) and all(is_a(one, parameters[0]) for one in value[:1] if parameters)
    if name in ("Dict", "dict"):
        first = list(value.items())[:1] if isinstance(value, dict) else []
        return isinstance(value, dict) and all(is_a(k, parameters[0]) and is_a(v, parameters[1]) for k, v in first if len(parameters) == 2)
    if name in ("Tuple", "tuple"):
        if not isinstance(value, tuple):
            return False
        if len(parameters) == 1 and isinstance(parameters[0], ast.Tuple) and not parameters[0].elts:
            return not value
        return not parameters or len(value) == len(parameters) and all(map(is_a, value, parameters))
    if isinstance(value, ScriptObject):
        return bool(value._class.name == name)
    if isinstance(value, EnumMember):
        return value.kind == name
    if isinstance(value, tuple):
        return type(value).__name__ == name.rpartition(".")[2]
    return bool(getattr(value, "script_class", None) == name)


def converted(value: Any, kind: ast.expr, name: str, function: str) -> Any:
    """Convert an argument to the type of a parameter: tuples to lists and ints to floats if it requires this.

    Raise RuntimeError if only one of the argument and the parameter's type is a tensor.
    """
    head, parameters = _head(kind)
    if head == "Optional" and parameters:
        return None if value is None else converted(value, parameters[0], name, function)
    if head == "float" and type(value) is int:
        return float(value)
    if head == "List" and type(value) is tuple:
        return list(value)
    if isinstance(value, Tensor) and head in ("int", "float", "bool", "complex", "str", "List", "Dict", "Tuple", "NoneType", "Device"):
        raise RuntimeError(f"{function}() expected a value of type {ast.unparse(kind)} for argument {name!r}, got a tensor")
    if head == "Tensor" and not isinstance(value, Tensor):
        raise RuntimeError(f"{function}() expected a value of type Tensor for argument {name!r}, got {type(value).__name__}")
    return value
