"""Division of a graph into submodules."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from metatensor.program.fx.graph import Graph
from metatensor.program.fx.graph_module import GraphModule
from metatensor.program.fx.interpreter import attribute_of
from metatensor.program.fx.node import Node, map_arg

__all__ = ["Partition", "split_module", "split_module_simple"]


@dataclass
class Partition:
    """A part of a graph that becomes a submodule."""

    name: str
    submod_name: str = ""
    node_names: list[str] = field(default_factory=list)
    inputs: dict[str, None] = field(default_factory=dict)
    outputs: dict[str, None] = field(default_factory=dict)
    dependencies: dict[str, None] = field(default_factory=dict)
    dependents: dict[str, None] = field(default_factory=dict)
    graph: Graph = field(default_factory=Graph)
    environment: dict[Node, Node] = field(default_factory=dict)
    targets: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"partition {self.name}: nodes {self.node_names}, inputs {list(self.inputs)}, outputs {list(self.outputs)}"


def split_module(
    m: GraphModule, root_m: Any, split_callback: Callable[[Node], Any], qualname_map: dict[str, str] | None = None,
    keep_original_order: bool | None = False, keep_original_node_name: bool | None = False, keep_original_input_name: bool = True, *,
    partition_affix: str | None = None, tuple_return: bool = False,
) -> GraphModule:  # fmt: skip
    """Return a module that runs parts of a graph as submodules.

    Parameters
    ----------
    m : GraphModule
        The module to divide.
    root_m : Module
        Ignored: `m` has the attributes that the graph uses.
    split_callback : callable
        Called with each node that calls something. Returns the number, or name, of its part.
    qualname_map : dict, optional
        Filled with the old name of each submodule or tensor, by its new name.
    keep_original_order : bool
        Run the parts in the order of their numbers if their dependencies allow it. Default False.
    keep_original_node_name : bool
        Keep the names that nodes have in `m`. Default False: a number that made a name unique in `m` is
        dropped.
    keep_original_input_name : bool
        Name the placeholders of the parts after the nodes they stand for. Default True.
    partition_affix : str, optional
        A part is called ``submod_AFFIX_NUMBER`` instead of ``submod_NUMBER``.
    tuple_return : bool
        Let parts with one result return it in a tuple. Default False.

    Returns
    -------
    GraphModule
        It calls ``submod_0`` and so on. Parameters are passed to the parts as arguments.

    Raises
    ------
    RuntimeError
        If two parts depend on each other.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.program import fx
    >>> from metatensor.program.fx.passes.split_module import split_module
    >>> traced = fx.symbolic_trace(lambda x: mt.relu(x).exp() + 1)
    >>> parts = split_module(traced, traced, lambda node: 0 if node.name == "relu" else 1)
    >>> [node.target for node in parts.graph.nodes]
    ['x', 'submod_0', 'submod_1', 'output']
    >>> [node.name for node in parts.submod_1.graph.nodes]
    ['relu', 'exp', 'add', 'output']
    """
    partitions: dict[str, Partition] = {}
    where: dict[Node, str] = {}
    for node in m.graph.nodes:
        if node.op in ("placeholder", "get_attr", "output"):
            continue
        name = str(split_callback(node))
        affix = f"{partition_affix}_" if partition_affix else ""
        partition = partitions.setdefault(name, Partition(name, f"submod_{affix}{name}"))
        partition.node_names.append(node.name)
        where[node] = name
    _connect(m.graph, partitions, where)
    ordered = _sorted(partitions, keep_original_order)
    nodes = {node.name: node for node in m.graph.nodes}
    for partition in partitions.values():
        for name in partition.inputs:
            partition.environment[nodes[name]] = _input(partition, nodes[name], keep_original_input_name)
    for node in m.graph.nodes:
        if node in where:
            _copy(m, node, partitions[where[node]], keep_original_node_name, qualname_map)
    return _assemble(m, ordered, partitions, nodes, tuple_return, late=bool(keep_original_order))


def split_module_simple(m: GraphModule, node_to_partition: dict[Node, int], *, partition_affix: str | None = None) -> GraphModule:
    """Return a module that runs parts of a graph, given by a dict, as submodules. See `split_module`."""
    return split_module(m, m, node_to_partition.__getitem__, partition_affix=partition_affix)


def _connect(graph: Graph, partitions: dict[str, Partition], where: dict[Node, str]) -> None:
    """Note which results leave and enter each part."""
    for node in graph.nodes:
        for given in node.all_input_nodes:
            source, use = where.get(given), where.get(node)
            if source == use:
                continue
            if source is not None:
                partitions[source].outputs.setdefault(given.name)
            if use is not None:
                partitions[use].inputs.setdefault(given.name)
                if source is not None:
                    partitions[use].dependencies.setdefault(source)
                    partitions[source].dependents.setdefault(use)


def _sorted(partitions: dict[str, Partition], in_order: bool | None) -> list[str]:
    """Return the names of the parts so that each follows those that it depends on."""
    waiting = {name: len(partition.dependencies) for name, partition in partitions.items()}
    if in_order and all(name.isdigit() for name in partitions):
        names = sorted(partitions, key=int)
        if all(names.index(before) < names.index(name) for name in names for before in partitions[name].dependencies):
            return names
    ready = [name for name, count in waiting.items() if not count]
    ordered = []
    while ready:
        name = ready.pop(0)
        ordered.append(name)
        for dependent in partitions[name].dependents:
            waiting[dependent] -= 1
            if not waiting[dependent]:
                ready.append(dependent)
    if len(ordered) < len(partitions):
        raise RuntimeError(f"split_module: the parts {', '.join(sorted(set(partitions) - set(ordered)))} depend on each other")
    return ordered


def _input(partition: Partition, node: Node, keep_name: bool) -> Node:
    made = partition.graph.placeholder(node.name if keep_name else f"arg_{len(partition.environment)}", type_expr=node.type)
    made.meta = dict(node.meta)
    return made


def _copy(m: GraphModule, node: Node, partition: Partition, keep_name: bool | None, names: dict[str, str] | None) -> None:
    """Add a copy of a node to a part. A submodule gets a name without dots."""
    target = node.target
    if node.op == "call_module":
        target = node.target.replace(".", "_")
        partition.targets[target] = attribute_of(m, node.target)
        if names is not None:
            names[f"{partition.submod_name}.{target}"] = node.target
    args, kwargs = map_arg((node.args, node.kwargs), partition.environment.__getitem__)
    made = partition.graph.create_node(node.op, target, args, dict(kwargs), node.name if keep_name else None, node.type)
    made.meta = dict(node.meta)
    partition.environment[node] = made


def _assemble(
    m: GraphModule, ordered: list[str], partitions: dict[str, Partition], nodes: dict[str, Node], in_tuple: bool, late: bool
) -> GraphModule:
    """Return the module that calls the parts. Attributes are read at the beginning, or with `late` before the part that needs them."""
    graph, held = Graph(), {}
    values: dict[Node, Node] = {}

    def read(node: Node) -> None:
        if node.op == "get_attr" and node not in values:
            values[node] = graph.node_copy(node)
            held[node.target] = attribute_of(m, node.target)

    for node in m.graph.nodes:
        if node.op == "placeholder":
            values[node] = graph.node_copy(node)
        elif not late:
            read(node)
    for name in ordered:
        partition = partitions[name]
        for one in partition.inputs:
            read(nodes[one])
        results = [partition.environment[nodes[one]] for one in partition.outputs]
        partition.graph.output(results[0] if len(results) == 1 and not in_tuple else tuple(results))
        held[partition.submod_name] = GraphModule(partition.targets, partition.graph)
        call = graph.call_module(partition.submod_name, tuple(values[nodes[one]] for one in partition.inputs))
        if len(results) == 1 and not in_tuple:
            values[nodes[next(iter(partition.outputs))]] = call
            continue
        for i, one in enumerate(partition.outputs):
            values[nodes[one]] = graph.call_function(operator.getitem, (call, i))
    output = m.graph.output_node()
    for node in output.all_input_nodes:
        read(node)
    made = graph.output(map_arg(output.args[0], values.__getitem__), output.type)
    made.meta = dict(output.meta)
    return GraphModule(held, graph)
