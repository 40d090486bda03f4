"""Python source code of graphs."""

from __future__ import annotations

import builtins
import cmath
import keyword
import math
import operator
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

import metatensor as mt
from metatensor._core.dtype import spelling
from metatensor._core.op import Op
from metatensor.overloads import OpOverload
from metatensor.program.fx._pytree import pytree
from metatensor.program.fx.node import Node

__all__ = ["CodeGen", "PythonCode", "python_code"]

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


class CodeGen:
    """Writes the code of a graph. Subclasses change the signature of the function and how it returns.

    A subclass that overrides `gen_fn_def` overrides `process_inputs` as well, and one that overrides `generate_output`
    overrides `process_outputs`, so that interpreters agree with the code.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.program import fx
    >>> class FromList(fx.CodeGen):
    ...     def gen_fn_def(self, free_vars, maybe_return_annotation):
    ...         return f"def forward(self, given):\\n    {', '.join(free_vars)}, = given"
    ...     def process_inputs(self, *args):
    ...         return args[0]
    >>> traced = fx.symbolic_trace(lambda x, y: x + y)
    >>> traced.graph.set_codegen(FromList())
    >>> _ = traced.recompile()
    >>> traced([1, 2])
    3
    """

    def __init__(self) -> None:
        self._body_transformer: Callable[[list[str]], list[str]] | None = None
        self._func_name = "forward"
        self._root_module = "self"

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        """Return the first lines of the function, with its signature.

        `free_vars` are the parameters with their annotations and default values, `maybe_return_annotation` is empty or begins
        with ``->``.
        """
        if not free_vars or free_vars[0] != self._root_module:
            free_vars.insert(0, self._root_module)
        return f"def {self._func_name}({', '.join(_in_order(free_vars))}){maybe_return_annotation}:"

    def generate_output(self, output_args: Any) -> str:
        """Return the last line of the function. Nodes in `output_args` print as their names."""
        return f"return {output_args!r}"

    def process_inputs(self, *args: Any) -> Any:
        """Return the arguments of a call as one value for each placeholder."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """Return the result of a call, given the value of the output node."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """Return further names that the code uses, and the objects that they stand for."""
        return []

    def _gen_python_code(self, nodes: Iterable[Node], root_module: str = "self", *_: Any, **__: Any) -> PythonCode:
        self._root_module = root_module
        return _Writer(self, list(nodes), root_module).function()


class _PyTreeInfo(NamedTuple):
    """The arguments of a traced function by name, and the structure of these and of its result."""

    orig_args: list[str]
    in_spec: Any
    out_spec: Any


class _PyTreeCodeGen(CodeGen):
    """Writes a function with the parameters of the traced one. Its placeholders are the leaves of the arguments."""

    def __init__(self, pytree_info: _PyTreeInfo) -> None:
        super().__init__()
        self.pytree_info = pytree_info

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        """Return the first lines of the function, with its signature."""
        names = [name for name in self.pytree_info.orig_args if name != self._root_module]
        head = super().gen_fn_def(list(names), maybe_return_annotation)
        bare = [name.partition(":")[0].partition("=")[0].strip() for name in free_vars]
        return f"{head}\n    {', '.join(bare)}, = _process_inputs({', '.join(names)})" if bare else head

    def generate_output(self, output_args: Any) -> str:
        """Return the last line of the function."""
        return f"return _process_outputs({output_args!r})" if self.pytree_info.out_spec else super().generate_output(output_args)

    def process_inputs(self, *args: Any) -> Any:
        """Return the leaves of the arguments."""
        spec = self.pytree_info.in_spec
        leaves, found = pytree().tree_flatten(tuple(args))
        if found != spec:
            raise ValueError(f"fx: the arguments have the structure {found}, but those of the trace had {spec}")
        return leaves

    def process_outputs(self, outputs: Any) -> Any:
        """Return the result with the structure that the traced function's result had."""
        if self.pytree_info.out_spec is None:
            return outputs
        leaves = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        return pytree().tree_unflatten(list(leaves), self.pytree_info.out_spec)

    def additional_globals(self) -> list[tuple[str, Any]]:
        """Return further names that the code uses, and the objects that they stand for."""
        return [("_process_inputs", self.process_inputs), ("_process_outputs", self.process_outputs)]


