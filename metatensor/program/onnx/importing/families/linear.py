"""Products of matrices."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor._core.tensor import Tensor
from metatensor.program.onnx.importing.operators import CONTRIB, Node, operator, plain

__all__: list[str] = []

plain({"MatMul": mt.matmul, "Det": mt.linalg.det})


@operator("Gemm")
def _gemm(node: Node, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    alpha, beta = node.get("alpha", 1.0), node.get("beta", 1.0)
    a = a.t() if node.get("transA", 0) else a
    if not a.is_floating_point():
        b = b.t() if node.get("transB", 0) else b
        y = mt.matmul(a, b)
        y = y if alpha == 1 else (y * alpha).to(a.dtype)
        return y if c is None else y + (c if beta == 1 else (c * beta).to(c.dtype))
    if alpha == 1 and node.get("transB", 0) and (c is None or beta == 1 and c.ndim == 1 and c.shape[0] == b.shape[0]):
        return mt.nn.functional.linear(a, b, c)
    b = b.t() if node.get("transB", 0) else b
    if c is None:
        y = mt.mm(a, b)
        return y if alpha == 1 else y * alpha
    return mt.addmm(c, a, b, beta=beta, alpha=alpha)


@operator("Einsum")
def _einsum(node: Node, *tensors: Tensor) -> Tensor:
    return mt.einsum(node.need("equation").replace(" ", ""), *tensors)


@operator("FusedMatMul", domain=CONTRIB)
def _fused_matmul(node: Node, a: Tensor, b: Tensor) -> Tensor:
    for name, turned in (("transA", "transBatchA"), ("transB", "transBatchB")):
        x = a if name == "transA" else b
        if node.get(turned, 0):
            x = x.movedim(0, -2)
        if node.get(name, 0) and x.ndim > 1:
            x = x.transpose(-1, -2)
        a, b = (x, b) if name == "transA" else (a, x)
    y = mt.matmul(a, b)
    alpha = node.get("alpha", 1.0)
    return y if alpha == 1 else y * alpha


@operator("FusedGemm", domain=CONTRIB)
def _fused_gemm(node: Node, a: Tensor, b: Tensor, c: Tensor | None = None) -> Any:
    y = _gemm(node, a, b, c)
    activation = node.get("activation", "Relu")
    if activation not in _ACTIVATIONS:
        raise NotImplementedError(f"the activation {activation} is not supported")
    return _ACTIVATIONS[activation](y)


_ACTIVATIONS = {"Relu": mt.relu, "Sigmoid": mt.sigmoid, "Tanh": mt.tanh}
