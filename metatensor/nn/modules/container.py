"""Containers of modules: `Sequential`, `ModuleList` and `ModuleDict`."""

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
    """Module with the children given as keyword arguments. Deprecated: subclass `Module` instead.

    Creating one emits a FutureWarning.
    """

    def __init__(self, **kwargs: Any) -> None:
        warnings.warn("nn.Container is deprecated: subclass nn.Module", FutureWarning, stacklevel=2)
        super().__init__()
        for name, module in kwargs.items():
            self.add_module(name, module)


class _Row(Module):
    """Base of containers indexed by position. Children are named by position, unless a `Sequential` was given names."""

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def _name_at(self, index: int) -> str:
        """Return the name of the child at a position, which may be negative. Raise IndexError if there is none."""
        index = operator.index(index)
        if not -len(self) <= index < len(self):
            raise IndexError(f"{type(self).__name__}: there is no module {index} among {len(self)}")
        return list(self._modules)[index]

    def _renumber(self, modules: Iterable[Any]) -> None:
        """Replace all children by ``modules``, named by position."""
        self._modules = {str(i): module for i, module in enumerate(modules)}

    def __setitem__(self, index: int, module: Any) -> None:
        setattr(self, self._name_at(index), module)


class Sequential(_Row):
    """Chain of modules: each is called with the output of the one before.

    Parameters
    ----------
    *args : Module
        Modules, named "0", "1" and so on, or a single `OrderedDict` from names to modules.

    Examples
    --------
    >>> import metatensor as mt
    >>> model = mt.nn.Sequential(mt.nn.Linear(8, 4), mt.nn.ReLU())
    >>> model(mt.empty(2, 8)).shape
    metatensor.Size([2, 4])
    >>> model[1]
    ReLU()
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
        """Add a module at the end and return the container."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> Self:
        """Insert a module before position ``index``, renumber all children and return the container.

        Raises
        ------
        AssertionError
            If ``module`` is not a `Module`.
        IndexError
            If ``index`` is out of range.
        """
        if not isinstance(module, Module):
            raise AssertionError(f"Sequential.insert: expected a Module, got {type(module).__name__}")
        if not -len(self) <= index <= len(self):
            raise IndexError(f"Sequential.insert: there is no position {index} among {len(self)}")
        modules = list(self)
        modules.insert(index, module)
        self._renumber(modules)
        return self

    def extend(self, sequential: Iterable[Module]) -> Self:
        """Add modules at the end and return the container."""
        for module in list(sequential):
            self.append(module)
        return self

    def pop(self, key: int | slice) -> Any:
        """Remove and return the module at a position, or the modules of a slice."""
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
    """List of modules. Their parameters belong to the list, which is not callable itself.

    Parameters
    ----------
    modules : iterable of Module, optional
        Initial elements.

    Examples
    --------
    >>> import metatensor as mt
    >>> layers = mt.nn.ModuleList(mt.nn.Linear(4, 4) for _ in range(3))
    >>> len(layers), layers[-1].weight.shape
    (3, metatensor.Size([4, 4]))
    """

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
        """Add a module at the end and return the list."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Any) -> None:
        """Insert a module before position ``index``.

        As in `list.insert`, an index out of range means the nearest end.
        """
        modules = list(self)
        modules.insert(index, module)
        self._renumber(modules)

    def extend(self, modules: Iterable[Any]) -> Self:
        """Add modules at the end and return the list. Raise TypeError if ``modules`` is not iterable."""
        if not isinstance(modules, Iterable):
            raise TypeError(f"ModuleList: expected an iterable of modules, got {type(modules).__name__}")
        for i, module in enumerate(list(modules), len(self)):
            self.add_module(str(i), module)
        return self

    def pop(self, key: int | slice) -> Any:
        """Remove and return the module at a position, or the modules of a slice."""
        taken = self[key]
        del self[key]
        return taken

    def __iadd__(self, modules: Iterable[Any]) -> Self:
        return self.extend(modules)

    def __add__(self, other: Iterable[Any]) -> ModuleList:
        return ModuleList([*self, *other])

    def __repr__(self) -> str:
        """Return the usual text of a module, with runs of equal children shown once, as "(0-2): 3 x Linear(...)"."""
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
    """Dictionary of modules in insertion order.

    Their parameters belong to the dictionary, which is not callable itself.

    Parameters
    ----------
    modules : mapping or iterable of pairs, optional
        Initial names and modules.

    Examples
    --------
    >>> import metatensor as mt
    >>> layers = mt.nn.ModuleDict({"act": mt.nn.ReLU()})
    >>> layers["out"] = mt.nn.Linear(4, 2)
    >>> list(layers)
    ['act', 'out']
    """

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
        """Remove all modules."""
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Remove and return a module. Raise KeyError if there is none of that name."""
        return self._modules.pop(key)

    def keys(self) -> Iterable[str]:
        """Return the names."""
        return self._modules.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Return pairs of name and module."""
        return self._modules.items()

    def values(self) -> Iterable[Any]:
        """Return the modules."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Add modules from a mapping or an iterable of (name, module) pairs, replacing those of the same names.

        Raises
        ------
        TypeError
            If ``modules``, or one of its elements, is not iterable.
        ValueError
            If an element does not have exactly two parts.
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
