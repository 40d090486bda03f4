"""Graphs: lists of nodes in topological order."""

from __future__ import annotations

import builtins
import copy
import keyword
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from metatensor.program.fx.codegen import CodeGen, PythonCode, _PyTreeCodeGen, _PyTreeInfo
from metatensor.program.fx.node import Node, _get_qualified_name, _type_repr, map_arg

__all__ = ["CodeGen", "Graph", "PythonCode", "_PyTreeCodeGen", "_PyTreeInfo", "_get_qualified_name", "_type_repr"]

_OPS = ("placeholder", "get_attr", "call_function", "call_method", "call_module", "output")


class NodeList:
    """The nodes of a graph in order. While it is iterated over, nodes may be inserted and erased."""

    def __init__(self, graph: Graph, direction: str = "_next") -> None:
        self.graph, self.direction = graph, direction

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[Node]:
        root = self.graph._root
        node = getattr(root, self.direction)
        while node is not root:
            if not node._erased:
                yield node
            node = getattr(node, self.direction)

    def __reversed__(self) -> NodeList:
        return NodeList(self.graph, "_prev" if self.direction == "_next" else "_next")

    def __getitem__(self, index: Any) -> Any:
        return list(self)[index]

    def __contains__(self, node: object) -> bool:
        return isinstance(node, Node) and node.graph is self.graph and not node._erased and node is not self.graph._root


_node_list = NodeList


