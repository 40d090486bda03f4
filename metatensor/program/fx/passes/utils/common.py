"""Comparison of graphs, and graphs as submodules."""

from __future__ import annotations

from typing import Any

from metatensor.nn.module import Module
from metatensor.program.fx.graph import Graph
from metatensor.program.fx.graph_module import GraphModule
from metatensor.program.fx.interpreter import attribute_of
from metatensor.program.fx.passes.utils.matcher_utils import SubgraphMatcher

__all__ = ["HolderModule", "compare_graphs", "lift_subgraph_as_module"]


class HolderModule(Module):
    """A module that has the modules of a dict as submodules."""

    def __init__(self, d: dict[str, Any]) -> None:
        super().__init__()
        for name, module in d.items():
            self.add_module(name, module)


def lift_subgraph_as_module(
    gm: GraphModule, subgraph: Graph, comp_name: str = "", class_name: str = "GraphModule"
) -> tuple[GraphModule, dict[str, str]]:
    """Return a module that runs a graph with the attributes of another module.

    Parameters
    ----------
    gm : GraphModule
        The module that has the attributes that `subgraph` uses. The targets of `subgraph` get names without dots.
    subgraph : Graph
    comp_name : str
        The name under which the module will be a submodule. Default: none.
    class_name : str
        Name of the class of the module. Default: "GraphModule".

    Returns
    -------
    GraphModule
    dict
        The name that each attribute had in `gm`, by its new name with `comp_name`.
    """
    names, held = {}, {}
    for node in subgraph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        new = node.target.replace(".", "_")
        held[new] = attribute_of(gm, node.target)
        names[f"{comp_name}.{new}" if comp_name else new] = node.target
        node.target = new
    return GraphModule(held, subgraph, class_name), names


def compare_graphs(left: Graph, right: Graph) -> bool:
    """Return whether two graphs have the same structure. Names are not compared."""
    matcher = SubgraphMatcher(left, match_output=True, match_placeholder=True)
    return len(left.nodes) == len(right.nodes) and len(matcher.match(right)) > 0
