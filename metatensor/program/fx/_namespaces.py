"""Global names as the functions of a traced program see them.

Some functions are recorded although they do not dispatch to proxies: those of `math`, and those that a tracer lists. A traced
function that calls one by a global name runs as a copy whose globals are a `Namespace`, in which recording functions replace
the originals. The module itself is not changed, so other threads, and code that runs later, are not affected.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterable
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from metatensor.program.fx._wrapped import WRAPPED, recording

__all__ = ["Namespaces"]

# Code of these packages calls no recorded function by a global name.
_LIBRARIES = frozenset(("metatensor", "torch", "numpy", "builtins", *sys.stdlib_module_names)) - {"__main__"}


class Namespace(dict):
    """The globals of a module with some objects replaced. Copied functions have it as their globals."""

    def __init__(self, plain: dict[str, Any], spaces: Namespaces) -> None:
        # Names that the interpreter reads without `__getitem__`, for imports and builtins.
        super().__init__({name: plain[name] for name in plain if name[:2] == name[-2:] == "__"})
        self.setdefault("__builtins__", builtins)
        self.plain, self.spaces = plain, spaces
        self.kept = set(self)

    def __getitem__(self, name: str) -> Any:
        if name in self.kept or dict.__contains__(self, name):  # also what a function assigned with `global`
            return super().__getitem__(name)
        wrapped = self.spaces.wrapped_at(self.plain, name)
        return self.spaces.seen(self.plain[name]) if wrapped is None else wrapped

    def assigned(self) -> dict[str, Any]:
        """Return the names that functions assigned to."""
        return {name: value for name, value in self.items() if name not in self.kept}


class Namespaces:
    """The copies of functions made for one trace, and their namespaces.

    Parameters
    ----------
    functions : iterable of callable
        Functions to record wherever a global name refers to them.
    modules : iterable of module
        Modules whose public functions are recorded too, also when they are called as attributes of the module.
    """

    def __init__(self, functions: Iterable[Any], modules: Iterable[ModuleType]) -> None:
        self._recorded = {id(one): one for one in functions}
        self._modules = {id(one): one for one in modules}
        self._names: dict[int, set[str]] = {}
        for space, name in WRAPPED:
            self._names.setdefault(id(space), set()).add(name)
        self._stand_ins: dict[int, Any] = {}
        self._spaces: dict[int, Namespace] = {}
        self._needed: dict[int, bool] = {}
        self._alive: list[Any] = []

    def wrapped_at(self, space: dict[str, Any], name: str) -> Any:
        """Return a recording function for a name that is registered by `wrap`, or None."""
        if name not in self._names.get(id(space), ()):
            return None
        plain = space.get(name, getattr(builtins, name, None))
        return None if plain is None or hasattr(plain, "_fx_plain") else self._stand_in(plain)

    def _stand_in(self, plain: Any) -> Any:
        if id(plain) not in self._stand_ins:
            self._stand_ins[id(plain)] = recording(plain, plain)
            self._alive.append(plain)
        return self._stand_ins[id(plain)]

    def seen(self, value: Any) -> Any:
        """Return the object that traced code sees in place of a global object."""
        if id(value) in self._recorded:
            return self._stand_in(value)
        if id(value) in self._modules:
            return self._view(value)
        return self.copied(value) if isinstance(value, FunctionType) and self.needs(value) else value

    def _view(self, module: ModuleType) -> ModuleType:
        """Return a copy of a module in which recording functions replace its functions."""
        if id(module) not in self._stand_ins:
            made = ModuleType(module.__name__)
            vars(made).update({name: self._stand_in(one) if id(one) in self._recorded else one for name, one in vars(module).items()})
            self._stand_ins[id(module)] = made
        return self._stand_ins[id(module)]

    def needs(self, function: FunctionType) -> bool:
        """Return whether a function calls recorded functions by global names, directly or indirectly."""
        known = self._needed.get(id(function))
        if known is not None:
            return known
        if function.__globals__.get("__name__", "").partition(".")[0] in _LIBRARIES or isinstance(function.__globals__, Namespace):
            return False
        self._alive.append(function)
        self._needed[id(function)] = False  # provisional, so that recursive functions end the search
        space = function.__globals__
        wrapped = self._names.get(id(space), ())
        found = any(self._needs(cell) for cell in _contents(function))
        for name in _names(function.__code__):
            if found:
                break
            plain = space.get(name)
            found = name in wrapped and not hasattr(space.get(name, getattr(builtins, name, None)), "_fx_plain") or self._needs(plain)
        self._needed[id(function)] = found
        return found

    def _needs(self, value: Any) -> bool:
        if id(value) in self._recorded or id(value) in self._modules:
            return True
        return isinstance(value, FunctionType) and self.needs(value)

    def copied(self, function: FunctionType) -> FunctionType:
        """Return a copy of a function that looks its global names up in a `Namespace`."""
        made = self._stand_ins.get(id(function))
        if made is None:
            space = self._spaces.setdefault(id(function.__globals__), Namespace(function.__globals__, self))
            cells = function.__closure__
            if cells is not None:
                cells = tuple(self._cell(cell) for cell in cells)
            made = FunctionType(function.__code__, space, function.__name__, function.__defaults__, cells)
            made.__kwdefaults__, made.__qualname__ = function.__kwdefaults__, function.__qualname__
            made.__dict__.update(function.__dict__)
            made.__annotations__ = function.__annotations__
            self._stand_ins[id(function)] = made
        return made

    def _cell(self, cell: Any) -> Any:
        """Return a closure's cell, or a new one if its function is copied. Decorated functions have such cells."""
        try:
            value = cell.cell_contents
        except ValueError:
            return cell
        seen = self.seen(value)
        return cell if seen is value else CellType(seen)

    def method(self, module: Any, name: str, bound: Any) -> Any:
        """Return a method of a module, copied if necessary."""
        function = getattr(bound, "__func__", None)
        if isinstance(function, FunctionType) and isinstance(bound, MethodType) and self.needs(function):
            return MethodType(self.copied(function), bound.__self__)
        return bound

    def finish(self) -> None:
        """Set in the modules the global names that traced functions assigned to."""
        for space in self._spaces.values():
            space.plain.update(space.assigned())


def _names(code: CodeType) -> set[str]:
    """Return the global and attribute names in the code of a function and its inner functions."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _names(constant)
    return found


def _contents(function: FunctionType) -> list[Any]:
    found = []
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:
            continue
    return found