class _InsertionPoint:
    """The place where new nodes are added, until the end of a ``with`` block, or until another one is chosen."""

    def __init__(self, graph: Graph, insert: Callable[[Node], None]) -> None:
        self.graph, self.before = graph, graph._insert
        graph._insert = insert

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        self.graph._insert = self.before


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
        self._names: set[str] = set()
        self._counts: dict[str, int] = {}  # by base name, the greatest number appended to it
        self._root = Node(self, "", "root", "", (), {})
        self._insert: Callable[[Node], None] = self._root._link_before
        self._len = 0
        self._tracer_cls, self._tracer_extras = tracer_cls, tracer_extras or {}
        self._codegen = CodeGen()
        self.owning_module = owning_module
        self.arguments: tuple[tuple[Any, ...], dict[str, Any]] | None = None

    @property
    def nodes(self) -> NodeList:
        """The nodes in order. Changes of the graph show in it, also during iteration."""
        return NodeList(self)

    # Creating nodes ---------------------------------------------------------------

    def _name(self, candidate: str) -> str:
        base = re.sub(r"[^0-9a-zA-Z_]+", "_", candidate) or "_unnamed"
        if base[0].isdigit():
            base = f"_{base}"
        name, number = base, 0
        match = re.fullmatch(r"(.+)_(\d+)", base)
        if match is not None:
            base, number = match[1], int(match[2])
        number = number or self._counts.get(base, 0)
        while name in self._names or keyword.iskeyword(name) or hasattr(builtins, name):
            number += 1
            name = f"{base}_{number}"
        self._names.add(name)
        self._counts[base] = number
        return name

    @staticmethod
    def _target_to_str(target: Any) -> str:
        """Return a name for the result of a node, which another node may have too."""
        text = target if isinstance(target, str) else getattr(target, "__name__", type(target).__name__)
        if len(text) > 4 and text[:2] == text[-2:] == "__":
            text = text[2:-2]
        return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", text).lower()

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

        Raises
        ------
        AssertionError
            If `op` is unknown, or if `args` is not a tuple or `kwargs` not a dict.
        """
        if op not in _OPS:
            raise AssertionError(f"Graph.create_node: expected one of {', '.join(_OPS)}, got {op!r}")
        if not isinstance(args, tuple | None) or not isinstance(kwargs, dict | None):
            raise AssertionError("Graph.create_node: args must be a tuple and kwargs a dict")
        made = Node(self, self._name(name or self._target_to_str(target)), op, target, args or (), kwargs or {}, type_expr)
        self._insert(made)
        self._len += 1
        if self.owning_module is not None:
            for hook in getattr(self.owning_module, "_create_node_hooks", ()):
                hook(made)
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
        made.meta = copy.copy(node.meta)
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
        made = type(self)(tracer_cls=self._tracer_cls, tracer_extras=self._tracer_extras)
        made.arguments = self.arguments
        made._codegen = copy.copy(self._codegen)
        copies: dict[Node, Any] = {}
        for node in self.nodes:
            copies[node] = made.node_copy(node, copies.__getitem__)
        if memo is not None:
            memo[id(self)] = made
        return made

    # Changing the graph -----------------------------------------------------------

    def erase_node(self, to_erase: Node) -> None:
        """Remove a node. Raise RuntimeError if another node uses it or if it belongs to another graph."""
        if to_erase.users:
            raise RuntimeError(f"Graph.erase_node: {to_erase} is used by {list(to_erase.users)}")
        if to_erase.graph is not self:
            raise RuntimeError(f"Graph.erase_node: {to_erase} belongs to another graph")
        if to_erase._erased:
            return
        if self.owning_module is not None:
            for hook in getattr(self.owning_module, "_erase_node_hooks", ()):
                hook(to_erase)
        to_erase._unlink()
        to_erase._erased = True
        self._len -= 1
        to_erase._set((), {})

    def inserting_before(self, n: Node | None = None) -> Any:
        """Add new nodes before `n`, or at the beginning for None. As a context manager, only until its end."""
        if n is None:
            return self.inserting_after(self._root)
        if n.graph is not self:
            raise AssertionError(f"Graph.inserting_before: {n} belongs to another graph")
        return _InsertionPoint(self, n._link_before)

    def inserting_after(self, n: Node | None = None) -> Any:
        """Add new nodes directly after `n`, or at the end for None. As a context manager, only until its end.

        The node that is created last comes first.
        """
        if n is None:
            return self.inserting_before(self._root)
        if n.graph is not self:
            raise AssertionError(f"Graph.inserting_after: {n} belongs to another graph")
        return _InsertionPoint(self, lambda node: n._next._link_before(node))

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Remove nodes whose results are unused, except those that `is_impure_node` (default `Node.is_impure`) marks.

        Return whether there were any. Raise RuntimeError if the graph is not well-formed, see `lint`.
        """
        self.lint()
        impure = is_impure_node or Node.is_impure
        count = len(self.nodes)
        for node in reversed(self.nodes):
            if not node.users and node.op not in ("placeholder", "output") and not impure(node):
                self.erase_node(node)
        return len(self.nodes) < count

    def _clear_nodes(self) -> None:
        for node in reversed(self.nodes):
            node.users = {}
            self.erase_node(node)

    # Inspection -------------------------------------------------------------------

    def find_nodes(self, *, op: str, target: Any = None, sort: bool = True) -> list[Node]:
        """Return the nodes with the given `op`, and with the given `target` unless it is None."""
        return [node for node in self.nodes if node.op == op and (target is None or node.target == target)]

    def output_node(self) -> Node:
        """Return the output node."""
        return next(node for node in reversed(self.nodes) if node.op == "output")

    def lint(self) -> None:
        """Check the graph.

        Raises
        ------
        RuntimeError
            If a node uses one that does not precede it, that belongs to another graph or that was erased, if two nodes have the
            same name, or if the module has no attribute at a node's target.
        """
        seen: set[Node] = set()
        names: set[str] = set()
        for node in self.nodes:
            for given in node.all_input_nodes:
                if given.graph is not self:
                    raise RuntimeError(f"Graph.lint: {node} uses {given} of another graph; node_copy copies nodes")
                if given not in seen:
                    raise RuntimeError(f"Graph.lint: {node} uses {given}, which does not precede it")
            if node.name in names:
                raise RuntimeError(f"Graph.lint: two nodes have the name {node.name}")
            seen.add(node)
            names.add(node.name)
            if self.owning_module is not None and node.op in ("get_attr", "call_module"):
                self._lint_target(node)

    def _lint_target(self, node: Node) -> None:
        found = self.owning_module
        for part in node.target.split("."):
            if not hasattr(found, part):
                raise RuntimeError(f"Graph.lint: {node} uses {node.target}, which the module does not have")
            found = getattr(found, part)
        if node.op == "call_module" and not callable(found):
            raise RuntimeError(f"Graph.lint: {node} calls {node.target}, which is a {type(found).__name__}")

    def print_tabular(self) -> None:
        """Print a table with the op, name, target and arguments of each node."""
        rows = [("opcode", "name", "target", "args", "kwargs")]
        rows += [(node.op, node.name, str(node.target), str(node.args), str(node.kwargs)) for node in self.nodes]
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        rows.insert(1, tuple("-" * width for width in widths))  # type: ignore[arg-type]
        print("\n".join("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in rows))

    # Code -------------------------------------------------------------------------

    def python_code(self, root_module: str = "self", **options: Any) -> PythonCode:
        """Return the graph as the source of a method ``forward``, and the objects that it refers to by name.

        Parameters
        ----------
        root_module : str
            Name of the first parameter, which is the module with the graph's attributes. Default: "self".
        **options
            Ignored.
        """
        return self._codegen._gen_python_code(self.nodes, root_module)

    def set_codegen(self, codegen: CodeGen) -> None:
        """Use `codegen` to generate the code of this graph. It takes effect with `GraphModule.recompile`."""
        self._codegen = codegen

    def on_generate_code(self, make_transformer: Callable[[Any], Callable[[list[str]], list[str]]]) -> Any:
        """Register a transformer of the lines of the generated function's body.

        Parameters
        ----------
        make_transformer : callable
            Called with the current transformer, or None. Returns a function from a list of lines to another one.

        Returns
        -------
        context manager
            On exit, it restores the current transformer.
        """
        before = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(before)

        @contextmanager
        def restored() -> Any:
            try:
                yield
            finally:
                self._codegen._body_transformer = before

        return restored()

    def process_inputs(self, *args: Any) -> Any:
        """Return the arguments of a call as one value for each placeholder."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        """Return the result of a call, given the value of the output node."""
        return self._codegen.process_outputs(out)

    def __str__(self) -> str:
        lines = [node.format_node() for node in self.nodes]
        return "\n    ".join(["graph():", *filter(None, lines)])


