"""Division of a graph by tags of its nodes."""

from __future__ import annotations

from typing import Any

from metatensor.program.fx.graph_module import GraphModule
from metatensor.program.fx.interpreter import attribute_of
from metatensor.program.fx.passes.split_module import split_module

__all__ = ["getattr_recursive", "setattr_recursive", "split_by_tags"]


def getattr_recursive(obj: Any, name: str) -> Any:
    """Return an attribute at a dotted name, or None."""
    try:
        return attribute_of(obj, name)
    except RuntimeError:
        return None


def setattr_recursive(obj: Any, attr: str, value: Any) -> None:
    """Set an attribute at a dotted name."""
    above, _, name = attr.rpartition(".")
    setattr(attribute_of(obj, above) if above else obj, name, value)


def split_by_tags(
    gm: GraphModule, tags: list[str], return_fqn_mapping: bool = False, return_tuple: bool = False,
    GraphModuleCls: type[GraphModule] = GraphModule,
) -> Any:  # fmt: skip
    """Return a module of submodules, one for each tag.

    Parameters
    ----------
    gm : GraphModule
        Each node that calls something has an attribute ``tag``.
    tags : list of str
        All tags, in the order in which the submodules run.
    return_fqn_mapping : bool
        Also return a dict from the new names of attributes to their old ones. Default False.
    return_tuple : bool
        Let submodules with one result return it in a tuple. Default False.
    GraphModuleCls : type
        The class of the module that is returned.

    Returns
    -------
    GraphModule
        Its submodules have the names of the tags. A part gets the parameters that it uses as arguments.

    Raises
    ------
    AssertionError
        If a node has no tag, or one that is not in the list.
    RuntimeError
        If two parts depend on each other.
    """
    for node in gm.graph.nodes:
        if node.op in ("call_function", "call_method", "call_module") and getattr(node, "tag", None) not in tags:
            raise AssertionError(f"split_by_tags: {node} has the tag {getattr(node, 'tag', None)!r}, which is not in the list")
    names: dict[str, str] = {}
    order = {tag: i for i, tag in enumerate(tags)}
    parts = split_module(gm, gm, lambda node: order[getattr(node, "tag", "")], names, keep_original_order=True, tuple_return=return_tuple)
    held: dict[str, Any] = {}
    for node in parts.graph.nodes:
        if node.op == "call_module":
            child = attribute_of(parts, node.target)
            node.target = tags[int(node.target.removeprefix("submod_"))]
            node._rename(node.target)
            held[node.target] = child
        elif node.op == "get_attr":
            held[node.target] = attribute_of(parts, node.target)
    made = GraphModuleCls(held, parts.graph)
    if not return_fqn_mapping:
        return made
    renamed = {}
    for new, old in names.items():
        part, _, rest = new.partition(".")
        renamed[f"{tags[int(part.removeprefix('submod_'))]}.{rest}"] = old
    return made, renamed
