"""Changes of targets, and sizes in bytes."""

from __future__ import annotations

from typing import Any, NamedTuple

import metatensor as mt
from metatensor.program.fx.node import Node
from metatensor.program.fx.passes.shape_prop import ShapeProp, TensorMetadata

__all__ = ["get_size_of_all_nodes", "get_size_of_node", "get_tensor_meta", "replace_target_nodes_with", "size_bytes"]


class size_bytes(NamedTuple):
    """Bytes of a node's result, and the total with the tensors of the module that it calls."""

    output_size: int
    total_size: int


def replace_target_nodes_with(fx_module: Any, old_op: str, old_target: Any, new_op: str, new_target: Any) -> None:
    """Replace the op and target of all nodes with the old ones. `GraphModule.recompile` updates the code."""
    for node in fx_module.graph.nodes:
        if node.op == old_op and node.target == old_target:
            node.op, node.target = new_op, new_target


def get_size_of_all_nodes(fx_module: Any, args: list[Any] | None = None) -> None:
    """Set ``size_bytes`` of each node to its `size_bytes`. With `args`, run the graph first to learn the shapes."""
    if args is not None:
        ShapeProp(fx_module).propagate(*args)
    measured = (node for node in fx_module.graph.nodes if node.op != "output")
    sizes = {node: get_size_of_node(fx_module, node) for node in measured}
    for node, size in sizes.items():
        node.size_bytes = size


def get_tensor_meta(node: Node) -> Any:
    """Return ``meta["tensor_meta"]`` of a node. Raise RuntimeError if it has none: `ShapeProp` sets it."""
    found = node.meta.get("tensor_meta")
    if not found:
        raise RuntimeError(f"get_tensor_meta: {node} has no tensor_meta; run ShapeProp first")
    return found


def get_size_of_node(fx_module: Any, node: Node) -> size_bytes:
    """Return the bytes of a node's result and of what it calls. Raise RuntimeError without ``meta["tensor_meta"]``."""
    held = 0
    if node.op == "call_module":
        module = fx_module.get_submodule(node.target)
        held = sum(t.numel() * t.element_size() for t in [*module.parameters(), *module.buffers()])
    output = _bytes(get_tensor_meta(node))
    return size_bytes(output, output + held)


def _bytes(meta: Any) -> int:
    if isinstance(meta, TensorMetadata):
        return mt.Size(meta.shape).numel() * meta.dtype.itemsize
    return sum(map(_bytes, meta)) if isinstance(meta, (list, tuple)) else 0
