"""Search for nodes by the layer or function that they come from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from metatensor.program.fx.graph import Graph
from metatensor.program.fx.node import Node

__all__ = ["SourcePartition", "check_subgraphs_connected", "get_source_partitions"]


@dataclass
class SourcePartition:
    """The nodes that come from one layer or function."""

    nodes: list[Node]
    source: Any
    input_nodes: list[Node] = field(default_factory=list)
    output_nodes: list[Node] = field(default_factory=list)
    params: list[Node] = field(default_factory=list)


def get_source_partitions(
    graph: Graph, wanted_sources: list[Any], filter_fn: Callable[[Node], bool] | None = None
) -> dict[Any, list[SourcePartition]]:
    """Return the nodes that come from layers or functions.

    Parameters
    ----------
    graph : Graph
        The source of a node is ``meta["source_fn_stack"]`` or ``meta["nn_module_stack"]``, or else what it calls.
    wanted_sources : list
        Classes of layers, and functions.
    filter_fn : callable, optional
        Leave out parts with a node for which it returns False.

    Returns
    -------
    dict
        For each source that occurs, its parts: one for each layer, or for each call of a function.
    """
    found: dict[Any, dict[Any, list[Node]]] = {}
    for node in graph.nodes:
        name, source = _source(node)
        if source in wanted_sources:
            found.setdefault(source, {}).setdefault(name, []).append(node)
    parts = {source: [_partition(nodes, source) for nodes in groups.values()] for source, groups in found.items()}
    if filter_fn is not None:
        parts = {source: [one for one in some if all(map(filter_fn, one.nodes))] for source, some in parts.items()}
    return {source: some for source, some in parts.items() if some}


def _source(node: Node) -> tuple[Any, Any]:
    """Return a name for where a node comes from, and the layer's class or the function."""
    stack = node.meta.get("source_fn_stack")
    if stack:
        return stack[-1]
    modules = node.meta.get("nn_module_stack")
    if node.op == "call_module" and node.graph.owning_module is not None:
        return node.name, type(node.graph.owning_module.get_submodule(node.target))
    if node.op == "call_function" and not modules:
        return node.name, node.target
    if modules:
        return list(modules.values())[-1]
    return None, node.target if node.op == "call_function" else None


def _partition(nodes: list[Node], source: Any) -> SourcePartition:
    inside = set(nodes)
    inputs = dict.fromkeys(given for node in nodes for given in node.all_input_nodes if given not in inside)
    params = [node for node in [*nodes, *inputs] if node.op == "get_attr"]
    outputs = [node for node in nodes if any(user not in inside for user in node.users)]
    return SourcePartition(nodes, source, [node for node in inputs if node.op != "get_attr"], outputs, params)


def check_subgraphs_connected(subgraph1: SourcePartition, subgraph2: SourcePartition) -> bool:
    """Return whether a node of the second part uses a result of the first."""
    first = set(subgraph1.nodes)
    return any(given in first for node in subgraph2.nodes for given in node.all_input_nodes)
