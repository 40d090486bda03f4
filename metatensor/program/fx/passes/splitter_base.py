"""Division of a graph into parts that an accelerator runs and parts that run elsewhere."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from metatensor.program.fx.graph_module import GraphModule
from metatensor.program.fx.node import Node
from metatensor.program.fx.passes.operator_support import OperatorSupportBase
from metatensor.program.fx.passes.shape_prop import ShapeProp
from metatensor.program.fx.passes.split_utils import split_by_tags
from metatensor.program.fx.passes.tools_common import CALLABLE_NODE_OPS, is_node_output_tensor

__all__ = ["FxNetAccNodesFinder", "SplitResult", "Subgraph", "generate_inputs_for_submodules"]


@dataclass
class Subgraph:
    """A part of a graph, and whether the accelerator runs it."""

    is_acc: bool
    nodes: list[Node]
    device_ordinal: int | None = None


class SplitResult(NamedTuple):
    """The split module, the inputs of its submodules, and the prefix of the names of those that run elsewhere."""

    split_module: GraphModule
    submodule_inputs: dict[str, Any]
    non_acc_submodule_prefix: str


def generate_inputs_for_submodules(
    model: Any, inputs: Sequence[Any], target_submodules: Iterable[str], deepcopy: bool = False
) -> dict[str, Any]:
    """Run a model and return the positional arguments of submodules by name.

    Parameters
    ----------
    model : Module
    inputs : sequence
        The arguments of the model.
    target_submodules : iterable of str
        Names of submodules.
    deepcopy : bool
        Copy the arguments before each submodule runs. Default False.
    """
    found: dict[str, Any] = {}
    handles = []
    for name, module in model.named_modules():
        if name in set(target_submodules):
            def note(_: Any, given: tuple[Any, ...], name: str = name) -> None:
                found[name] = copy.deepcopy(given) if deepcopy else given

            handles.append(module.register_forward_pre_hook(note))
    try:
        model(*inputs)
    finally:
        for handle in handles:
            handle.remove()
    return found


class FxNetAccNodesFinder:
    """Finds the nodes that an accelerator can run.

    Parameters
    ----------
    module : GraphModule
        Its nodes have ``meta["type"]``, see `ShapeProp`.
    operator_support : OperatorSupportBase
    allow_non_tensor : bool
        Allow values other than tensors to be passed to and from the accelerator. Default False: nodes that would pass such
        values are not selected.
    """

    def __init__(self, module: GraphModule, operator_support: OperatorSupportBase, allow_non_tensor: bool = False) -> None:
        self.module, self.operator_support, self.allow_non_tensor = module, operator_support, allow_non_tensor
        self.acc_nodes: set[Node] = set()

    def __call__(self) -> set[Node]:
        """Return the nodes."""
        modules = dict(self.module.named_modules())
        found = {node for node in self.module.graph.nodes
                 if node.op in CALLABLE_NODE_OPS and self.operator_support.is_node_supported(modules, node)}  # fmt: skip
        changed = not self.allow_non_tensor
        while changed:
            wrong = {node for node in found if self._crosses(node, found)}
            found -= wrong
            changed = bool(wrong)
        self.acc_nodes = found
        return found

    @staticmethod
    def _crosses(node: Node, found: set[Node]) -> bool:
        """Return whether a node takes a value other than a tensor from a node outside, or passes one there."""
        if any(given not in found and given.op in CALLABLE_NODE_OPS and not is_node_output_tensor(given) for given in node.all_input_nodes):
            return True
        return not is_node_output_tensor(node) and any(user not in found for user in node.users)


class _SplitterSettingBase:
    """Settings of a splitter.

    Parameters
    ----------
    min_acc_module_size : int
        The least number of nodes of a part for the accelerator. Default 1.
    skip_fusion : bool
        Whether nodes are not fused, which they never are. Default False.
    allow_non_tensor : bool
        Whether values that are no tensors may cross from part to part. Default False.
    max_acc_splits : int
        The greatest number of parts for the accelerator. Default -1, no limit.
    move_non_tensor_nodes_on_boundary : bool
        Not supported. Default False.

    Raises
    ------
    NotImplementedError
        If `move_non_tensor_nodes_on_boundary` is true.
    """

    def __init__(
        self, min_acc_module_size: int = 1, skip_fusion: bool = False, allow_non_tensor: bool = False, max_acc_splits: int = -1,
        move_non_tensor_nodes_on_boundary: bool = False,
    ) -> None:  # fmt: skip
        if move_non_tensor_nodes_on_boundary:
            raise NotImplementedError("_SplitterSettingBase: move_non_tensor_nodes_on_boundary")
        self.min_acc_module_size, self.skip_fusion, self.allow_non_tensor = min_acc_module_size, skip_fusion, allow_non_tensor
        self.max_acc_splits = max_acc_splits


class _SplitterBase:
    """Divides a graph into submodules ``_run_on_acc_N`` and ``_run_on_cpu_N``. Calling it returns the split module.

    Parameters
    ----------
    module : GraphModule
    sample_input : sequence
        Arguments for one run, which determines the types of values.
    operator_support : OperatorSupportBase
        What the accelerator can run.
    settings : _SplitterSettingBase
    non_acc_submodule_name : str
        Prefix of the names of the other parts.
    """

    def __init__(
        self, module: GraphModule, sample_input: Sequence[Any], operator_support: OperatorSupportBase, settings: _SplitterSettingBase,
        non_acc_submodule_name: str = "_run_on_cpu_", return_tuple: bool = False,
    ) -> None:  # fmt: skip
        self.module, self.sample_input, self.operator_support, self.settings = module, sample_input, operator_support, settings
        self.non_acc_submodule_name, self._return_tuple = non_acc_submodule_name, return_tuple
        ShapeProp(module).propagate(*sample_input)
        self.acc_nodes = FxNetAccNodesFinder(module, operator_support, settings.allow_non_tensor)()

    def put_nodes_into_subgraphs(self) -> list[Subgraph]:
        """Return the parts in the order in which they run."""
        left = [node for node in self.module.graph.nodes if node.op in CALLABLE_NODE_OPS]
        done: set[Node] = set()
        parts: list[Subgraph] = []
        on_acc = False
        while left:
            taken = []
            for node in left:
                ready = all(given in done or given.op not in CALLABLE_NODE_OPS for given in node.all_input_nodes)
                if ready and (node in self.acc_nodes) == on_acc:
                    taken.append(node)
                    done.add(node)
            if taken:
                parts.append(Subgraph(on_acc, taken))
                left = [node for node in left if node not in done]
            on_acc = not on_acc
        return parts

    def __call__(self) -> GraphModule:
        """Return the module of submodules."""
        small = {node for part in self.put_nodes_into_subgraphs() if part.is_acc and len(part.nodes) < self.settings.min_acc_module_size
                 for node in part.nodes}  # fmt: skip
        self.acc_nodes -= small
        tags: list[str] = []
        parts, most = self.put_nodes_into_subgraphs(), self.settings.max_acc_splits
        on_acc = sum(part.is_acc for part in parts)
        if 0 < most < on_acc:
            raise ValueError(f"there are {on_acc} parts for the accelerator, more than max_acc_splits={most}; a larger min_acc_module_size "
                             "gives fewer")  # fmt: skip
        for i, part in enumerate(parts):
            tags.append(f"_run_on_acc_{i}" if part.is_acc else f"{self.non_acc_submodule_name}{i}")
            for node in part.nodes:
                node.tag = tags[-1]  # type: ignore[attr-defined]
        return split_by_tags(self.module, tags, return_tuple=self._return_tuple)

    def generate_split_results(self) -> SplitResult:
        """Return the module of submodules, with the inputs of these for the sample."""
        made = self()
        names = [name for name, child in made.named_children() if isinstance(child, GraphModule)]
        return SplitResult(made, generate_inputs_for_submodules(made, self.sample_input, names), self.non_acc_submodule_name)
