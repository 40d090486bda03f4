"""Modules whose forward runs a graph."""

from __future__ import annotations

import copy
from typing import Any

import metatensor as mt
from metatensor.program.fx.graph import Graph
from metatensor.program.fx.interpreter import Interpreter, attribute_of, bind, flattened

__all__ = ["GraphModule", "reduce_graph_module"]

_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"


class _CodeOnlyModule(mt.nn.Module):
    """A module with the instance dict of another one.

    A copied or unpickled `GraphModule` takes its attributes from such a module.
    """

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__.update(body)


def _copy_attr(from_module: Any, to_module: Any, target: str) -> None:
    """Copy an attribute with a dotted name from one module to another, and create the modules on its path."""
    *above, name = target.split(".")
    for part in above:
        following = getattr(from_module, part, None)
        if following is None or following is to_module:
            return
        if getattr(to_module, part, None) is None:
            setattr(to_module, part, mt.nn.Module())
        from_module, to_module = following, getattr(to_module, part)
    value = getattr(from_module, name)
    if isinstance(value, mt.Tensor) and not isinstance(value, mt.nn.Parameter):
        to_module.register_buffer(name, value)
    else:
        setattr(to_module, name, value)


def _assign_attr(value: Any, to_module: Any, target: str) -> None:
    """Set an attribute with a dotted name, and create the modules on its path. A tensor becomes a buffer."""
    first, _, rest = target.partition(".")
    if rest:
        inner = getattr(to_module, first, None)
        if inner is None:
            inner = mt.nn.Module()
            setattr(to_module, first, inner)
        _assign_attr(value, inner, rest)
        return
    plain = isinstance(value, mt.Tensor) and not isinstance(value, mt.nn.Parameter)
    (to_module.register_buffer if plain else to_module.__setattr__)(target, value)


class GraphModule(mt.nn.Module):
    """A module that runs a graph.

    It has the attributes that the graph uses, and shares them with the module that they come from.

    Parameters
    ----------
    root : Module or dict
        Source of the attributes: a module, or a dict from dotted names to attributes.
    graph : Graph
    class_name : str
        Name of the class of the module. Default: "GraphModule".

    Raises
    ------
    RuntimeError
        If `root` is a dict without an attribute that the graph uses.
    """

    _own_class = False

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        # Each instance has its own class, whose name is that of the traced module or function.
        while cls._own_class:
            cls = cls.__mro__[1]
        return super().__new__(type(cls.__name__, (cls,), {"_own_class": True, "__module__": cls.__module__}))

    def __init__(self, root: Any, graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        type(self).__name__ = class_name
        if isinstance(root, mt.nn.Module):
            self.training = root.training
        for node in graph.nodes:
            if node.op in ("get_attr", "call_module"):
                if isinstance(root, dict):
                    if node.target not in root:
                        raise RuntimeError(f"GraphModule: the graph uses {node.target}, which root does not have")
                    _assign_attr(root[node.target], self, node.target)
                else:
                    _copy_attr(root, self, node.target)
        self.graph = graph
        self._tracer_cls = graph._tracer_cls
        self.meta: dict[str, Any] = {}

    @property
    def graph(self) -> Graph:
        """The graph that the module runs."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise AssertionError(f"GraphModule: expected a Graph, got {type(g).__name__}")
        self._graph = g
        g.owning_module = self
        self.recompile()

    def recompile(self) -> None:
        """Do nothing. The graph is interpreted at each call, so that changes take effect without compilation."""

    @property
    def code(self) -> str:
        """The graph as Python source, which defines ``forward``. See `Graph.python_code`."""
        return self._graph.python_code().src

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph and return its output."""
        places = [node for node in self._graph.nodes if node.op == "placeholder"]
        if self._graph.arguments is None:
            values = bind(self._graph, args, kwargs)
        else:
            values = flattened(self._graph.arguments, (args, kwargs), type(self).__name__)
        return Interpreter(self).run(initial_env=dict(zip(places, values)))

    def print_readable(self, print_output: bool = True, *_: Any, **__: Any) -> str:
        """Return `code`, and print it if `print_output` is true."""
        if print_output:
            print(self.code)
        return self.code

    def add_submodule(self, target: str, m: Any) -> bool:
        """Add a submodule with a dotted name. Return False if a part of its path is not a module."""
        *above, name = target.split(".")
        module: Any = self
        for part in above:
            if not hasattr(module, part):
                setattr(module, part, mt.nn.Module())
            module = getattr(module, part)
            if not isinstance(module, mt.nn.Module):
                return False
        module.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Remove the submodule with a dotted name. Return False if there is none."""
        above, _, name = target.rpartition(".")
        try:
            parent = attribute_of(self, above) if above else self
        except RuntimeError:
            return False
        if not isinstance(getattr(parent, name, None), mt.nn.Module):
            return False
        delattr(parent, name)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Remove the submodules that the graph does not use."""
        used: set[str] = set()
        for node in self._graph.nodes:
            if node.op in ("get_attr", "call_module"):
                parts = node.target.split(".")
                used.update(".".join(parts[:count]) for count in range(1, len(parts) + 1))
                if node.op == "call_module":
                    used.update(f"{node.target}.{name}" for name, _ in attribute_of(self, node.target).named_modules() if name)
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        body = {name: value for name, value in self.__dict__.items() if name != "_graph"}
        fake = _CodeOnlyModule(copy.deepcopy(body, memo))
        GraphModule.__init__(made, fake, copy.deepcopy(self._graph, memo), type(self).__name__)
        made.meta = copy.deepcopy(self.meta, memo)
        return made

    def __copy__(self) -> Any:
        return GraphModule(self, copy.deepcopy(self._graph), type(self).__name__)

    def __reduce__(self) -> Any:
        body = {name: value for name, value in self.__dict__.items() if name != "_graph"}
        nodes = [(node.name, node.op, node.target, *_packed(node)) for node in self._graph.nodes]
        return reduce_graph_module, (body, nodes, type(self).__name__, self._graph.arguments)


class _Reference:
    """The name of a node, which represents the node in pickled arguments."""

    def __init__(self, name: str) -> None:
        self.name = name


def _packed(node: Any) -> Any:
    from metatensor.program.fx.node import map_arg

    return map_arg((node.args, node.kwargs), lambda given: _Reference(given.name))


def reduce_graph_module(body: dict[str, Any], nodes: list[Any], class_name: str, arguments: Any = None) -> GraphModule:
    """Rebuild a pickled `GraphModule`."""
    from metatensor.program.fx.node import map_aggregate

    graph = Graph()
    graph.arguments = arguments
    made: dict[str, Any] = {}
    for name, op, target, args, kwargs in nodes:
        args, kwargs = map_aggregate((args, kwargs), lambda leaf: made[leaf.name] if isinstance(leaf, _Reference) else leaf)
        made[name] = graph.create_node(op, target, args, kwargs, name)
    result = GraphModule(_CodeOnlyModule(body), graph, class_name)
    result.training = body.get("training", True)
    return result
