"""Replacing parts of a graph by submodules."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

from metatensor.program.fx.graph import Graph
from metatensor.program.fx.graph_module import GraphModule
from metatensor.program.fx.node import Node
from metatensor.program.fx.passes.tools_common import stable_topological_sort
from metatensor.program.fx.passes.utils.common import lift_subgraph_as_module

__all__ = ["erase_nodes", "fuse_as_graphmodule", "fuse_by_partitions", "insert_subgm", "topo_sort", "validate_partition"]


def topo_sort(nodes: Iterable[Node]) -> list[Node]:
    """Return nodes of a graph in an order in which each follows its inputs. Raise AssertionError if there is none."""
    left = dict.fromkeys(nodes)
    ordered: list[Node] = []
    while left:
        free = [node for node in left if not any(given in left for given in node.all_input_nodes)]
        if not free:
            raise AssertionError(f"topo_sort: the nodes {list(left)} depend on each other")
        ordered += free
        for node in free:
            del left[node]
    return ordered


def validate_partition(partition: Iterable[Node]) -> bool:
    """Return whether nodes can become one node: no path leaves them and comes back."""
    inside = set(partition)
    stack = [user for node in inside for user in node.users if user not in inside]
    seen = set(stack)
    while stack:
        for user in stack.pop().users:
            if user in inside:
                return False
            if user not in seen:
                seen.add(user)
                stack.append(user)
    return True


def fuse_as_graphmodule(
    gm: GraphModule, nodes: list[Node], module_name: str, partition_lookup_table: Any = None, *, always_return_tuple: bool = False
) -> tuple[GraphModule, tuple[Node, ...], tuple[Node, ...]]:
    """Return a module that computes what nodes of a graph compute.

    Parameters
    ----------
    gm : GraphModule
        The module with the graph, which is not changed.
    nodes : list of Node
        In an order in which each follows its inputs.
    module_name : str
        Name of the class of the module.
    partition_lookup_table : dict, optional
        Ignored.
    always_return_tuple : bool
        Return a tuple even for a single result. Default False.

    Returns
    -------
    GraphModule
    tuple of Node
        The nodes of `gm` that its placeholders stand for.
    tuple of Node
        The nodes of `gm` that its results stand for.

    Raises
    ------
    AssertionError
        If the nodes belong to another graph, or cannot become one node.
    """
    for node in nodes:
        if node.graph is not gm.graph or node._erased:
            raise AssertionError(f"fuse_as_graphmodule: {node} does not belong to the graph of the module")
    if not validate_partition(nodes):
        raise AssertionError("fuse_as_graphmodule: a path leaves the nodes and comes back")
    inside, made, graph = set(nodes), {}, Graph()
    inputs: dict[Node, Node] = {}
    for node in nodes:
        for given in node.all_input_nodes:
            if given not in inside and given not in inputs and given.op != "get_attr":
                inputs[given] = graph.placeholder(given.name, given.type)
                inputs[given].meta = dict(given.meta)
    made.update(inputs)
    for node in nodes:
        for given in node.all_input_nodes:
            if given not in made and given not in inside:
                made[given] = graph.node_copy(given)
        made[node] = graph.node_copy(node, made.__getitem__)
    outputs = tuple(node for node in nodes if any(user not in inside for user in node.users))
    results = tuple(made[node] for node in outputs)
    graph.output(results[0] if len(results) == 1 and not always_return_tuple else results)
    graph.lint()
    module, _ = lift_subgraph_as_module(gm, graph, class_name=module_name)
    return module, tuple(inputs), outputs


def insert_subgm(
    gm: GraphModule, sub_gm: GraphModule, orig_inputs: tuple[Node, ...], orig_outputs: tuple[Node, ...], insertion_point: Node | None = None
) -> GraphModule:
    """Add a submodule to a module, insert a call of it into the graph, and replace the results of nodes by those of the call.

    The submodule is named after its class.

    Parameters
    ----------
    gm : GraphModule
        Changed in place, but not recompiled.
    sub_gm : GraphModule
    orig_inputs, orig_outputs : tuple of Node
        See `fuse_as_graphmodule`.
    insertion_point : Node, optional
        The node before which the call is inserted. Default: the last of the results.
    """
    name = type(sub_gm).__name__
    gm.add_submodule(name, sub_gm)
    last = insertion_point
    if last is None:
        last = next(node for node in reversed(gm.graph.nodes) if node in orig_outputs).next
    with gm.graph.inserting_before(last):
        call = gm.graph.call_module(name, orig_inputs)
    result = sub_gm.graph.output_node().args[0]
    if len(orig_outputs) == 1 and isinstance(result, Node):
        orig_outputs[0].replace_all_uses_with(call)
        call.meta.update(orig_outputs[0].meta)
        return gm
    with gm.graph.inserting_before(last):
        for i, node in enumerate(orig_outputs):
            part = gm.graph.call_function(operator.getitem, (call, i))
            node.replace_all_uses_with(part)
            part.meta.update(node.meta)
    return gm


def erase_nodes(gm: GraphModule, nodes: Iterable[Node]) -> GraphModule:
    """Remove nodes, in reverse order."""
    for node in reversed(list(nodes)):
        gm.graph.erase_node(node)
    return gm


def fuse_by_partitions(gm: GraphModule, partitions: list[Any], prefix: str = "fused_", always_return_tuple: bool = False) -> GraphModule:
    """Replace groups of nodes by calls of submodules ``fused_0`` and so on. Change `gm` in place and return it."""
    places = {node: i for i, node in enumerate(gm.graph.nodes)}
    for number, partition in enumerate(partitions):
        nodes = sorted(partition, key=places.__getitem__)
        module, inputs, outputs = fuse_as_graphmodule(gm, nodes, f"{prefix}{number}", always_return_tuple=always_return_tuple)
        insert_subgm(gm, module, inputs, outputs)
        erase_nodes(gm, nodes)
    stable_topological_sort(gm)
    gm.graph.lint()
    gm.recompile()
    return gm