def python_code(graph: Any, root_module: str = "self") -> PythonCode:
    """Return a graph as a method ``forward``. Executing ``src`` with ``globals`` defines it."""
    return graph._codegen._gen_python_code(graph.nodes, root_module)


def _in_order(parameters: list[str]) -> list[str]:
    """Make parameters without a default keyword-only if they follow one with a default."""
    first = next((i for i, one in enumerate(parameters) if "=" in one.partition(":")[2] or "=" in one.partition(":")[0]), None)
    if first is None or any(one.startswith("*") and not one.startswith("**") for one in parameters):
        return parameters
    for i in range(first, len(parameters)):
        if "=" not in parameters[i] and not parameters[i].startswith("**"):
            return [*parameters[:i], "*", *parameters[i:]]
    return parameters


class _Raw:
    """Text that is written unchanged among arguments."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


class _Writer:
    """Writes the source of one graph and collects the objects that it refers to."""

    def __init__(self, codegen: CodeGen, nodes: list[Node], root: str) -> None:
        self.codegen, self.nodes, self.root = codegen, nodes, root
        self.globals: dict[str, Any] = dict(codegen.additional_globals())
        self.taken = {root, *(node.name for node in self.nodes)}
        self.taken |= {node.target.lstrip("*") for node in self.nodes if node.op == "placeholder"}
        self.last: dict[Node, list[Node]] = {}
        seen: set[Node] = set()
        for node in reversed(nodes):
            for given in node.all_input_nodes:
                if given not in seen:
                    seen.add(given)
                    self.last.setdefault(node, []).append(given)

    def function(self) -> PythonCode:
        parameters: list[str] = []
        body: list[str] = []
        returns = ""
        for node in self.nodes:
            if node.op == "placeholder":
                default = f" = {self.value(node.args[0])}" if node.args else ""
                kind = f" : {self.name_of(node.type)}" if isinstance(node.type, type) else ""
                parameters.append(node.target + kind + default)
                if node.target.lstrip("*") != node.name:
                    body.append(f"{node.name} = {node.target.lstrip('*')}\n")
            elif node.op == "output":
                returns = f" -> {self.name_of(node.type)}" if isinstance(node.type, type) else ""
                body.append(self.codegen.generate_output(_Raw(self.value(node.args[0]))) + "\n")
            else:
                body.append(f"{node.name} = {self.expression(node)}{self.released(node)}\n")
        if self.codegen._body_transformer is not None:
            body = self.codegen._body_transformer(body)
        head = self.codegen.gen_fn_def(parameters, returns)
        text = "".join(f"    {line}\n" for line in "".join(body or ["pass\n"]).splitlines())
        return PythonCode(f"{head.lstrip(chr(10))}\n{text}", self.globals)

    def released(self, node: Node) -> str:
        """Return a statement that drops the results that no later node uses."""
        dropped = [*self.last.get(node, []), *([] if node.users else [node])]
        return f";  {' = '.join(one.name for one in dropped)} = None" if dropped else ""

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
            found = f"{found}.{part}" if usual else f'getattr({found}, "{part}")'
        return found

    def arguments(self, args: Iterable[Any], kwargs: dict[str, Any]) -> str:
        given = [self.value(value) for value in args]
        plain = {key: value for key, value in kwargs.items() if key.isidentifier() and not keyword.iskeyword(key)}
        given += [f"{key} = {self.value(value)}" for key, value in plain.items()]
        return ", ".join([*given, *(f"**{self.value({key: value})}" for key, value in kwargs.items() if key not in plain)])

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
        if isinstance(value, _Raw):
            return value.text
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
    return [(module, path) for module, path in places if module != "__main__" and found_at(module, path) is value]


def found_at(module: str, path: str) -> Any:
    """Return the object at a dotted name in a module that is imported, or None."""
    found: Any = sys.modules.get(module)
    if module.partition(".")[0] not in sys.modules:
        return None
    for name in path.split("."):
        found = getattr(found, name, None)
    return found


def usual_globals() -> dict[str, Any]:
    """Return the names that code of users may refer to without importing them."""
    alias: ModuleType | None = sys.modules.get("torch") or sys.modules.get("metatensor.torch_api.torch")
    names = {"inf": math.inf, "nan": math.nan, "NoneType": type(None), "device": mt.device, "pytree": pytree(), "metatensor": mt}
    return names if alias is None else {"torch": alias, **names}


