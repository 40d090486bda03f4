"""Modules that hold modules: in a row that is called, or as a list or dict."""

from __future__ import annotations

import operator
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from metatensor.nn.module import Module

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Container", "ModuleDict", "ModuleList", "Sequential"]


class Container(Module):
    """Modules by name, given as keywords. Old, and warns; a plain `Module` does the same."""

    def __init__(self, **kwargs: Any) -> None:
        warnings.warn("nn.Container is deprecated: subclass nn.Module", FutureWarning, stacklevel=2)
        super().__init__()
        for name, module in kwargs.items():
            self.add_module(name, module)


class _Row(Module):
    """Modules by position; their names are the positions, as text, unless a `Sequential` was given others."""

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def _name_at(self, index: int) -> str:
        """The name at a position, which may count from the end. IndexError where there is none."""
        index = operator.index(index)
        if not -len(self) <= index < len(self):
            raise IndexError(f"{type(self).__name__}: there is no module {index} among {len(self)}")
        return list(self._modules)[index]

    def _renumber(self, modules: Iterable[Any]) -> None:
        """Hold exactly these modules, named by position."""
        self._modules = {str(i): module for i, module in enumerate(modules)}

    def __setitem__(self, index: int, module: Any) -> None:
        setattr(self, self._name_at(index), module)


class Sequential(_Row):
    """Modules that are called one after the other, each with the output of the one before.

    Given as arguments, which are named by position, or as one `OrderedDict` of names and modules.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        named = args[0] if len(args) == 1 and isinstance(args[0], OrderedDict) else {str(i): module for i, module in enumerate(args)}
        for name, module in named.items():
            self.add_module(name, module)

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)
        return input

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._modules[self._name_at(index)]

    def __delitem__(self, index: int | slice) -> None:
        names = list(self._modules)[index] if isinstance(index, slice) else [self._name_at(index)]
        for name in names:
            delattr(self, name)
        self._renumber(list(self))

    def append(self, module: Module) -> Self:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> Self:
        """Add a module before position ``index``. IndexError where there is no such position."""
        if not isinstance(module, Module):
            raise AssertionError(f"Sequential.insert: expected a Module, got {type(module).__name__}")
        if not -len(self) <= index <= len(self):
            raise IndexError(f"Sequential.insert: there is no position {index} among {len(self)}")
        modules = list(self)
        modules.insert(index, module)
        self._renumber(modules)
        return self

    def extend(self, sequential: Iterable[Module]) -> Self:
        """Add modules at the end."""
        for module in list(sequential):
            self.append(module)
        return self

    def pop(self, key: int | slice) -> Any:
        """Take out and return a module, or several."""
        taken = self[key]
        del self[key]
        return taken

    def __add__(self, other: Any) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(f"Sequential: cannot add {type(other).__name__}, only another Sequential")
        return Sequential(*self, *other)

    def __iadd__(self, other: Any) -> Self:
        if not isinstance(other, Sequential):
            raise ValueError(f"Sequential: cannot add {type(other).__name__}, only another Sequential")
        return self.extend(other)

    def __mul__(self, times: int) -> Sequential:
        self._check_times(times)
        return Sequential(*list(self) * times)

    __rmul__ = __mul__

    def __imul__(self, times: int) -> Self:
        self._check_times(times)
        return self.extend(list(self) * (times - 1))

    @staticmethod
    def _check_times(times: int) -> None:
        if not isinstance(times, int):
            raise TypeError(f"Sequential: cannot repeat {times!r} times")
        if times <= 0:
            raise ValueError(f"Sequential: can be repeated 1 time or more, not {times}")


class ModuleList(_Row):
    """Modules in a list; the list itself is not called."""

    def __init__(self, modules: Iterable[Any] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return self._modules[self._name_at(index)]

    def __delitem__(self, index: int | slice) -> None:
        modules = list(self)
        if not isinstance(index, slice):
            self._name_at(index)
        del modules[index]
        self._renumber(modules)

    def append(self, module: Any) -> Self:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Any) -> None:
        """Add a module before position ``index``, which is cut to the list's ends as in a list."""
        modules = list(self)
        modules.insert(index, module)
        self._renumber(modules)

    def extend(self, modules: Iterable[Any]) -> Self:
        """Add modules at the end. TypeError where ``modules`` is not iterable."""
        if not isinstance(modules, Iterable):
            raise TypeError(f"ModuleList: expected an iterable of modules, got {type(modules).__name__}")
        for i, module in enumerate(list(modules), len(self)):
            self.add_module(str(i), module)
        return self

    def pop(self, key: int | slice) -> Any:
        """Take out and return a module, or several."""
        taken = self[key]
        del self[key]
        return taken

    def __iadd__(self, modules: Iterable[Any]) -> Self:
        return self.extend(modules)

    def __add__(self, other: Iterable[Any]) -> ModuleList:
        return ModuleList([*self, *other])

    def __repr__(self) -> str:
        """As of any module, but neighbours that look alike are shown once, with their positions and number."""
        if not self._modules:
            return f"{self._get_name()}()"
        runs: list[tuple[int, int, str]] = []
        for i, text in enumerate(map(repr, self)):
            if runs and runs[-1][2] == text:
                runs[-1] = (runs[-1][0], i, text)
            else:
                runs.append((i, i, text))
        lines = [f"({a}): {text}" if a == b else f"({a}-{b}): {b - a + 1} x {text}" for a, b, text in runs]
        return f"{self._get_name()}(\n  " + "\n  ".join(line.replace("\n", "\n  ") for line in lines) + "\n)"


class ModuleDict(Module):
    """Modules by name; the dict itself is not called."""

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Any) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Take out all modules."""
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Take out and return a module. KeyError where there is none."""
        return self._modules.pop(key)

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._modules.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Pairs of name and module."""
        return self._modules.items()

    def values(self) -> Iterable[Any]:
        """The modules."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Add modules from a mapping or from pairs of name and module; one that is there is replaced.

        TypeError where ``modules`` is neither, ValueError where an element is not a pair.
        """
        pairs = modules.items() if isinstance(modules, (Mapping, ModuleDict)) else modules
        if not isinstance(pairs, Iterable):
            raise TypeError(f"ModuleDict: expected a mapping or pairs, got {type(modules).__name__}")
        for i, pair in enumerate(pairs):
            if not isinstance(pair, Iterable):
                raise TypeError(f"ModuleDict: element {i} is a {type(pair).__name__}, not a pair")
            entry = tuple(pair)
            if len(entry) != 2:
                raise ValueError(f"ModuleDict: element {i} has {len(entry)} parts, not 2")
            self.add_module(*entry)
