"""Shapes of what nodes compute."""

from __future__ import annotations

from typing import Any, NamedTuple

import metatensor as mt
from metatensor.program.fx.interpreter import Interpreter
from metatensor.program.fx.node import Node, map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """What a tensor is besides its values."""

    shape: Any
    dtype: Any
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: Any = None
    is_quantized: bool = False
    qparams: Any = None


def _metadata(tensor: Any) -> TensorMetadata:
    return TensorMetadata(tensor.shape, tensor.dtype, tensor.requires_grad, tensor.stride())


class ShapeProp(Interpreter):
    """Carries out a graph, and notes in each node's ``meta["tensor_meta"]`` and ``meta["type"]`` what it computed."""

    def run_node(self, n: Node) -> Any:
        """What a node computes."""
        result = super().run_node(n)
        tensors: list[Any] = []

        def note(leaf: Any) -> Any:
            if not isinstance(leaf, mt.Tensor):
                return leaf
            tensors.append(leaf)
            return _metadata(leaf)

        described = map_aggregate(result, note)
        if tensors:
            n.meta["tensor_meta"] = described
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """What the graph returns for these arguments."""
        return super().run(*args)
