"""Graphs: lists of nodes in topological order."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any

from metatensor.program.fx.codegen import PythonCode, python_code
from metatensor.program.fx.node import Node, map_arg

__all__ = ["Graph"]

_OPS = ("placeholder", "get_attr", "call_function", "call_method", "call_module", "output")


class Graph:
    """The operations of a function, as a list of nodes in order of execution.

    Parameters
    ----------
    owning_module : GraphModule, optional
        The module that runs the graph.
    tracer_cls : type, optional
        The class of the tracer that recorded it.
    tracer_extras : dict, optional
        Stored and not used.

    Attributes
    ----------
    arguments : tuple or None
        For a graph of a program: its positional arguments and the dict of its keyword arguments, with a `Value` for each
        tensor. The placeholders are these tensors. Otherwise None: the placeholders are the arguments.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.program import fx
    >>> graph = fx.Graph()
    >>> x = graph.placeholder("x")
    >>> out = graph.output(graph.call_function(mt.relu, (x,)))
    >>> fx.GraphModule({}, graph)(mt.empty(3, device="meta")).shape
    metatensor.Size([3])
    """

    def __init__(self, owning_module: Any = None, tracer_cls: Any = None, tracer_extras: dict[str, Any] | None = None) -> None:
        self._nodes: list[Node] = []
        self._names: dict[str, int] = {}
        self._at: int | None = None
        self._tracer_cls, self._tracer_extras = tracer_cls, tracer_extras or {}
        self.owning_module = owning_module
        self.arguments: tuple[tuple[Any, ...], dict[str, Any]] | None = None
        self._root = Node(self, "", "root", "", (), {})

    @property
    def nodes(self) -> Sequence[Node]:
        """The nodes as a new list, which does not follow later changes of the graph."""
        return list(self._nodes)

    # Creating nodes ---------------------------------------------------------------

    def _name(self, candidate: str) -> str:
        base = re.sub(r"\W", "_", candidate) or "_unnamed"
        if base[0].isdigit():
            base = f"_{base}"
        match = re.fullmatch(r"(.*)_(\d+)", base)
        number = 0
        if match is not None and base in self._names:
            base, number = match[1], int(match[2])
        name = base
        while name in self._names or keyword.iskeyword(name) or hasattr(builtins, name):
            number = max(self._names.get(base, 0), number) + 1
            self._names[base] = number
            name = f"{base}_{number}"
        self._names.setdefault(name, 0)
        return name

    @staticmethod
    def _candidate(op: str, target: Any) -> str:
        text = target if isinstance(target, str) else getattr(target, "__name__", type(target).__name__)
        text = text.removeprefix("*")
        if text[:2] == text[-2:] == "__":
            text = text.strip("_")
        if op == "call_function":  # the target may be a class, whose name becomes snake case
            text = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", text).lower()
        return text

    def create_node(
        self, op: str, target: Any, args: tuple[Any, ...] | None = None, kwargs: dict[str, Any] | None = None, name: str | None = None,
        type_expr: Any = None,
    ) -> Node:  # fmt: skip
        """Add a node at the insertion point, which is the end of the graph by default, and return it.

        Parameters
        ----------
        op : str
            "placeholder", "get_attr", "call_function", "call_method", "call_module" or "output".
        target : callable or str
            The function for "call_function", else a name.
        args, kwargs : tuple and dict, optional
            Arguments. A node among them represents its result.
        name : str, optional
            Requested name. A number is appended if it is taken. Default: derived from `target`.
        type_expr : any, optional
            Stored as the node's `type`.
        """
        if op not in _OPS:
            raise AssertionError(f"Graph.create_node: expected one of {', '.join(_OPS)}, got {op!r}")
        made = Node(self, self._name(name or self._candidate(op, target)), op, target, args or (), kwargs or {}, type_expr)
        if self._at is None:
            self._nodes.append(made)
        else:
            self._nodes.insert(self._at, made)
            self._at += 1
        return made

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = ...) -> Node:
        """Add an argument of the graph."""
        args = () if default_value is ... else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """Add a node that reads an attribute of the module, given by its dotted name."""
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_function(self, the_function: Any, args: Any = None, kwargs: Any = None, type_expr: Any = None, name: Any = None) -> Node:
        """Add a call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def call_method(self, method_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None) -> Node:
        """Add a call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, None, type_expr)

    def call_module(self, module_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None) -> Node:
        """Add a call of a submodule, given by its dotted name."""
        return self.create_node("call_module", module_name, args, kwargs, None, type_expr)

    def output(self, result: Any, type_expr: Any = None) -> Node:
        """Add the node that returns `result`."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Any] = lambda x: x) -> Node:
        """Add a copy of a node of another graph. `arg_transform` maps its input nodes to nodes of this graph."""
        args, kwargs = map_arg((node.args, node.kwargs), arg_transform)
        made = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        made.meta = dict(node.meta)
        return made

    def graph_copy(self, g: Graph, val_map: dict[Node, Any], return_output_node: bool = False) -> Any:
        """Add copies of all nodes of another graph except its output.

        Parameters
        ----------
        g : Graph
        val_map : dict of Node to Node
            Nodes of `g` that are replaced instead of copied. The copies are added to it.
        return_output_node : bool
            If True, return the output node of `g` as well. Default: False.

        Returns
        -------
        Any
            The value that the copied graph returns: a node, or nested containers of nodes. None if `g` has no output.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], val_map.__getitem__)
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, val_map.__getitem__)
        return None

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Graph:
        made = type(self)(tracer_cls=self._tracer_cls)
        made.arguments = self.arguments
        copies: dict[Node, Any] = {}
        for node in self._nodes:
            copies[node] = made.node_copy(node, copies.__getitem__)
        if memo is not None:
            memo[id(self)] = made
        return made

    # Changing the graph -----------------------------------------------------------

    def erase_node(self, to_erase: Node) -> None:
        """Remove a node. Raise RuntimeError if another node uses it."""
        if to_erase.users:
            raise RuntimeError(f"Graph.erase_node: {to_erase} is used by {list(to_erase.users)}")
        if to_erase._erased:
            return
        place = self._nodes.index(to_erase)
        del self._nodes[place]
        if self._at is not None and place < self._at:
            self._at -= 1
        to_erase._set((), {})
        to_erase._erased = True

    def _move(self, node: Node, to: Node, offset: int) -> None:
        if node is not to:
            self._nodes.remove(node)
            self._nodes.insert(self._nodes.index(to) + offset, node)

    @contextmanager
    def _inserting(self, place: int | None) -> Any:
        before, self._at = self._at, place
        try:
            yield
        finally:
            self._at = before

    def inserting_before(self, n: Node | None = None) -> Any:
        """Return a context in which new nodes are added before `n`, or at the beginning for None."""
        return self._inserting(0 if n is None else self._nodes.index(n))

    def inserting_after(self, n: Node | None = None) -> Any:
        """Return a context in which new nodes are added after `n`, or at the end for None."""
        return self._inserting(None if n is None else self._nodes.index(n) + 1)

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Remove nodes without side effects whose results are unused. Return whether there were any."""
        impure = is_impure_node or Node.is_impure
        count = len(self._nodes)
        for node in reversed(self.nodes):
            if not impure(node) and not node.users:
                self.erase_node(node)
        return len(self._nodes) < count

    # Inspection -------------------------------------------------------------------

    def find_nodes(self, *, op: str, target: Any = None, sort: bool = True) -> list[Node]:
        """Return the nodes with the given `op`, and with the given `target` unless it is None."""
        return [node for node in self._nodes if node.op == op and (target is None or node.target == target)]

    def output_node(self) -> Node:
        """Return the output node."""
        return next(node for node in reversed(self._nodes) if node.op == "output")

    def lint(self) -> None:
        """Check the graph. Raise RuntimeError if a node precedes one of its inputs or if two nodes have one name."""
        seen: set[Node] = set()
        names: set[str] = set()
        for node in self._nodes:
            for given in node.all_input_nodes:
                if given not in seen:
                    raise RuntimeError(f"Graph.lint: {node} uses {given}, which does not precede it")
            if node.name in names:
                raise RuntimeError(f"Graph.lint: two nodes have the name {node.name}")
            seen.add(node)
            names.add(node.name)

    def print_tabular(self) -> None:
        """Print a table with the op, name, target and arguments of each node."""
        rows = [("opcode", "name", "target", "args", "kwargs")]
        rows += [(node.op, node.name, str(node.target), str(node.args), str(node.kwargs)) for node in self._nodes]
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        print("\n".join("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in rows))

    def python_code(self, root_module: str = "self", **options: Any) -> PythonCode:
        """Return the graph as the source of a method ``forward``, and the objects that it refers to by name.

        The source is for readers and for other programs: a `GraphModule` runs the graph itself.

        Parameters
        ----------
        root_module : str
            Name of the first parameter, which is the module with the graph's attributes. Default: "self".
        **options
            Ignored.
        """
        return python_code(self, root_module)

    def __str__(self) -> str:
        arguments = ", ".join(f"%{node.name}" for node in self._nodes if node.op == "placeholder")
        lines = [node.format_node() for node in self._nodes if node.op != "placeholder"]
        return "\n    ".join([f"graph({arguments}):", *lines])
