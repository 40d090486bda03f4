"""Shape propagation: record the metadata of each node's result."""

from __future__ import annotations

from typing import Any, NamedTuple

import metatensor as mt
from metatensor.program.fx.interpreter import Interpreter
from metatensor.program.fx.node import Node, map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """The metadata of a tensor."""

    shape: Any
    dtype: Any
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: Any = None
    is_quantized: bool = False
    qparams: Any = None


def _extract_tensor_metadata(result: Any, include_contiguity: bool = True) -> TensorMetadata:
    """Return the metadata of a tensor. `include_contiguity` is ignored."""
    return TensorMetadata(result.shape, result.dtype, result.requires_grad, result.stride())


class ShapeProp(Interpreter):
    """Interpreter that records the metadata of results.

    ``meta["tensor_meta"]`` of a node is set to its result with each tensor replaced by its `TensorMetadata`, and
    ``meta["type"]`` to the type of the result.

    Parameters
    ----------
    gm : GraphModule
    fake_mode : FakeTensorMode, optional
        Stored and not used: run the graph on meta instead, which needs no data.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor.program import fx
    >>> from metatensor.program.fx.passes.shape_prop import ShapeProp
    >>> traced = fx.symbolic_trace(lambda x: mt.relu(x))
    >>> _ = ShapeProp(traced).propagate(mt.empty(5, 3, device="meta"))
    >>> traced.graph.output_node().prev.meta["tensor_meta"].shape
    metatensor.Size([5, 3])
    """

    def __init__(self, gm: Any, fake_mode: Any = None) -> None:
        super().__init__(gm)
        self.fake_mode = fake_mode

    def run_node(self, n: Node) -> Any:
        """Run one node, record the metadata of its result, and return the result."""
        result = super().run_node(n)
        tensors: list[Any] = []

        def note(leaf: Any) -> Any:
            if not isinstance(leaf, mt.Tensor):
                return leaf
            tensors.append(leaf)
            return _extract_tensor_metadata(leaf)

        described = map_aggregate(result, note)
        if tensors:
            n.meta["tensor_meta"] = described
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the graph with the given arguments and return its output."""
        return super().run(*args)
