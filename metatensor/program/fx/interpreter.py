"""Interpretation of graphs, node by node."""

from __future__ import annotations

from typing import Any

from metatensor._core.capture import Value
from metatensor._core.tensor import Tensor
from metatensor._core.thread import _set_grad_enabled, is_grad_enabled
from metatensor.program.fx.node import Node, map_arg
from metatensor.program.structure import leaves

__all__ = ["Interpreter", "Transformer", "attribute_of", "flattened"]


def attribute_of(module: Any, target: str) -> Any:
    """Return the module's attribute at a dotted name. Raise RuntimeError if there is none."""
    found = module
    for name in target.split("."):
        if not hasattr(found, name):
            raise RuntimeError(f"Graph: the module has no attribute {target!r}: {name!r} does not exist")
        found = getattr(found, name)
    return found


class Interpreter:
    """Interpreter for the graph of a module.

    Subclasses may override the method of one kind of node, such as `call_function`, or `run_node` for all nodes.

    Parameters
    ----------
    module : Module
        Module with the attributes that the graph uses.
    garbage_collect_values : bool
        If True, results are dropped after their last use. Default: True.
    graph : Graph, optional
        Default: ``module.graph``.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.program import fx
    >>> traced = fx.symbolic_trace(lambda x: mt.relu(x).sum(0))
    >>> fx.Interpreter(traced).run(mt.empty(5, 3, device="meta")).shape
    metatensor.Size([3])
    """

    def __init__(self, module: Any, garbage_collect_values: bool = True, graph: Any = None) -> None:
        self.module = module
        self.graph = module.graph if graph is None else graph
        self.submodules = dict(module.named_modules())
        self.env: dict[Node, Any] = {}
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        self.user_to_last_uses: dict[Node, list[Node]] = {}
        last: dict[Node, Node] = {}
        for node in self.graph.nodes:
            for given in node.all_input_nodes:
                last[given] = node
        for given, node in last.items():
            self.user_to_last_uses.setdefault(node, []).append(given)

    def run(self, *args: Any, initial_env: dict[Node, Any] | None = None, enable_io_processing: bool = True) -> Any:
        """Run the graph and return its output.

        Parameters
        ----------
        *args
            Arguments of the graph, in the order of its placeholders, or those that its code takes.
        initial_env : dict of Node to any, optional
            Results to use for nodes instead of running them.
        enable_io_processing : bool
            Let the graph's `CodeGen` process the arguments and the output. Default: True.
        """
        self.env = dict(initial_env or {})
        if enable_io_processing:
            args = self.graph.process_inputs(*args)
        self.args_iter = iter(args)
        recording = is_grad_enabled()
        try:
            result = self._run()
        except BaseException:
            _set_grad_enabled(recording)  # a node may have changed it
            raise
        return self.graph.process_outputs(result) if enable_io_processing else result

    def boxed_run(self, args_list: list[Any]) -> Any:
        """Run the graph on arguments in a list, which is emptied, so that each is released after its last use."""
        self.env = {}
        for node in self.graph.nodes:
            if node.op == "placeholder":
                self.env[node] = args_list.pop(0)
        self.args_iter = iter(())
        return self._run()

    def _run(self) -> Any:
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback and node.op != "placeholder" and hasattr(error, "add_note"):
                    error.add_note(f"while running {node.format_node()}" + (f"\n{node.stack_trace}" if node.stack_trace else ""))
                raise
            if self.garbage_collect_values:
                for used in self.user_to_last_uses.get(node, ()):
                    self.env.pop(used, None)
                if not node.users and node.op not in ("placeholder", "output"):
                    del self.env[node]
            if node.op == "output":
                return self.env[node]
        return None

    def run_node(self, n: Node) -> Any:
        """Run one node and return its result."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the next argument of `run`, or the default value. Raise RuntimeError if there is neither."""
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(f"Interpreter: the argument {target} is missing") from None

    def get_attr(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return an attribute of the module."""
        return self.fetch_attr(target)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function and return its result."""
        return target(*args, **kwargs)

    def call_method(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a method of the first argument and return its result."""
        return getattr(args[0], target)(*args[1:], **kwargs)

    def call_module(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a submodule and return its result."""
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the output of the graph."""
        return args[0]

    def fetch_attr(self, target: str) -> Any:
        """Return the module's attribute at a dotted name."""
        return attribute_of(self.module, target)

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of a node, with nodes replaced by their results."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Any, n: Node) -> Any:
        """Return `args` with nodes replaced by their results."""
        return map_arg(args, self._value)

    def _value(self, node: Node) -> Any:
        if node not in self.env:
            raise RuntimeError(f"Interpreter: {node} is used, but was not computed")
        return self.env[node]


class Transformer(Interpreter):
    """Interpreter that records a new graph by running the graph of a module on proxies.

    Subclasses may override the method of one kind of node, such as `call_function`, to change the recorded graph.

    Parameters
    ----------
    module : GraphModule

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.program import fx
    >>> class Soft(fx.Transformer):
    ...     def call_function(self, target, args, kwargs):
    ...         return super().call_function(mt.nn.functional.softplus if target is mt.relu else target, args, kwargs)
    >>> [node.name for node in Soft(fx.symbolic_trace(lambda x: mt.relu(x))).transform().graph.nodes]
    ['x', 'softplus', 'output']
    """

    def __init__(self, module: Any) -> None:
        from metatensor.program.fx._symbolic_trace import Tracer
        from metatensor.program.fx.graph import Graph

        class TransformerTracer(Tracer):
            """Records every submodule as a single call."""

            def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:
                return True

        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.arguments = self.graph.arguments
        self.new_graph.set_codegen(self.graph._codegen)
        self.tracer = TransformerTracer()
        self.tracer.root, self.tracer.graph = module, self.new_graph

    def placeholder(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Add an argument to the new graph and return its proxy."""
        return self.tracer.proxy(self.new_graph.create_node("placeholder", target, args))

    def get_attr(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Record the reading of an attribute and return its proxy."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Record the call of a function and return its proxy."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def call_method(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Record the call of a method and return its proxy."""
        return self.tracer.create_proxy("call_method", target, args, kwargs)

    def call_module(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Record the call of a submodule and return its proxy."""
        return self.tracer.create_proxy("call_module", target, args, kwargs)

    def transform(self) -> Any:
        """Run the graph on proxies and return a `GraphModule` with the recorded graph."""
        from metatensor.program.fx.graph_module import GraphModule

        result = super().run(enable_io_processing=False)
        if result is not None:
            made = self.new_graph.output(self.tracer.create_arg(result))
            made.meta.update(self.graph.output_node().meta)
        return GraphModule(self.module, self.new_graph)


def flattened(wanted: Any, got: Any, name: str) -> tuple[Any, ...]:
    """Return the tensors among arguments, from left to right.

    `wanted` has the structure of the arguments of a program, with a `Value` in the place of each tensor. Raise TypeError if
    `got` has another structure.
    """
    found: list[Any] = []

    def walk(one: Any, other: Any, place: str) -> None:
        if isinstance(one, Value):
            if not isinstance(other, Tensor):
                raise TypeError(f"{name}(): expected a Tensor for {place}, got {type(other).__name__}")
            found.append(other)
        elif isinstance(one, dict):
            if not isinstance(other, dict) or set(one) != set(other):
                has = sorted(map(str, other)) if isinstance(other, dict) else type(other).__name__
                raise TypeError(f"{name}(): {place} must have the keys {sorted(map(str, one))}, got {has}")
            for key, item in one.items():
                walk(item, other[key], f"argument {key!r}" if one is wanted[1] else f"{place}[{key!r}]")
        elif isinstance(one, (list, tuple)):
            if not isinstance(other, (list, tuple)) or len(one) != len(other):
                has = str(len(other)) if isinstance(other, (list, tuple)) else type(other).__name__
                raise TypeError(f"{name}(): {place} must have {len(one)} elements, got {has}")
            for i, (item, part) in enumerate(zip(one, other)):
                walk(item, part, f"argument {i}" if one is wanted[0] else f"{place}[{i}]")
        else:
            tensors = list(leaves(Value, one))
            parts = list(leaves(Tensor, other))
            if len(tensors) != len(parts):
                raise TypeError(f"{name}(): {place} must have {len(tensors)} tensors, got {len(parts)}")
            found.extend(parts)

    walk(wanted[0], got[0], "the arguments")
    walk(wanted[1], got[1], "the keyword arguments")
    return tuple(found)
