"""Search for the parts of a graph that match another graph, the pattern."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import metatensor as mt
from metatensor.program.fx.graph import Graph
from metatensor.program.fx.interpreter import attribute_of
from metatensor.program.fx.node import Node

__all__ = ["InternalMatch", "SubgraphMatcher"]


@dataclass
class InternalMatch:
    """A match: a part of a graph that has the structure of a pattern.

    Attributes
    ----------
    anchors : list of Node
        The nodes that match the last nodes of the pattern.
    nodes_map : dict
        The node, or the literal, that matches each node of the pattern.
    placeholder_nodes : list
        The values that match the placeholders of the pattern.
    returning_nodes : list of Node
        The nodes that match the ones that the pattern returns.
    name_node_map : dict
        The nodes that match those in the dict that a pattern may return as its last value.
    """

    anchors: list[Node]
    nodes_map: dict[Node, Any] = field(default_factory=dict)
    placeholder_nodes: list[Any] = field(default_factory=list)
    returning_nodes: list[Node] = field(default_factory=list)
    name_node_map: dict[str, Node] = field(default_factory=dict)

    def __copy__(self) -> InternalMatch:
        return InternalMatch(list(self.anchors), dict(self.nodes_map), list(self.placeholder_nodes), list(self.returning_nodes),
                             dict(self.name_node_map))  # fmt: skip


class SubgraphMatcher:
    """Finds the parts of graphs that match a pattern.

    Parameters
    ----------
    pattern : Graph
        Its placeholders match anything.
    match_output : bool
        The output of the pattern must be that of the graph. Default False.
    match_placeholder : bool
        Placeholders match placeholders only. Default False.
    remove_overlapping_matches : bool
        Of matches that share nodes, return only the first. Default True.
    ignore_literals : bool
        Ignore the values of numbers and strings. Default False.

    Raises
    ------
    ValueError
        If the pattern is empty, or has nodes other than placeholders that its output does not depend on.
    """

    def __init__(
        self, pattern: Graph, match_output: bool = False, match_placeholder: bool = False, remove_overlapping_matches: bool = True,
        ignore_literals: bool = False,
    ) -> None:  # fmt: skip
        self.pattern = pattern
        self.match_output, self.match_placeholder = match_output, match_placeholder
        self.remove_overlapping_matches, self.ignore_literals = remove_overlapping_matches, ignore_literals
        if not len(pattern.nodes):
            raise ValueError("SubgraphMatcher: the pattern is empty")
        for node in pattern.nodes:
            if node.op not in ("output", "placeholder") and not node.users:
                raise ValueError(f"SubgraphMatcher: nothing in the pattern uses {node}")
        output = pattern.output_node()
        self.pattern_placeholder_nodes = [node for node in pattern.nodes if node.op == "placeholder"]
        self.pattern_returning_nodes = output.all_input_nodes
        self.pattern_anchors = [output] if match_output else [node for node in output.all_input_nodes if len(node.users) == 1]

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """Return the matches of the pattern in a graph, in the order of the graph.

        Parameters
        ----------
        graph : Graph
        node_name_match : str
            Consider only matches that end with a node whose name contains this. Default: all.
        """
        found: list[InternalMatch] = []
        candidates = [[node for node in graph.nodes if self._equal(anchor, node) and node_name_match in node.name]
                      for anchor in self.pattern_anchors]  # fmt: skip
        if self.pattern_anchors and all(candidates):
            self._search(InternalMatch([]), 0, candidates, found)
        for match in found:
            match.placeholder_nodes = [match.nodes_map.get(node) for node in self.pattern_placeholder_nodes]
            match.returning_nodes = [match.nodes_map[node] for node in self.pattern_returning_nodes]
        found = [match for match in found if self._contained(match.nodes_map)]
        return self._apart(found) if self.remove_overlapping_matches else found

    def _search(self, match: InternalMatch, number: int, candidates: list[list[Node]], found: list[InternalMatch]) -> None:
        if number == len(candidates):
            match.anchors = [match.nodes_map[anchor] for anchor in self.pattern_anchors]
            found.append(match)
            return
        for node in candidates[number]:
            attempt = InternalMatch([], dict(match.nodes_map))
            if self._match(self.pattern_anchors[number], node, attempt.nodes_map):
                self._search(attempt, number + 1, candidates, found)

    def _equal(self, wanted: Node, node: Node) -> bool:
        if wanted.op == "placeholder" and not self.match_placeholder:
            return True
        if wanted.op != node.op:
            return False
        if wanted.op in ("placeholder", "output"):
            return True
        if wanted.op == "get_attr":
            return self._equal_attributes(wanted, node)
        return wanted.target == node.target

    @staticmethod
    def _equal_attributes(wanted: Node, node: Node) -> bool:
        """Return whether two attributes are tensors, or equal."""
        try:
            values = [attribute_of(one.graph.owning_module, one.target) for one in (wanted, node)]
        except RuntimeError:
            return wanted.target == node.target
        if isinstance(values[0], mt.Tensor):
            return isinstance(values[1], mt.Tensor)
        return type(values[0]) is type(values[1]) and wanted.target == node.target

    def _match(self, wanted: Node, node: Any, nodes: dict[Node, Any]) -> bool:
        """Match `node` with `wanted`, and their inputs. Return False if they differ."""
        if wanted in nodes:
            return nodes[wanted] is node
        if not isinstance(node, Node):  # a placeholder may match a number
            if wanted.op != "placeholder" or self.match_placeholder:
                return False
            nodes[wanted] = node
            return True
        if any(one is node for one in nodes.values()) or not self._equal(wanted, node):
            return False
        before = dict(nodes)
        nodes[wanted] = node
        if wanted.op == "placeholder" or self._arguments(wanted, node, nodes):
            return True
        nodes.clear()
        nodes.update(before)
        return False

    def _arguments(self, wanted: Node, node: Node, nodes: dict[Node, Any]) -> bool:
        args, other_args, kwargs, other_kwargs = wanted.args, node.args, wanted.kwargs, node.kwargs
        if len(args) != len(other_args) or set(kwargs) != set(other_kwargs):
            owner = wanted.graph.owning_module
            forms = [wanted.normalized_arguments(owner, normalize_to_only_use_kwargs=True),
                     node.normalized_arguments(node.graph.owning_module, normalize_to_only_use_kwargs=True)]  # fmt: skip
            if None in forms:
                return False
            (args, kwargs), (other_args, other_kwargs) = forms  # type: ignore[misc]
        return self._values(args, other_args, nodes) and self._values(dict(kwargs), dict(other_kwargs), nodes)

    def _values(self, wanted: Any, got: Any, nodes: dict[Node, Any]) -> bool:
        if isinstance(wanted, Node):
            return self._match(wanted, got, nodes)
        if isinstance(got, Node):
            return False
        if isinstance(wanted, (list, tuple)):
            if not isinstance(got, (list, tuple)) or len(wanted) != len(got):
                return False
            return all(self._values(a, b, nodes) for a, b in zip(wanted, got))
        if isinstance(wanted, dict):
            return isinstance(got, dict) and set(wanted) == set(got) and all(self._values(wanted[key], got[key], nodes) for key in wanted)
        if isinstance(wanted, slice):
            return isinstance(got, slice) and self._values((wanted.start, wanted.stop, wanted.step), (got.start, got.stop, got.step), nodes)
        return self.ignore_literals or (type(wanted) is type(got) and bool(wanted == got))

    def _contained(self, nodes: dict[Node, Any]) -> bool:
        """Return whether the inner results of a match are used only inside it."""
        inside = {one for wanted, one in nodes.items() if isinstance(one, Node) and wanted.op != "placeholder"}
        for wanted, node in nodes.items():
            if wanted.op == "placeholder" or wanted in self.pattern_returning_nodes:
                continue
            if any(user not in inside for user in node.users):
                return False
        return True

    @staticmethod
    def _apart(found: list[InternalMatch]) -> list[InternalMatch]:
        """Leave out matches that share nodes with earlier ones."""
        kept: list[InternalMatch] = []
        taken: set[Any] = set()
        for match in found:
            own = {one for wanted, one in match.nodes_map.items() if wanted.op not in ("placeholder", "output")}
            if not own & taken:
                kept.append(match)
                taken |= own
        return kept
