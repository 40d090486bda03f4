"""Steps of optimizers, operators of ONNX's preview domain."""

from __future__ import annotations

import metatensor as mt
from metatensor._core.tensor import Tensor
from metatensor.program.onnx.importing.operators import Node, operator

__all__: list[str] = []

_DOMAIN = "ai.onnx.preview.training"


def _grouped(tensors: tuple[Tensor, ...], groups: int) -> list[tuple[Tensor, ...]]:
    n = len(tensors) // groups
    return list(zip(*(tensors[i * n : (i + 1) * n] for i in range(groups)), strict=True))


@operator("Adagrad", domain=_DOMAIN)
def _adagrad(node: Node, rate: Tensor, count: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
    rate = rate / (1 + count.to(rate.dtype) * node.get("decay_factor", 0.0))
    new, sums = [], []
    for x, g, h in _grouped(tensors, 3):
        g = g + node.get("norm_coefficient", 0.0) * x
        h = h + g * g
        new.append(x - rate * g / (mt.sqrt(h) + node.get("epsilon", 1e-6)))
        sums.append(h)
    return (*new, *sums)


@operator("Adam", domain=_DOMAIN)
def _adam(node: Node, rate: Tensor, count: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
    alpha, beta = node.get("alpha", 0.9), node.get("beta", 0.999)
    steps = count.to(rate.dtype)
    corrected = rate * mt.sqrt(1 - mt.pow(beta, steps)) / (1 - mt.pow(alpha, steps))
    used = mt.where(count > 0, corrected, rate)
    new, means, squares = [], [], []
    for x, g, v, h in _grouped(tensors, 4):
        g = g + node.get("norm_coefficient", 0.0) * x
        v, h = alpha * v + (1 - alpha) * g, beta * h + (1 - beta) * g * g
        x = x - used * v / (mt.sqrt(h) + node.get("epsilon", 1e-6))
        new.append((1 - node.get("norm_coefficient_post", 0.0)) * x)
        means.append(v)
        squares.append(h)
    return (*new, *means, *squares)


@operator("Momentum", domain=_DOMAIN)
def _momentum(node: Node, rate: Tensor, count: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
    alpha, nesterov = node.need("alpha"), node.get("mode", "standard") == "nesterov"
    new, moments = [], []
    for x, g, v in _grouped(tensors, 3):
        g = g + node.need("norm_coefficient") * x
        share = mt.where(count > 0, node.need("beta"), 1.0)
        v = alpha * v + share * g
        new.append(x - rate * (g + alpha * v if nesterov else v))
        moments.append(v)
    return (*new, *moments)
