"""Groups of nodes that a backend supports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from metatensor.program.fx.graph_module import GraphModule
from metatensor.program.fx.node import Node
from metatensor.program.fx.passes.operator_support import OperatorSupportBase
from metatensor.program.fx.passes.tools_common import get_node_target
from metatensor.program.fx.passes.utils.fuser_utils import fuse_by_partitions, validate_partition

__all__ = ["CapabilityBasedPartitioner", "Partition"]


class Partition:
    """A group of nodes."""

    def __init__(self, id: int | None = None, nodes: Iterable[Node] | None = None) -> None:
        self.id = id
        self.nodes: dict[Node, None] = dict.fromkeys(nodes or ())

    def add_node(self, node: Node) -> None:
        """Add a node."""
        self.nodes[node] = None

    def remove_node(self, node: Node) -> None:
        """Remove a node."""
        del self.nodes[node]

    def size(self) -> int:
        """Return the number of nodes."""
        return len(self.nodes)

    def __repr__(self) -> str:
        return str(list(self.nodes))


class CapabilityBasedPartitioner:
    """Groups the nodes of a graph that a backend supports.

    Parameters
    ----------
    graph_module : GraphModule
    operator_support : OperatorSupportBase
        Tells which nodes are supported.
    allows_single_node_partition : bool
        Keep groups of one node. Default False.
    non_compute_ops : sequence of str, optional
        Targets, see `get_node_target`, that compute nothing. A group needs at least one other target.
    allowed_single_node_partition_ops : sequence of str, optional
        Targets that may be a group of their own.
    """

    def __init__(
        self, graph_module: GraphModule, operator_support: OperatorSupportBase, allows_single_node_partition: bool = False,
        non_compute_ops: Sequence[str] | None = None, allowed_single_node_partition_ops: Sequence[str] | None = None,
    ) -> None:  # fmt: skip
        self.graph_module, self.operator_support = graph_module, operator_support
        self.allows_single_node_partition = allows_single_node_partition
        self.non_compute_ops = non_compute_ops or ()
        self.allowed_single_node_partition_ops = allowed_single_node_partition_ops or ()

    def _is_node_supported(self, node: Node) -> bool:
        return self.operator_support.is_node_supported(dict(self.graph_module.named_modules()), node)

    def _target(self, node: Node) -> str:
        return get_node_target(dict(self.graph_module.named_modules()), node)

    def propose_partitions(self) -> list[Partition]:
        """Return groups of supported nodes, each of which can be fused into one node. They are found in a single pass."""
        modules = dict(self.graph_module.named_modules())
        groups: list[set[Node]] = []
        where: dict[Node, int] = {}
        for node in self.graph_module.graph.nodes:
            if node.op not in ("call_module", "call_function", "call_method") or not self.operator_support.is_node_supported(modules, node):
                continue
            for number in [*dict.fromkeys(where[given] for given in node.all_input_nodes if given in where), *range(len(groups))]:
                if validate_partition(groups[number] | {node}) and self._acyclic(groups, number, node):
                    groups[number].add(node)
                    where[node] = number
                    break
            else:
                where[node] = len(groups)
                groups.append({node})
        places = {node: i for i, node in enumerate(self.graph_module.graph.nodes)}
        kept = [sorted(group, key=places.__getitem__) for group in groups if self._worth(group, modules)]
        return [Partition(i, group) for i, group in enumerate(kept)]

    @staticmethod
    def _acyclic(groups: list[set[Node]], number: int, node: Node) -> bool:
        """Return whether all groups could still be fused if a node joined one of them."""
        group = groups[number] | {node}
        owner = {one: i for i, other in enumerate(groups) for one in other}
        owner.update(dict.fromkeys(group, number))
        stack: list[Any] = [user for one in group for user in one.users if user not in group]
        seen: set[Node] = set(stack)
        while stack:
            one = stack.pop()
            if one in group:
                return False
            mates = list(groups[owner[one]]) if one in owner and owner[one] != number else [one]
            for user in (user for mate in mates for user in mate.users):
                if user in group:
                    return False
                if user not in seen:
                    seen.add(user)
                    stack.append(user)
        return True

    def _worth(self, group: set[Node], modules: dict[str, Any]) -> bool:
        targets = [get_node_target(modules, node) for node in group]
        computing = [one for one in targets if one not in self.non_compute_ops]
        if len(group) == 1 and targets[0] in self.allowed_single_node_partition_ops:
            return True
        return bool(computing) and (len(computing) > 1 or self.allows_single_node_partition)

    def fuse_partitions(self, partitions: list[Partition], prefix: str = "fused_") -> GraphModule:
        """Replace each group by a call of a submodule. Change the module in place and return it."""
        return fuse_by_partitions(self.graph_module, [list(one.nodes) for one in partitions], prefix)

    def partition_and_fuse(self, prefix: str = "fused_") -> GraphModule:
        """Group the nodes and replace each group by a call of a submodule. Change the module in place and return it."""
        return self.fuse_partitions(self.propose_partitions(), prefix)
