"""Access to the tensors of a module by dotted name: get, set, swap and delete."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from metatensor import Tensor
from metatensor.nn.module import Module

__all__ = ["NamedMemberAccessor", "set_tensor", "swap_submodule", "swap_tensor"]

_MISSING: Any = object()


def _check(module: Any, name: str, tensor: Any) -> None:
    """Raise TypeError for a wrong module or tensor, and KeyError for a name that is empty or has dots."""
    if not isinstance(module, Module):
        raise TypeError(f"expected a Module, got {type(module).__name__}")
    if tensor is not _MISSING and tensor is not None and not isinstance(tensor, Tensor):
        raise TypeError(f"expected a tensor, got {type(tensor).__name__}")
    if "." in name or not name:
        raise KeyError(f"the name of a tensor must not be empty nor have dots, got {name!r}")


def set_tensor(module: Any, name: str, tensor: Any) -> None:
    """Set the parameter, buffer or attribute ``name`` of a module to ``tensor``, without registration."""
    _check(module, name, tensor)
    for members in (module._parameters, module._buffers):
        if name in members:
            members[name] = tensor
            return
    setattr(module, name, tensor)


def swap_tensor(module: Any, name: str, tensor: Any, allow_missing: bool = False) -> Any:
    """Set the tensor ``name`` of a module and return the previous one.

    If ``tensor`` is `_MISSING`, delete the entry instead. Raise AttributeError if there was no entry, unless
    ``allow_missing``.
    """
    _check(module, name, tensor)
    for members in (module._parameters, module._buffers):
        if name in members:
            before = members[name]
            if tensor is _MISSING:
                del members[name]
            else:
                members[name] = tensor
            return before
    before = getattr(module, name, _MISSING)
    if before is _MISSING and not allow_missing:
        raise AttributeError(f"{type(module).__name__} has no attribute {name!r}")
    if before is not _MISSING and before is not None and not isinstance(before, Tensor):
        raise TypeError(f"{type(module).__name__}.{name} is a {type(before).__name__}, not a tensor")
    if tensor is not _MISSING:
        setattr(module, name, tensor)
    elif before is not _MISSING:
        delattr(module, name)
    return before


def swap_submodule(module: Any, name: str, submodule: Any) -> Any:
    """Replace a submodule and return the previous one. Raise KeyError if there was none."""
    _check(module, name, None)
    if not isinstance(submodule, Module):
        raise TypeError(f"expected a Module, got {type(submodule).__name__}")
    if name not in module._modules:
        raise KeyError(f"{type(module).__name__} has no submodule {name!r}")
    before = module._modules[name]
    if not isinstance(before, Module):
        raise TypeError(f"{type(module).__name__}.{name} is not a Module")
    module._modules[name] = submodule
    return before


class NamedMemberAccessor:
    """Access to tensors and submodules of a module by dotted name.

    Methods raise AttributeError if a name does not exist and TypeError if it belongs to something else.

    Parameters
    ----------
    module : Module
        Module to access.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.nn.utils._named_member_accessor import NamedMemberAccessor
    >>> model = mt.nn.Sequential(mt.nn.Linear(3, 2))
    >>> NamedMemberAccessor(model).get_tensor("0.weight").shape
    metatensor.Size([2, 3])
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.memo: dict[str, Any] = {"": module}

    def get_submodule(self, name: str) -> Any:
        """Return the submodule ``name``."""
        if name not in self.memo:
            path, _, last = name.rpartition(".")
            above = self.get_submodule(path)
            if not hasattr(above, last):
                raise AttributeError(f"{type(above).__name__} has no attribute {last!r}")
            found = getattr(above, last)
            if not isinstance(found, Module):
                raise TypeError(f"{name!r} is a {type(found).__name__}, not a Module")
            self.memo[name] = found
        return self.memo[name]

    def _place(self, name: str) -> tuple[Any, str]:
        path, _, last = name.rpartition(".")
        return self.get_submodule(path), last

    def swap_submodule(self, path: str, value: Module) -> Any:
        """Replace a submodule and return the previous one."""
        return swap_submodule(*self._place(path), value)

    def get_tensor(self, name: str) -> Any:
        """Return the tensor ``name``."""
        module, last = self._place(name)
        if not hasattr(module, last):
            raise AttributeError(f"{type(module).__name__} has no attribute {name!r}")
        found = getattr(module, last)
        if found is not None and not isinstance(found, Tensor):
            raise TypeError(f"{name!r} is a {type(found).__name__}, not a tensor")
        return found

    def set_tensor(self, name: str, value: Any) -> None:
        """Set the tensor ``name``."""
        set_tensor(*self._place(name), value)

    def del_tensor(self, name: str) -> None:
        """Delete the tensor ``name``."""
        self.get_tensor(name)
        delattr(*self._place(name))

    def swap_tensor(self, name: str, value: Any, allow_missing: bool = False) -> Any:
        """Set the tensor ``name`` and return the previous one."""
        return swap_tensor(*self._place(name), value, allow_missing)

    def get_tensors(self, names: Iterable[str]) -> list[Any]:
        """Return the tensors of the given names."""
        return [self.get_tensor(name) for name in names]

    def set_tensors(self, names: Iterable[str], values: Iterable[Any]) -> None:
        """Set several tensors. Raise AssertionError if the numbers of names and values differ."""
        for name, value in self._pairs(names, values):
            self.set_tensor(name, value)

    def set_tensors_dict(self, named_tensors: dict[str, Any]) -> None:
        """Set the tensors of a dict."""
        for name, value in named_tensors.items():
            self.set_tensor(name, value)

    def del_tensors(self, names: Iterable[str]) -> None:
        """Delete the tensors of the given names."""
        for name in names:
            self.del_tensor(name)

    def swap_tensors(self, names: Iterable[str], values: Iterable[Any], allow_missing: bool = False) -> list[Any]:
        """Set several tensors and return the previous ones.

        Raise AssertionError if the numbers of names and values differ.
        """
        return [self.swap_tensor(name, value, allow_missing) for name, value in self._pairs(names, values)]

    def swap_tensors_dict(self, named_tensors: dict[str, Any], allow_missing: bool = False) -> tuple[dict[str, Any], list[str]]:
        """Set the tensors of a dict. Return the previous ones as a dict, and the names that did not exist.

        Unless ``allow_missing``, restore all tensors and raise RuntimeError if a name does not exist.
        """
        before: dict[str, Any] = {}
        try:
            for name, tensor in named_tensors.items():
                before[name] = self.swap_tensor(name, tensor, allow_missing=True)
            missing = [name for name, tensor in before.items() if tensor is _MISSING]
            if missing and not allow_missing:
                raise RuntimeError(f"{type(self.module).__name__} has no tensors {missing}")
        except Exception:
            for name, tensor in before.items():
                self.swap_tensor(name, tensor, allow_missing=True)
            raise
        return before, missing

    def check_keys(self, keys: Iterable[str]) -> tuple[list[str], list[str]]:
        """Return the names of the module's tensors missing in ``keys``, and the keys that do not name a tensor."""
        given, own = set(keys), {name for name, _ in self.named_tensors(remove_duplicate=False)}
        return list(own - given), list(given - own)

    def named_parameters(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Any]]:
        """Yield (name, parameter) pairs of the module."""
        yield from self.module.named_parameters(remove_duplicate=remove_duplicate)

    def named_buffers(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Any]]:
        """Yield (name, buffer) pairs of the module."""
        yield from self.module.named_buffers(remove_duplicate=remove_duplicate)

    def named_tensors(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Any]]:
        """Yield (name, tensor) pairs of the module: first its parameters, then its buffers."""
        yield from self.named_parameters(remove_duplicate)
        yield from self.named_buffers(remove_duplicate)

    def named_modules(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Any]]:
        """Yield (name, module) pairs: the module and its submodules."""
        yield from self.module.named_modules(remove_duplicate=remove_duplicate)

    @staticmethod
    def _pairs(names: Iterable[str], values: Iterable[Any]) -> list[tuple[str, Any]]:
        names, values = list(names), list(values)
        if len(names) != len(values):
            raise AssertionError(f"expected a value for each name, got {len(names)} names and {len(values)} values")
        return list(zip(names, values, strict=True))
