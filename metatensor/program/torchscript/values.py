"""Values of TorchScript that are neither tensors nor builtin Python values: objects, named tuples, enumerations, functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any

from metatensor.program.torchscript.source import Class, Function

__all__ = ["Bound", "EnumMember", "ScriptObject", "Uninitialized", "named_tuple"]


class ScriptObject:
    """An object of a class that the archive defines. Its attributes are Python attributes."""

    _class: Class

    def __init__(self, kind: Class, attributes: dict[str, Any] | None = None) -> None:
        self.__dict__["_class"] = kind
        self.__dict__.update(attributes or {})

    def __repr__(self) -> str:
        return f"<{self._class.name} object>"


class EnumMember:
    """A member of an enumeration that the archive defines."""

    def __init__(self, kind: str, name: str, value: Any) -> None:
        self.kind, self.name, self.value = kind, name, value

    def __repr__(self) -> str:
        return f"<{self.kind.rpartition('.')[2]}.{self.name}: {self.value!r}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EnumMember) and (self.kind, self.name) == (other.kind, other.name)

    def __hash__(self) -> int:
        return hash((self.kind, self.name))


class Bound:
    """A function of the archive as a value. A nested one holds the enclosing variables."""

    def __init__(self, function: Function, scope: dict[str, Any] | None = None) -> None:
        self.function, self.scope = function, scope

    def __repr__(self) -> str:
        return f"<function {self.function.name}>"


class Uninitialized:
    """The value of a variable that is assigned before any statement uses it."""

    def __repr__(self) -> str:
        return "<uninitialized>"


def named_tuple(name: str, fields: Iterable[str]) -> Any:
    """Return a subclass of tuple with named fields."""
    names = tuple(fields)

    def new(cls: type, *values: Any) -> Any:
        if len(values) != len(names):
            raise TypeError(f"{name} takes {len(names)} values, got {len(values)}")
        return tuple.__new__(cls, values)

    def shown(self: Any) -> str:
        return f"{name}({', '.join(f'{key}={value!r}' for key, value in zip(names, self))})"

    members: dict[str, Any] = {"__new__": new, "__repr__": shown, "__slots__": (), "_fields": names}
    getters: dict[str, Callable[[Any], Any]] = {key: itemgetter(i) for i, key in enumerate(names)}
    members.update({key: property(get) for key, get in getters.items() if not key.startswith("_")})
    return type(name, (tuple,), members)
