"""Optimizations for inference: batch norms are folded into the convolutions before them, and dropout is removed."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from metatensor import nn
from metatensor.nn.utils.fusion import fuse_conv_bn_eval
from metatensor.program.fx._symbolic_trace import Tracer, symbolic_trace
from metatensor.program.fx.graph import Graph
from metatensor.program.fx.graph_module import GraphModule
from metatensor.program.fx.interpreter import Transformer
from metatensor.program.fx.node import Node

__all__ = ["extract_subgraph", "fuse", "matches_module_pattern", "optimize_for_inference", "remove_dropout", "replace_node_module"]

_PATTERNS = ((nn.Conv1d, nn.BatchNorm1d), (nn.Conv2d, nn.BatchNorm2d), (nn.Conv3d, nn.BatchNorm3d))


def _parent_name(target: str) -> tuple[str, str]:
    """Return a dotted name as the name of the parent and the last part."""
    above, _, name = target.rpartition(".")
    return above, name


def matches_module_pattern(pattern: Iterable[type], node: Node, modules: dict[str, Any]) -> bool:
    """Return whether a node's first argument and the node itself call modules of exactly the two classes of `pattern`, in this order."""
    if not node.args:
        return False
    for expected, one in zip(pattern, (node.args[0], node)):
        if not isinstance(one, Node) or one.op != "call_module" or type(modules.get(one.target)) is not expected:
            return False
    return True


def replace_node_module(node: Node, modules: dict[str, Any], new_module: Any) -> None:
    """Replace the module that a node calls by another one, under the same name in the root, ``modules[""]``."""
    above, name = _parent_name(node.target)
    modules[node.target] = new_module
    setattr(modules[above], name, new_module)


def fuse(model: Any, inplace: bool = False, no_trace: bool = False) -> Any:
    """Return a model with each batch norm folded into the convolution before it.

    Parameters
    ----------
    model : Module
        In evaluation mode.
    inplace : bool
        Change `model` instead of a copy. Default False.
    no_trace : bool
        Use the graph of a `GraphModule` instead of tracing it. Default False.

    Returns
    -------
    GraphModule
        Batch norms without running statistics, and those whose convolution has other users, remain.

    Examples
    --------
    >>> from metatensor import nn
    >>> from metatensor.program.fx.experimental.optimization import fuse
    >>> model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).eval()
    >>> [node.target for node in fuse(model).graph.nodes]
    ['input', '0', '2', 'output']
    """
    if not inplace:
        model = copy.deepcopy(model)
    module = model if no_trace and isinstance(model, GraphModule) else symbolic_trace(model)
    modules = dict(module.named_modules())
    graph = copy.deepcopy(module.graph)
    for pattern in _PATTERNS:
        for node in graph.nodes:
            if not matches_module_pattern(pattern, node, modules) or len(node.args[0].users) > 1:
                continue
            conv, bn = modules[node.args[0].target], modules[node.target]
            if not bn.track_running_stats or bn.training:
                continue
            replace_node_module(node.args[0], modules, fuse_conv_bn_eval(conv, bn))
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    return GraphModule(module, graph, type(module).__name__)


def remove_dropout(model: Any) -> Any:
    """Return a model without its Dropout layers."""
    module = symbolic_trace(model)

    class Remover(Transformer):
        """Leaves dropout out."""

        def call_module(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            return args[0] if isinstance(self.submodules[target], nn.Dropout) else super().call_module(target, args, kwargs)

    return Remover(module).transform()


def extract_subgraph(orig_module: Any, nodes: list[Node], inputs: list[Node], outputs: list[Node]) -> GraphModule:
    """Return a module that computes `outputs`, as a list, from `inputs` with the given nodes."""
    graph, made = Graph(), {}
    for node in inputs:
        made[node] = graph.placeholder(node.name)
    for node in nodes:
        made[node] = graph.node_copy(node, made.__getitem__)
    graph.output([made[node] for node in outputs])
    graph.lint()
    return GraphModule(orig_module, graph)


def optimize_for_inference(model: Any, pass_config: dict[str, Any] | None = None, tracer: type[Tracer] = Tracer) -> Any:
    """Return a model for inference: fused convolutions and no dropout.

    Parameters
    ----------
    model : Module
        In evaluation mode.
    pass_config : dict, optional
        ``"conv_bn_fuse"`` and ``"remove_dropout"`` say whether to apply these. ``"mkldnn_layout_optimize"`` is ignored, because
        there is no other memory layout to convert to.
    tracer : type
        The class of the tracer.
    """
    wanted = {"conv_bn_fuse": True, "remove_dropout": True, "mkldnn_layout_optimize": False, **(pass_config or {})}
    made = copy.deepcopy(model)
    if wanted["conv_bn_fuse"]:
        made = fuse(made)
    if wanted["remove_dropout"]:
        made = remove_dropout(made)
    one = tracer()
    graph = one.trace(made)
    return GraphModule(one.root, graph, type(model).__name__)


