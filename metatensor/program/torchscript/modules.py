"""`ScriptedModule`: a module whose methods are code of a TorchScript archive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import metatensor as mt
from metatensor._core.tensor import Tensor
from metatensor.program.torchscript.interpreter import Interpreter
from metatensor.program.torchscript.listing import listing, operators
from metatensor.program.torchscript.source import Class
from metatensor.program.torchscript.values import ScriptObject

__all__ = ["ScriptedModule"]


class ScriptedModule(mt.nn.Module):
    """A module of a TorchScript archive. Created by `load`.

    It has the parameters, buffers, submodules, attributes and methods of the original. Its methods are interpreted. Where code
    creates a tensor or names a device, the common device of the module and its arguments is used, if there is one.

    Parameters
    ----------
    interpreter : Interpreter
        The interpreter that runs the code.
    kind : Class
        The class in the archive.
    """

    def __init__(self, interpreter: Interpreter, kind: Class) -> None:
        mt.nn.Module.__init__(self)
        self.__dict__["_interpreter"], self.__dict__["_class"] = interpreter, kind
        self.__dict__["_attributes"] = {}

    # Access by the code of the archive --------------------------------------------------------

    def _get(self, name: str) -> Any:
        """Return an attribute, as the code of the archive sees it."""
        for place in (self._parameters, self._buffers, self._modules, self._attributes):
            if name in place:
                return place[name]  # type: ignore[index]
        if name == "training":
            return self.training
        if name in self._class.constants:
            return self._interpreter.constant_of(self._class, name)
        raise AttributeError(f"{self.original_name!r} has no attribute {name!r:.80}")

    def _set(self, name: str, value: Any) -> None:
        """Set an attribute, as the code of the archive does."""
        if name == "training":
            self.training = bool(value)
        elif name in self._buffers:
            self._buffers[name] = value
        elif name in self._parameters and (value is None or isinstance(value, mt.nn.Parameter)):
            self._parameters[name] = value
        elif name in self._modules:
            self._modules[name] = value
        else:
            self._parameters.pop(name, None)
            self._attributes[name] = value

    def _call_method(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a method, as the code of the archive does."""
        if name == "forward":
            return self(*args, **kwargs)
        return self._interpreted(name, args, kwargs)

    def _interpreted(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        function = self._class.methods.get(name)
        if function is None:
            raise NotImplementedError(f"{self.original_name} has no method {name!r:.80}")
        return self._interpreter.enter(function, (self, *args), kwargs, self._tensors)

    def _tensors(self) -> list[Any]:
        return [*self.parameters(), *self.buffers()]

    # Access by Python ---------------------------------------------------------------------------

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the method ``forward`` of the archive.

        Raises
        ------
        NotImplementedError
            If the code reaches an operator that metatensor does not have.
        RuntimeError
            If the arguments do not fit, or the code takes too many steps.
        """
        return self._interpreted("forward", args, kwargs)

    def __getattr__(self, name: str) -> Any:
        found = self.__dict__.get("_class")
        if found is None or name.startswith("__"):
            raise AttributeError(name)
        if name in self._attributes:
            return self._attributes[name]
        if name in found.methods:
            return lambda *args, **kwargs: self._interpreted(name, args, kwargs)
        if name in found.constants:
            return self._interpreter.constant_of(found, name)
        return mt.nn.Module.__getattr__(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__.get("_attributes", ()):
            self._attributes[name] = value
        else:
            super().__setattr__(name, value)

    def __len__(self) -> int:
        if "__len__" in self._class.methods:
            return int(self._interpreted("__len__", (), {}))
        raise TypeError(f"object of type {self.original_name!r} has no len()")

    def __bool__(self) -> bool:
        return True

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Any:
        before = {id(t): (place, name) for module in self.modules() for place in (module._parameters, module._buffers)
                  for name, t in place.items() if t is not None}  # fmt: skip
        if not any(getattr(module, "_attributes", None) for module in self.modules()):
            return super()._apply(fn, recurse)
        kept = [t for module in self.modules() for t in (*module._parameters.values(), *module._buffers.values())]
        super()._apply(fn, recurse)

        def one(t: Tensor) -> Tensor:
            if id(t) in before:
                place, name = before[id(t)]
                return place[name]  # type: ignore[index, return-value]
            with mt.no_grad():
                return fn(t)

        _each_attribute(self, one)
        del kept
        return self

    @property
    def original_name(self) -> str:
        """Name of the class of the original."""
        return self._class.short

    @property
    def script_class(self) -> str:
        """Name of the class in the archive."""
        return self._class.name

    @property
    def code(self) -> str:
        """The source of ``forward`` in the archive."""
        return self._source("forward")

    def _source(self, method: str) -> str:
        if method not in self._class.methods:
            raise AttributeError(f"{self.original_name} has no method {method!r}")
        return self._class.methods[method].source

    @property
    def graph(self) -> str:
        """The calls of ``forward``, one in each line."""
        self._source("forward")
        return listing(self._class.methods["forward"])

    @property
    def methods(self) -> list[str]:
        """Names of the methods that the archive has for the module."""
        return list(self._class.methods)

    @property
    def operators(self) -> dict[str, bool]:
        """The operators in the code of the module and its submodules by name, and whether metatensor has each.

        The code may have branches that no call takes, so a module can run although an operator is missing.
        """
        return operators(self._interpreter.code, {module.script_class for module in self.modules() if isinstance(module, ScriptedModule)})

    @property
    def missing_operators(self) -> list[str]:
        """The names of those that metatensor does not have. A call that reaches one raises NotImplementedError."""
        return [name for name, known in self.operators.items() if not known]

    def _get_name(self) -> str:
        return self.original_name

    def extra_repr(self) -> str:
        """Return the name of the class of the original."""
        return f"original_name={self.original_name}"


def _each_attribute(root: Any, function: Callable[[Tensor], Tensor]) -> None:
    """Replace the tensors in attributes of modules that are neither parameters nor buffers."""
    seen: set[int] = set()

    def mapped(value: Any) -> Any:
        if isinstance(value, Tensor):
            return function(value)
        if isinstance(value, list):
            if id(value) not in seen:
                seen.add(id(value))
                value[:] = [mapped(one) for one in value]
        elif isinstance(value, dict):
            if id(value) not in seen:
                seen.add(id(value))
                value.update({key: mapped(one) for key, one in value.items()})
        elif type(value) is tuple:
            return tuple([mapped(one) for one in value])
        elif isinstance(value, ScriptObject) and id(value) not in seen:
            seen.add(id(value))
            vars(value).update({key: mapped(one) for key, one in vars(value).items() if key != "_class"})
        return value

    for module in root.modules():
        for name, value in list(getattr(module, "_attributes", {}).items()):
            module._attributes[name] = mapped(value)
