"""Finding what is inside a module: its parameters, buffers and submodules, by walking or by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from metatensor import Tensor
    from metatensor.nn.module import Module
    from metatensor.nn.parameter import Parameter

__all__ = ["Members"]


class Members:
    """The walking and finding methods of `Module`.

    Walks are in order of registration, a module before those below it. With ``remove_duplicate`` what is
    registered under several names is given once, under the first.
    """

    __slots__ = ()

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module (named ``prefix``) and all below it, with dotted names. ``memo`` holds those to leave out."""
        if memo is None:
            memo = set()
        waiting: list[tuple[str, Any]] = [(prefix, self)]
        while waiting:
            name, module = waiting.pop()
            if module in memo:
                continue
            if module is not self and type(module).named_modules is not Members.named_modules:
                yield from module.named_modules(memo, name, remove_duplicate)
                continue
            if remove_duplicate:
                memo.add(module)
            yield name, module
            start = name + "." if name else ""
            waiting += [(start + key, child) for key, child in reversed(module._modules.items()) if child is not None]

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all below it."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules directly below, each once, with names."""
        first: dict[Module, str] = {}
        for name, module in self._modules.items():
            first.setdefault(module, name)
        yield from ((name, module) for module, name in first.items() if module is not None)

    def children(self) -> Iterator[Module]:
        """The modules directly below, each once."""
        for _, module in self.named_children():
            yield module

    def _named_members(
        self,
        get_members_fn: Callable[[Module], Iterable[tuple[str, Any]]],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        """What ``get_members_fn`` finds in each module, with dotted names."""
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        seen: set[int] = set()
        for path, module in modules:
            start = path + "." if path else ""
            for name, value in get_members_fn(module):
                if value is None or id(value) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(value))
                yield start + name, value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """The parameters with their names; without ``recurse`` this module's own only."""
        return self._named_members(lambda module: module._parameters.items(), prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters, each once."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """The buffers, persistent or not, with their names; without ``recurse`` this module's own only."""
        return self._named_members(lambda module: module._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers, persistent or not, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def get_submodule(self, target: str) -> Module:
        """The module at a dotted path; ``""`` is this one. AttributeError where there is none."""
        from metatensor.nn.module import Module

        module: Any = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{type(module).__name__} has no attribute {name!r} (looking for {target!r})")
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f"{name!r} is a {type(module).__name__}, not a Module (looking for {target!r})")
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put ``module`` at a dotted path, in place of the module there or, unless ``strict``, as a new one.

        ValueError for an empty path or something that is not a Module; AttributeError where the parent does not
        exist, where the path leads to something that is not a Module, or, if ``strict``, to nothing.
        """
        from metatensor.nn.module import Module

        if not target:
            raise ValueError("set_submodule: the path of the module to replace is empty")
        if not isinstance(module, Module):
            raise ValueError(f"set_submodule: expected a Module, got {type(module).__name__}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{type(parent).__name__} has no attribute {name!r} (replacing {target!r})")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise AttributeError(f"{name!r} is a {type(getattr(parent, name)).__name__}, not a Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a dotted path. AttributeError where there is none."""
        from metatensor.nn.parameter import Parameter

        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        found = getattr(module, name, None)
        if not isinstance(found, Parameter):
            raise AttributeError(f"{type(module).__name__} has no parameter {name!r} (looking for {target!r})")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a dotted path. AttributeError where there is none."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if module._buffers.get(name) is None:
            raise AttributeError(f"{type(module).__name__} has no buffer {name!r} (looking for {target!r})")
        return module._buffers[name]
