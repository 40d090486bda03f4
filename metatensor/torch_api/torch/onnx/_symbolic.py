"""PyTorch's symbolic functions, which export operators. They can be accessed, and raise when they are called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from metatensor._core.absent import function

__all__ = ["NAMES", "attribute"]

NAMES = """_convolution add avg_pool2d cat clamp conv2d div dropout embedding expand flatten full gather ge gelu gt index_select
layer_norm linear log_softmax lt masked_fill matmul max mean mul nonzero ones permute pow prim_constant relu repeat reshape select
sigmoid size slice softmax sort split sqrt squeeze stack sub sum tanh to topk transpose unbind unsqueeze upsample_bilinear2d view
where zeros"""


def attribute(module: str, names: str = NAMES) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module of such functions."""
    known = frozenset(names.split())

    def find(name: str) -> Any:
        if name not in known:
            raise AttributeError(f"module 'torch.onnx.{module}' has no attribute {name!r} (metatensor stands in the place of PyTorch)")
        return function(f"onnx.{module}.{name}", "onnx.export does not use these functions")

    return find
