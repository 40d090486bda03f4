"""Python source code of graphs."""

from __future__ import annotations

import builtins
import cmath
import keyword
import math
import operator
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import metatensor as mt
from metatensor._core.dtype import spelling
from metatensor._core.op import Op
from metatensor.overloads import OpOverload
from metatensor.program.fx.node import Node

if TYPE_CHECKING:
    from metatensor.program.fx.graph import Graph

__all__ = ["PythonCode", "python_code"]

_BETWEEN = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.floordiv: "//", operator.mod: "%",
    operator.pow: "**", operator.matmul: "@", operator.lshift: "<<", operator.rshift: ">>", operator.and_: "&", operator.or_: "|",
    operator.xor: "^", operator.eq: "==", operator.ne: "!=", operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">=",
}  # fmt: skip
_BEFORE = {operator.neg: "-", operator.pos: "+", operator.invert: "~"}
_PLAIN = (str, bytes, bool, int, float, complex, type(None))


class PythonCode(NamedTuple):
    """The source of a function, and the objects that it refers to by name."""

    src: str
    globals: dict[str, Any]


def python_code(graph: Graph, root_module: str = "self") -> PythonCode:
    """Return a graph as a method ``forward``. Executing ``src`` with ``globals`` defines it."""
    return _Writer(graph, root_module).function()


class _Writer:
    """Writes the source of one graph and collects the objects that it refers to."""

    def __init__(self, graph: Graph, root: str) -> None:
        self.nodes, self.root = graph.nodes, root
        self.globals: dict[str, Any] = {}
        self.taken = {root, *(node.name for node in self.nodes)}
        self.taken |= {node.target.lstrip("*") for node in self.nodes if node.op == "placeholder"}

    def function(self) -> PythonCode:
        parameters, body = [self.root], []
        for node in self.nodes:
            if node.op == "placeholder":
                default = f"={self.value(node.args[0])}" if node.args else ""
                parameters.append(node.target + default)
                if node.target.lstrip("*") != node.name:
                    body.append(f"{node.name} = {node.target.lstrip('*')}")
            elif node.op == "output":
                body.append(f"return {self.value(node.args[0])}")
            else:
                body.append(f"{node.name} = {self.expression(node)}")
        lines = [f"def forward({', '.join(parameters)}):", *(f"    {line}" for line in body or ["pass"])]
        return PythonCode("\n".join(lines) + "\n", self.globals)

    def expression(self, node: Node) -> str:
        """Return an expression for the operation of a node."""
        if node.op == "get_attr":
            return self.attribute(node.target)
        if node.op == "call_module":
            return f"{self.attribute(node.target)}({self.arguments(node.args, node.kwargs)})"
        if node.op == "call_method":
            first = node.args[0]
            found = first.name if isinstance(first, Node) else f"({self.value(first)})"
            return f"{found}.{node.target}({self.arguments(node.args[1:], node.kwargs)})"
        if not node.kwargs:
            operands = [self.operand(value) for value in node.args]
            if len(operands) == 2 and node.target in _BETWEEN:
                return f" {_BETWEEN[node.target]} ".join(operands)
            if len(operands) == 1 and node.target in _BEFORE:
                return _BEFORE[node.target] + operands[0]
            if len(operands) == 2 and node.target is operator.getitem:
                return f"{operands[0]}[{self.index(node.args[1])}]"
            if len(operands) == 2 and node.target is getattr and str(node.args[1]).isidentifier():
                return f"{operands[0]}.{node.args[1]}"
        return f"{self.name_of(node.target)}({self.arguments(node.args, node.kwargs)})"

    def attribute(self, target: str) -> str:
        """Return the expression for the module's attribute at a dotted name."""
        found = self.root
        for part in target.split("."):
            usual = part.isidentifier() and not keyword.iskeyword(part)
            found = f"{found}.{part}" if usual else f"getattr({found}, {part!r})"
        return found

    def arguments(self, args: Iterable[Any], kwargs: dict[str, Any]) -> str:
        return ", ".join([*map(self.value, args), *(f"{key}={self.value(value)}" for key, value in kwargs.items())])

    def operand(self, value: Any) -> str:
        """Return an expression for a value, in parentheses if a larger expression needs them."""
        text = self.value(value)
        return f"({text})" if text.startswith("-") else text

    def index(self, value: Any) -> str:
        """Return the text between the brackets of an index."""
        if type(value) is tuple and len(value) > 1:
            return ", ".join(map(self.index, value))
        if not isinstance(value, slice):
            return self.value(value)
        start, stop, step = ("" if part is None else self.value(part) for part in (value.start, value.stop, value.step))
        return f"{start}:{stop}" + (f":{step}" if step else "")

    def value(self, value: Any) -> str:
        """Return an expression for an argument."""
        if isinstance(value, Node):
            return value.name
        if isinstance(value, tuple) and type(value) is not mt.Size:
            inner = ", ".join(map(self.value, value))
            if type(value) is tuple:
                return f"({inner},)" if len(value) == 1 else f"({inner})"
            return f"{self.name_of(type(value))}({inner})"
        if isinstance(value, list):
            return f"[{', '.join(map(self.value, value))}]"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{self.value(key)}: {self.value(one)}" for key, one in value.items()) + "}"
        if isinstance(value, slice):
            return f"slice({self.value(value.start)}, {self.value(value.stop)}, {self.value(value.step)})"
        if value is ...:
            return "..."
        if type(value) is float and not math.isfinite(value):
            return f"float('{value}')"
        if type(value) in _PLAIN and not (type(value) is complex and not cmath.isfinite(value)):
            return repr(value)
        return self.name_of(value)

    def name_of(self, value: Any) -> str:
        """Return an expression for a function, class or constant. Add the global name that it uses to the globals."""
        own = getattr(value, "__name__", "")
        if own and getattr(builtins, own, None) is value:
            return str(own)
        for module, path in _places(value):
            top = module.partition(".")[0]
            if top not in self.taken and self.globals.get(top, sys.modules[top]) is sys.modules[top]:
                self.globals[top] = sys.modules[top]
                return f"{module}.{path}"
        if isinstance(value, OpOverload) and "torch" not in self.taken:
            self.globals.setdefault("torch", import_module("metatensor.torch_api.torch"))
            return f"torch.ops.{value}"
        base = getattr(value, "__name__", type(value).__name__)
        base = base if base.isidentifier() and not keyword.iskeyword(base) else "value"
        name, number = f"_{base}", 0
        while name in self.taken or self.globals.get(name, value) is not value:
            number += 1
            name = f"_{base}_{number}"
        self.globals[name] = value
        return name


def _places(value: Any) -> list[tuple[str, str]]:
    """Return modules and dotted names within them under which an object can be found."""
    places = [(spelling(), value.name), ("metatensor", value.name)] if isinstance(value, (Op, mt.dtype)) else []
    module, path = getattr(value, "__module__", None), getattr(value, "__qualname__", getattr(value, "__name__", None))
    if isinstance(module, str) and isinstance(path, str):
        places.append(({"_operator": "operator"}.get(module, module), path))
    return [(module, path) for module, path in places if module != "__main__" and _found(module, path) is value]


def _found(module: str, path: str) -> Any:
    found = sys.modules.get(module)
    if module.partition(".")[0] not in sys.modules:
        return None
    for name in path.split("."):
        found = getattr(found, name, None)
    return found
