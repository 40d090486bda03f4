"""Reading TorchScript archives as modules."""

from __future__ import annotations

import os
from typing import Any, BinaryIO

import metatensor as mt
from metatensor._core.tensor import Tensor
from metatensor.checkpoint import CheckpointError, UnsupportedTensor
from metatensor.checkpoint._values import Record
from metatensor.checkpoint._zip import Directory
from metatensor.checkpoint.budget import shared
from metatensor.checkpoint.map_location import Places
from metatensor.checkpoint.source import Source
from metatensor.checkpoint.torch_script import FORMAT as TENSORS
from metatensor.checkpoint.torch_script import read_objects
from metatensor.checkpoint.torch_zip import prefix_of
from metatensor.program.torchscript.interpreter import Interpreter
from metatensor.program.torchscript.modules import ScriptedModule
from metatensor.program.torchscript.source import Class, Code
from metatensor.program.torchscript.values import ScriptObject

__all__ = ["is_archive", "load"]

EXTRA = "extra/"
MOST = 1 << 30
"""Maximum bytes of an extra file."""


def is_archive(directory: Directory) -> bool:
    """Return whether a zip file is a TorchScript archive."""
    return TENSORS.has(directory) and any("code/" in name for name in directory)


def load(
    f: str | os.PathLike[str] | BinaryIO, *, device: Any = None, extra: dict[str, Any] | None = None, module_class: Any = ScriptedModule
) -> Any:
    """Read a module from an archive that ``torch.jit.save`` of PyTorch wrote. Nothing in it is executed by Python.

    Parameters
    ----------
    f : str, path or binary file
        The file.
    device : device, optional
        Where its tensors are placed. Default: cpu.
    extra : dict, optional
        Its values are replaced by the bytes of the members ``extra/KEY``, for the keys that the archive has.
    module_class : type, optional
        A subclass of `ScriptedModule` for the modules.

    Returns
    -------
    ScriptedModule
        The module. Its ``missing_operators`` lists the operators that its code names but metatensor lacks.

    Raises
    ------
    CheckpointError
        If the file is not an archive, or damaged.
    """
    if not isinstance(f, (str, bytes, os.PathLike)):
        return _load(f, getattr(f, "name", "archive"), device, extra, module_class)
    with open(f, "rb") as file:
        return _load(file, os.fsdecode(os.fspath(f)), device, extra, module_class)


def _load(file: BinaryIO, name: str, device: Any, extra: dict[str, Any] | None, module_class: Any) -> Any:
    with shared():
        directory = Directory(Source(file, name))
        if not is_archive(directory):
            raise CheckpointError(name, "it is no TorchScript archive: it has no data.pkl, constants.pkl and code")
        value, constants = read_objects(directory, Places("cpu" if device is None else device))
        prefix = prefix_of(directory, "data.pkl") or ""
        interpreter = Interpreter(Code(directory, prefix), list(constants) if isinstance(constants, (list, tuple)) else [])
        if type(value) is not Record:
            raise CheckpointError(name, "its data is not a module")
        try:
            made = _Builder(interpreter, name, module_class).value(value)
        except RecursionError:
            raise CheckpointError(name, "its modules are nested too deeply") from None
        except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ArithmeticError) as error:
            if isinstance(error, NotImplementedError):
                raise
            raise CheckpointError(name, f"its code fails while it is loaded: {error}") from None
        if not isinstance(made, ScriptedModule):
            raise CheckpointError(name, f"its data is an object of class {value.name[:100]}, not a module")
        for key in extra or ():
            if prefix + EXTRA + key in directory:
                extra[key] = directory.read(prefix + EXTRA + key, MOST)  # type: ignore[index]
    return made


