"""Helpers of passes: targets of nodes, kinds of results, and the order of a graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import metatensor as mt
from metatensor.program.fx.interpreter import attribute_of
from metatensor.program.fx.node import Node

__all__ = ["CALLABLE_NODE_OPS", "NodeList", "NodeSet", "Names", "Tensors", "get_acc_ops_name", "get_node_target", "is_node_output_tensor",
           "legalize_graph", "stable_topological_sort"]  # fmt: skip

CALLABLE_NODE_OPS = {"call_module", "call_function", "call_method"}
NodeList = list[Node]
NodeSet = set[Node]
Names = list[str]
Tensors = tuple[Any, ...] | list[Any]


def get_acc_ops_name(k: Any) -> str:
    """Return the name of an operator as ``module.name``. A str is returned unchanged."""
    if isinstance(k, str):
        return k
    if k.__module__ and "acc_ops" in k.__module__:
        return f"acc_ops.{k.__name__}"
    return f"{(k.__module__ or '').replace('torch._ops', 'torch.ops')}.{k.__name__}"


def get_node_target(submodules: Mapping[str, Any], node: Node) -> str:
    """Return what a node calls as text: the class of a module, or the name of a function or method.

    Raises
    ------
    AssertionError
        If the node calls nothing.
    """
    if node.op not in CALLABLE_NODE_OPS:
        raise AssertionError(f"get_node_target: expected a node of {', '.join(sorted(CALLABLE_NODE_OPS))}, got {node.op}")
    if node.op == "call_module":
        module = submodules[node.target]
        kind = getattr(module, "_base_class_origin", type(module))
        return get_acc_ops_name(kind)
    if node.op == "call_function":
        return f"_operator.{node.target.__name__}" if node.target.__module__ == "_operator" else get_acc_ops_name(node.target)
    return node.target


def is_node_output_tensor(node: Node) -> bool:
    """Return whether ``meta["type"]`` of a node, which `ShapeProp` sets, is a tensor."""
    kind = node.meta.get("type", None)
    return isinstance(kind, type) and issubclass(kind, mt.Tensor)


def stable_topological_sort(gm: Any) -> Any:
    """Move the nodes of a graph so that each follows its inputs, and change their order as little as possible.

    Returns
    -------
    GraphModule
        `gm`, whose graph is changed. Placeholders come first and the output comes last.

    Raises
    ------
    RuntimeError
        If nodes depend on each other.
    """
    graph = gm.graph
    nodes = list(graph.nodes)
    places = {node: i for i, node in enumerate(nodes)}
    ordered: list[Node] = [node for node in nodes if node.op == "placeholder"]
    done, open_nodes = set(ordered), set()
    for start in nodes:
        stack = [start] if start.op != "output" else []
        while stack:
            node = stack[-1]
            if node in done:
                open_nodes.discard(stack.pop())
                continue
            missing = sorted((one for one in node.all_input_nodes if one not in done), key=lambda one: places[one], reverse=True)
            if not missing:
                ordered.append(node)
                done.add(node)
                open_nodes.discard(stack.pop())
                continue
            if node in open_nodes:
                raise RuntimeError(f"stable_topological_sort: {node} depends on itself")
            open_nodes.add(node)
            stack += missing
    ordered += [node for node in nodes if node.op == "output"]
    for node in ordered:
        graph._root.prepend(node)
    return gm


def legalize_graph(gm: Any) -> Any:
    """Move the nodes of a graph so that each follows its inputs. See `stable_topological_sort`."""
    return stable_topological_sort(gm)


def attribute_or_none(module: Any, target: str) -> Any:
    """Return the attribute of a module at a dotted name, or None."""
    try:
        return attribute_of(module, target)
    except RuntimeError:
        return None
