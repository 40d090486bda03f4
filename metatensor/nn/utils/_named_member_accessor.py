"""Tensors of a module by dotted name: read, put in another's place, exchanged and taken away."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from metatensor import Tensor
from metatensor.nn.module import Module

__all__ = ["NamedMemberAccessor", "set_tensor", "swap_submodule", "swap_tensor"]

_MISSING: Any = object()


def _check(module: Any, name: str, tensor: Any) -> None:
    """TypeError for what is no module or no tensor, KeyError for what is no name of a member."""
    if not isinstance(module, Module):
        raise TypeError(f"expected a Module, got {type(module).__name__}")
    if tensor is not _MISSING and tensor is not None and not isinstance(tensor, Tensor):
        raise TypeError(f"expected a tensor, got {type(tensor).__name__}")
    if "." in name or not name:
        raise KeyError(f"the name of a tensor must not be empty nor have dots, got {name!r}")


def set_tensor(module: Any, name: str, tensor: Any) -> None:
    """Put a tensor where a parameter, a buffer or another attribute of that name is."""
    _check(module, name, tensor)
    for members in (module._parameters, module._buffers):
        if name in members:
            members[name] = tensor
            return
    setattr(module, name, tensor)


def swap_tensor(module: Any, name: str, tensor: Any, allow_missing: bool = False) -> Any:
    """`set_tensor` that returns what was there; a tensor that is missing takes that away. AttributeError where none was."""
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
    """Put a submodule in another's place, which is returned. KeyError where there is none."""
    _check(module, name, None)
    if not isinstance(submodule, Module):
        raise TypeError(f"expected a Module, got {type(submodule).__name__}")
    if name not in module._modules:
        raise KeyError(f"{type(module).__name__} has no submodule {name!r}")
    before = module._modules[name]
    if not isinstance(before, Module):
        raise TypeError(f"{type(module).__name__}.{name} is no Module")
    module._modules[name] = submodule
    return before


class NamedMemberAccessor:
    """The tensors and submodules of a module by dotted name. AttributeError and TypeError for names of others."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.memo: dict[str, Any] = {"": module}

    def get_submodule(self, name: str) -> Any:
        """The submodule of that name."""
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
        """Put a submodule in another's place, which is returned."""
        return swap_submodule(*self._place(path), value)

    def get_tensor(self, name: str) -> Any:
        """The tensor of that name."""
        module, last = self._place(name)
        if not hasattr(module, last):
            raise AttributeError(f"{type(module).__name__} has no attribute {name!r}")
        found = getattr(module, last)
        if found is not None and not isinstance(found, Tensor):
            raise TypeError(f"{name!r} is a {type(found).__name__}, not a tensor")
        return found

    def set_tensor(self, name: str, value: Any) -> None:
        """Put a tensor in another's place."""
        set_tensor(*self._place(name), value)

    def del_tensor(self, name: str) -> None:
        """Take a tensor away."""
        self.get_tensor(name)
        delattr(*self._place(name))

    def swap_tensor(self, name: str, value: Any, allow_missing: bool = False) -> Any:
        """Put a tensor in another's place, which is returned."""
        return swap_tensor(*self._place(name), value, allow_missing)

    def get_tensors(self, names: Iterable[str]) -> list[Any]:
        """The tensors of these names."""
        return [self.get_tensor(name) for name in names]

    def set_tensors(self, names: Iterable[str], values: Iterable[Any]) -> None:
        """`set_tensor` for each name and value. AssertionError where there are not as many of them."""
        for name, value in self._pairs(names, values):
            self.set_tensor(name, value)

    def set_tensors_dict(self, named_tensors: dict[str, Any]) -> None:
        """`set_tensor` for each name and value of a dict."""
        for name, value in named_tensors.items():
            self.set_tensor(name, value)

    def del_tensors(self, names: Iterable[str]) -> None:
        """`del_tensor` for each name."""
        for name in names:
            self.del_tensor(name)

    def swap_tensors(self, names: Iterable[str], values: Iterable[Any], allow_missing: bool = False) -> list[Any]:
        """`swap_tensor` for each name and value. AssertionError where there are not as many of them."""
        return [self.swap_tensor(name, value, allow_missing) for name, value in self._pairs(names, values)]

    def swap_tensors_dict(self, named_tensors: dict[str, Any], allow_missing: bool = False) -> tuple[dict[str, Any], list[str]]:
        """`swap_tensor` for a dict: what was there, and the names that were not. RuntimeError, and no change, for such."""
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
        """Names of the module's tensors that are not among these, and those of these that it has not."""
        given, own = set(keys), {name for name, _ in self.named_tensors(remove_duplicate=False)}
        return list(own - given), list(given - own)

    def named_parameters(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Any]]:
        """The module's parameters."""
        yield from self.module.named_parameters(remove_duplicate=remove_duplicate)

    def named_buffers(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Any]]:
        """The module's buffers."""
        yield from self.module.named_buffers(remove_duplicate=remove_duplicate)

    def named_tensors(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Any]]:
        """The module's parameters, then its buffers."""
        yield from self.named_parameters(remove_duplicate)
        yield from self.named_buffers(remove_duplicate)

    def named_modules(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Any]]:
        """The module and those below it."""
        yield from self.module.named_modules(remove_duplicate=remove_duplicate)

    @staticmethod
    def _pairs(names: Iterable[str], values: Iterable[Any]) -> list[tuple[str, Any]]:
        names, values = list(names), list(values)
        if len(names) != len(values):
            raise AssertionError(f"expected a value for each name, got {len(names)} names and {len(values)} values")
        return list(zip(names, values, strict=True))