class _Builder:
    """Builds modules and objects from the records of a pickle."""

    def __init__(self, interpreter: Interpreter, file: str, module_class: Any) -> None:
        self.interpreter, self.code, self.file, self.module_class = interpreter, interpreter.code, file, module_class
        self._made: dict[int, Any] = {}
        self._under_way: set[int] = set()

    def value(self, value: Any) -> Any:
        """Return a value with modules and objects in place of records."""
        if isinstance(value, (Record, list, dict, tuple)):
            key = id(value)
            if key in self._under_way:
                raise CheckpointError(self.file, "an object contains itself")
            if key not in self._made:
                self._under_way.add(key)
                self._made[key] = self._container(value)
                self._under_way.discard(key)
            return self._made[key]
        if isinstance(value, Tensor):
            return self._made.get(id(value), value)
        if value is None or isinstance(value, (bool, int, float, complex, str, mt.device, UnsupportedTensor)):
            return value
        raise CheckpointError(self.file, f"its data has a value of class {type(value).__name__}")

    def _container(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.value(one) for one in value]
        if isinstance(value, tuple):
            return tuple([self.value(one) for one in value])
        if isinstance(value, dict):
            return {self.value(key): self.value(one) for key, one in value.items()}
        kind = self.code.find_class(value.name)
        if kind.kind == "Module":
            return self._module(kind, value)
        if kind.kind == "NamedTuple":
            return self.interpreter.tuple_of(kind)(*self._fields(kind, value))
        if kind.kind == "Enum":
            return self._member(kind, value)
        state = value.state
        if not isinstance(state, dict) or "__setstate__" in kind.methods:
            made = ScriptObject(kind)
            self._restore(made, kind, state)
            return made
        return ScriptObject(kind, {str(key): self.value(one) for key, one in state.items() if key != "_class"})

    def _fields(self, kind: Class, record: Any) -> list[Any]:
        state = record.state
        values = list(state.values()) if isinstance(state, dict) else list(state) if isinstance(state, (list, tuple)) else []
        if len(values) != len(kind.types):
            raise CheckpointError(self.file, f"a {kind.name[:100]} has {len(values)} values, its class {len(kind.types)}")
        return [self.value(one) for one in values]

    def _member(self, kind: Class, record: Any) -> Any:
        value = self.value(record.state)
        for member in self.interpreter.enum(kind).values():
            if type(member.value) is type(value) and member.value == value:
                return member
        raise CheckpointError(self.file, f"{kind.name[:100]} has no member of value {str(value)[:40]!r}")

    def _restore(self, made: Any, kind: Class, state: Any) -> None:
        """Restore an object's state, with the method of its class if it has one."""
        if "__setstate__" not in kind.methods:
            raise CheckpointError(self.file, f"the state of an object of class {kind.name[:100]} is not a dict")
        self.interpreter.enter(kind.methods["__setstate__"], (made, self.value(state)), {}, list)

    def _module(self, kind: Class, record: Any) -> Any:
        made = self.module_class(self.interpreter, kind)
        state = record.state
        if "__setstate__" in kind.methods:
            self._restore(made, kind, state)
            return made
        if state is None:
            state = {}
        if not isinstance(state, dict) or not all(isinstance(key, str) for key in state):
            raise CheckpointError(self.file, f"the state of a module of class {kind.name[:100]} is not a dict of attributes")
        values = {key: self._tensor(kind, key, value) for key, value in state.items() if isinstance(value, Tensor)}
        values |= {key: self.value(value) for key, value in state.items() if key not in values}  # after the parameters in them
        try:
            for name in state:
                self._attribute(made, kind, name, values[name])
        except (KeyError, TypeError) as error:
            raise CheckpointError(self.file, f"a {kind.name[:100]} has an attribute that no module has: {error}") from None
        return made

    def _tensor(self, kind: Class, name: str, tensor: Tensor) -> Tensor:
        """Return a tensor, as a parameter if it is one. A tensor that occurs twice gives the same parameter."""
        if id(tensor) not in self._made and name in kind.parameters:
            self._made[id(tensor)] = mt.nn.Parameter(tensor.detach(), requires_grad=tensor.requires_grad)
        return self._made.get(id(tensor), tensor)

    def _attribute(self, made: Any, kind: Class, name: str, value: Any) -> None:
        if isinstance(value, ScriptedModule):
            made.add_module(name, value)
        elif name in kind.parameters and (value is None or isinstance(value, mt.nn.Parameter)):
            made.register_parameter(name, value)
        elif name in kind.buffers and (value is None or isinstance(value, Tensor)):
            made.register_buffer(name, value)
        elif name == "training":
            made.training = bool(value)
        else:
            made._attributes[name] = value

