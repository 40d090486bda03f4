"""Replacement of the parts of a graph that match another graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import metatensor as mt
from metatensor.program.fx._symbolic_trace import symbolic_trace
from metatensor.program.fx.graph import Graph
from metatensor.program.fx.graph_module import GraphModule, _copy_attr
from metatensor.program.fx.interpreter import attribute_of
from metatensor.program.fx.node import Node
from metatensor.program.fx.passes.tools_common import stable_topological_sort
from metatensor.program.fx.passes.utils.matcher_utils import InternalMatch, SubgraphMatcher

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]


class Match(NamedTuple):
    """A match that was replaced: its last node, and the node that matched each node of the pattern."""

    anchor: Node
    nodes_map: dict[Node, Node]


@dataclass
class ReplacedPatterns:
    """A match that was replaced: its last node, the node that matched each node of the pattern, and the new nodes."""

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node]


def replace_pattern(gm: GraphModule, pattern: Any, replacement: Any) -> list[Match]:
    """Replace the parts of a graph that match a pattern.

    Parameters
    ----------
    gm : GraphModule
        The module whose graph is changed. It is recompiled.
    pattern, replacement : callable or GraphModule
        Functions are traced. Their parameters correspond by position. Those of the pattern match any value.

    Returns
    -------
    list of Match
        The matches that were replaced. Of overlapping matches, only the first is replaced.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.program import fx
    >>> traced = fx.symbolic_trace(lambda x, y: mt.relu(x + y) * 2)
    >>> found = fx.replace_pattern(traced, lambda a, b: mt.relu(a + b), lambda a, b: mt.sigmoid(a - b))
    >>> [node.name for node in traced.graph.nodes]
    ['x', 'y', 'sub', 'sigmoid', 'mul', 'output']
    """
    return [Match(one.anchor, one.nodes_map) for one in _replace(gm, pattern, replacement)]


def replace_pattern_with_filters(
    gm: GraphModule, pattern: Any, replacement: Any = None,
    match_filters: list[Callable[[InternalMatch, Graph, Graph], bool]] | None = None, ignore_literals: bool = False,
    replacement_callback: Callable[[InternalMatch, Graph, Graph], Graph] | None = None, node_name_match: str = "",
) -> list[ReplacedPatterns]:  # fmt: skip
    """Replace the parts of a graph that match a pattern and pass all filters.

    Parameters
    ----------
    gm : GraphModule
        The module whose graph is changed. It is recompiled.
    pattern, replacement : callable, Graph or GraphModule
        See `replace_pattern`.
    match_filters : list of callable, optional
        Called as ``f(match, graph, pattern_graph)``. They return whether to replace the match.
    ignore_literals : bool
        Let numbers and strings in the pattern match any others. Default False.
    replacement_callback : callable, optional
        Called as ``f(match, graph, pattern_graph)``. Returns the graph to insert instead of `replacement`.
    node_name_match : str
        Replace only matches that end with a node whose name contains this. Default: all.

    Returns
    -------
    list of ReplacedPatterns

    Raises
    ------
    AssertionError
        If neither `replacement` nor `replacement_callback` is given.
    """
    return _replace(gm, pattern, replacement, match_filters, ignore_literals, replacement_callback, node_name_match)


def _graph_of(source: Any) -> Graph:
    if isinstance(source, Graph):
        return source
    return source.graph if isinstance(source, GraphModule) else symbolic_trace(source).graph


def _replace(
    gm: GraphModule, pattern: Any, replacement: Any, match_filters: Any = None, ignore_literals: bool = False, callback: Any = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:  # fmt: skip
    if replacement is None and callback is None:
        raise AssertionError("replace_pattern_with_filters: neither replacement nor replacement_callback is given")
    graph, wanted = gm.graph, _graph_of(pattern)
    new = None if replacement is None or callback is not None else _graph_of(replacement)
    matcher = SubgraphMatcher(wanted, ignore_literals=ignore_literals)
    found = [match for match in matcher.match(graph, node_name_match)
             if all(accepts(match, graph, wanted) for accepts in match_filters or ())]  # fmt: skip
    changed: dict[Node, Node] = {}
    done = []
    for match in found:
        one = callback(match, graph, wanted) if new is None else new
        added = _put(graph, match, one, wanted, changed)
        done.append(ReplacedPatterns(match.anchors[0], match.nodes_map, added))
    try:
        graph.lint()
    except RuntimeError:  # the new nodes may precede nodes that they use
        owner, graph.owning_module = graph.owning_module, None
        stable_topological_sort(gm)
        graph.owning_module = owner
    if isinstance(replacement, mt.nn.Module):
        _take_attributes(gm, replacement)
    gm.recompile()
    return done


def _put(graph: Graph, match: InternalMatch, new: Graph, wanted: Graph, changed: dict[Node, Node]) -> list[Node]:
    """Insert a graph in place of a match and return the nodes that were added."""
    inputs = [node for node in new.nodes if node.op == "placeholder"]
    if len(inputs) != len(match.placeholder_nodes):
        raise AssertionError(f"replace_pattern: the pattern has {len(match.placeholder_nodes)} placeholders, the replacement {len(inputs)}")
    values: dict[Node, Any] = {}
    for node, given in zip(inputs, match.placeholder_nodes):
        while isinstance(given, Node) and given in changed:
            given = changed[given]
        values[node] = given
    inside = {node for node in match.nodes_map.values() if isinstance(node, Node)}
    users = {user for node in match.returning_nodes for user in node.users if user not in inside}
    place = next((node for node in graph.nodes if node in users), None)
    if place is None:  # nothing uses the results
        last = next(node for node in reversed(graph.nodes) if node in match.returning_nodes)
        place = last.next
    with graph.inserting_before(place):
        result = graph.graph_copy(new, values)
    results = list(result) if isinstance(result, (tuple, list)) else [result]
    if len(results) != len(match.returning_nodes):
        raise AssertionError(f"replace_pattern: the pattern returns {len(match.returning_nodes)} values, the replacement {len(results)}")
    for node, one in zip(match.returning_nodes, results):
        node.replace_all_uses_with(one)
        changed[node] = one
    for node in reversed(wanted.nodes):
        if node.op not in ("placeholder", "output"):
            graph.erase_node(match.nodes_map[node])
    return [values[node] for node in new.nodes if node in values and node not in inputs]


def _take_attributes(gm: GraphModule, source: Any) -> None:
    """Copy the attributes that the graph uses from another module, and remove those that it no longer uses."""
    gm.delete_all_unused_submodules()
    for node in gm.graph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        try:
            attribute_of(gm, node.target)
        except RuntimeError:
            _copy_attr(source, gm, node.target)
    gm.graph.lint()
