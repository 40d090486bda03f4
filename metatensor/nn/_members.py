"""Methods of `Module` that find parameters, buffers and submodules, by iteration or by name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from metatensor import Tensor
    from metatensor.nn.module import Module
    from metatensor.nn.parameter import Parameter

__all__ = ["Members"]


class Members:
    """Methods of `Module` that iterate over its members or look them up.

    Iteration follows the order of registration, and a module comes before its submodules. With ``remove_duplicate`` an
    object that is registered several times is yielded once, under its first name.
    """

    __slots__ = ()

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Yield (name, module) for this module and all submodules.

        Parameters
        ----------
        memo : set of Module, optional
            Modules to skip. Modules that are yielded are added to it if ``remove_duplicate``.
        prefix : str
            Name of this module, put before the dotted names of the others. Default "".
        remove_duplicate : bool
            Yield a module that is registered several times only once. Default True.

        Raises
        ------
        RecursionError
            If a module contains itself and `remove_duplicate` is False, because it then has infinitely many names.

        Examples
        --------
        >>> import metatensor as mt
        >>> [name for name, _ in mt.nn.Sequential(mt.nn.ReLU()).named_modules()]
        ['', '0']
        """
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
            elif name.count(".") > sys.getrecursionlimit():
                raise RecursionError(f"named_modules(): {name[:40]}... is too deep; a module contains itself")
            yield name, module
            start = name + "." if name else ""
            waiting += [(start + key, child) for key, child in reversed(module._modules.items()) if child is not None]

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """Yield this module and all submodules."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield (name, module) for the direct submodules, each of them once."""
        first: dict[Module, str] = {}
        for name, module in self._modules.items():
            first.setdefault(module, name)
        yield from ((name, module) for module, name in first.items() if module is not None)

    def children(self) -> Iterator[Module]:
        """Yield the direct submodules, each of them once."""
        for _, module in self.named_children():
            yield module

    def _named_members(
        self,
        get_members_fn: Callable[[Module], Iterable[tuple[str, Any]]],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        """Yield (dotted name, member) for the pairs that ``get_members_fn`` returns for each module."""
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
        """Yield (name, parameter) for all parameters.

        Parameters
        ----------
        prefix : str
            Put before the names. Default "".
        recurse : bool
            Include submodules. Default True.
        remove_duplicate : bool
            Yield a parameter that is registered several times only once. Default True.

        Examples
        --------
        >>> import metatensor as mt
        >>> [(name, p.shape) for name, p in mt.nn.Linear(3, 2).named_parameters()]
        [('weight', metatensor.Size([2, 3])), ('bias', metatensor.Size([2]))]
        """
        return self._named_members(lambda module: module._parameters.items(), prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yield all parameters, each of them once. Without ``recurse``, yield only this module's own."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Yield (name, buffer) for all buffers, persistent or not. See `named_parameters` for the parameters."""
        return self._named_members(lambda module: module._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yield all buffers, persistent or not, each of them once.

        Without ``recurse``, yield only this module's own.
        """
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def get_submodule(self, target: str) -> Module:
        """Return the submodule with a dotted name. The empty name means this module.

        Raise AttributeError if there is none or if the name belongs to something else.

        Examples
        --------
        >>> import metatensor as mt
        >>> mt.nn.Sequential(mt.nn.ReLU(), mt.nn.Tanh()).get_submodule("1")
        Tanh()
        """
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
        """Replace the submodule with a dotted name.

        Parameters
        ----------
        target : str
            Dotted name.
        module : Module
            Replacement.
        strict : bool
            Require that the name exists. By default a missing one is added.

        Raises
        ------
        ValueError
            If ``target`` is empty or ``module`` is not a Module.
        AttributeError
            If the parent does not exist, if the name belongs to something other than a module, or if ``strict`` and the
            name does not exist.
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
        """Return the parameter with a dotted name. Raise AttributeError if there is none."""
        from metatensor.nn.parameter import Parameter

        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        found = getattr(module, name, None)
        if not isinstance(found, Parameter):
            raise AttributeError(f"{type(module).__name__} has no parameter {name!r} (looking for {target!r})")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """Return the buffer with a dotted name. Raise AttributeError if there is none."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if module._buffers.get(name) is None:
            raise AttributeError(f"{type(module).__name__} has no buffer {name!r} (looking for {target!r})")
        return module._buffers[name]
