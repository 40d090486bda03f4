"""The code of a TorchScript archive: classes and functions by name.

The members ``code/**.py`` are written in a subset of Python. Python's parser builds trees from them; nothing is compiled or
executed by Python.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from typing import Any

from metatensor.checkpoint import CheckpointError
from metatensor.checkpoint._zip import Directory
from metatensor.checkpoint.budget import current

__all__ = ["Class", "Code", "Function"]

MOST = 1 << 26
"""Maximum bytes of a source member."""
_RATIO = 32
"""Ratio of decompressed to compressed size of a source above which the budget is charged."""


class Function:
    """A function or method: its parameters with their types and defaults, and its statements.

    Attributes
    ----------
    name : str
        The qualified name, such as ``"__torch__.Net.forward"``.
    names : list of str
        Names of the parameters, with ``self`` for methods.
    types : list of expr or None
        Their annotations.
    defaults : dict
        Expressions by name.
    body : list of stmt
        Statements.
    """

    def __init__(self, name: str, node: ast.FunctionDef, lines: list[str], where: str) -> None:
        parameters = node.args
        if parameters.vararg or parameters.kwarg or parameters.kwonlyargs or parameters.posonlyargs or node.decorator_list:
            raise CheckpointError(where, f"{name} has parameters that TorchScript does not have")
        self.name, self.node, self._lines = name, node, lines
        self.names = [one.arg for one in parameters.args]
        self.types = [one.annotation for one in parameters.args]
        defaults = parameters.defaults
        self.defaults = dict(zip(self.names[len(self.names) - len(defaults) :], defaults)) if defaults else {}
        self.body = node.body

    @property
    def source(self) -> str:
        """The source, without the indentation of its first line."""
        lines = self._lines[self.node.lineno - 1 : self.node.end_lineno]
        cut = self.node.col_offset
        return "\n".join(line[cut:] if line[:cut].isspace() or not cut else line for line in lines) + "\n"


class Class:
    """A class: a module, a plain class, a named tuple, an enumeration or an interface.

    Attributes
    ----------
    name : str
        The qualified name.
    kind : str
        "Module", "NamedTuple", "Enum", "Interface" or "object".
    methods : dict of Function
        Methods by name.
    types : dict of expr
        Annotations of attributes by name, in order.
    constants : dict of expr
        Expressions of constant attributes and of members of an enumeration by name.
    parameters, buffers : tuple of str
        Names of attributes that are parameters and buffers.
    """

    def __init__(self, name: str, node: ast.ClassDef, lines: list[str], where: str) -> None:
        self.name = name
        base = node.bases[0].id if node.bases and isinstance(node.bases[0], ast.Name) else "object"
        self.kind = base if base in ("Module", "NamedTuple", "Enum") else "Interface" if "Interface" in base else "object"
        self.methods: dict[str, Function] = {}
        self.types: dict[str, Any] = {}
        self.constants: dict[str, Any] = {}
        lists: dict[str, tuple[str, ...]] = {}
        for statement in node.body:
            if isinstance(statement, ast.FunctionDef):
                self.methods[statement.name] = Function(f"{name}.{statement.name}", statement, lines, where)
            elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                self.types[statement.target.id] = statement.annotation
                if statement.value is not None:
                    self.constants[statement.target.id] = statement.value
            elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                target, value = statement.targets[0], statement.value
                if isinstance(target, ast.Name) and isinstance(value, ast.List):
                    names = [one.value for one in value.elts if isinstance(one, ast.Constant)]
                    lists[target.id] = tuple([name for name in names if isinstance(name, str)])
                elif isinstance(target, ast.Name):
                    self.constants[target.id] = value
                elif isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant) and isinstance(target.slice.value, str):
                    self.types[target.slice.value] = value  # __annotations__["0"] = ...
        self.parameters, self.buffers = lists.get("__parameters__", ()), lists.get("__buffers__", ())

    @property
    def short(self) -> str:
        """The last part of the name."""
        return self.name.rpartition(".")[2]


class Code:
    """The classes and functions of an archive.

    Parameters
    ----------
    directory : Directory
        The archive.
    prefix : str
        Prefix of the names of its members.
    """

    def __init__(self, directory: Directory, prefix: str) -> None:
        self.file: str = directory.file
        self._prefix = f"{prefix}code/"
        self._units: dict[str, dict[str, Any]] = {}
        for member in [name for name in directory if name.startswith(self._prefix) and name.endswith(".py")]:
            self._units[member] = self._parsed(member, _text(directory, member))

    def __deepcopy__(self, memo: Any) -> Code:
        return self

    def find(self, name: str) -> Class | Function | None:
        """Return the class or function with a qualified name, or None if the archive has none."""
        folder, _, last = name.rpartition(".")
        return self._units.get(f"{self._prefix}{folder.replace('.', '/')}.py", {}).get(last)

    def find_class(self, name: str) -> Class:
        """Return the class with a qualified name. Raise `CheckpointError` if the archive has none."""
        found = self.find(name)
        if not isinstance(found, Class):
            raise CheckpointError(self.file, f"its code has no class {name[:100]}")
        return found

    def __iter__(self) -> Iterator[Class | Function]:
        for unit in self._units.values():
            yield from unit.values()

    def _parsed(self, member: str, text: str) -> dict[str, Any]:
        module = member[len(self._prefix) : -3].replace("/", ".")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the parser's about literals
                tree = ast.parse(text)
        except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
            raise CheckpointError(self.file, f"{member[:100]!r} is no TorchScript: {str(error)[:100]}") from None
        lines = text.split("\n")
        found: dict[str, Any] = {}
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                found[node.name] = Class(f"{module}.{node.name}", node, lines, self.file)
            elif isinstance(node, ast.FunctionDef):
                found[node.name] = Function(f"{module}.{node.name}", node, lines, self.file)
        return found


def _text(directory: Directory, member: str) -> str:
    _, packed = directory.place_of(member)
    size = directory.size_of(member)
    if size > _RATIO * packed:
        current().charge(directory.file, size - _RATIO * packed, f"{member[:60]!r} is decompressed to {size:,} bytes, which is")
    try:
        return str(directory.read(member, MOST).decode("utf-8"))
    except UnicodeDecodeError as error:
        raise CheckpointError(directory.file, f"{member[:60]!r} is not text: {error.reason}") from None
