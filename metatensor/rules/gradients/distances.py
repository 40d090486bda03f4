"""Distances and similarities, and losses based on them, composed of other operators."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor._core.gradients import linalg, ops
from metatensor._core.rule_node import renamed
from metatensor.rules.decomposed.losses import reduced

__all__ = []


def cosine_similarity(x1: Any, x2: Any, dim: int, eps: float) -> Any:
    """Divide by the lengths, then multiply. Lengths below `eps` are raised to `eps` without a change of their gradients."""
    dtype = mt.result_type(x1, x2)
    x1, x2 = x1.to(dtype), x2.to(dtype)
    if x1.shape != x2.shape:
        x1, x2 = mt.broadcast_tensors(x1, x2)
    units = []
    for x in (x1, x2):
        length = linalg.vector_norm(x, 2, dim, True).clone()
        with mt.no_grad():
            length.clamp_(min=eps)
        units.append(x / length)
    return (units[0] * units[1]).sum(dim)


def pairwise_distance(x1: Any, x2: Any, p: float, eps: float, keepdim: bool) -> Any:
    return renamed(linalg.vector_norm(x1 - x2 + eps, p, -1, keepdim), "NormBackward1")


def margin_ranking_loss(input1: Any, input2: Any, target: Any, margin: float, size_average: Any, reduce: Any, reduction: str) -> Any:
    return reduced((-target * (input1 - input2) + margin).clamp_min(0), size_average, reduce, reduction)


def triplet_margin_loss(anchor: Any, positive: Any, negative: Any, margin: float, p: float, eps: float, swap: bool, size_average: Any,
                        reduce: Any, reduction: str) -> Any:  # fmt: skip
    near, far = (pairwise_distance(anchor, other, p, eps, False) for other in (positive, negative))
    if swap:
        far = ops.minimum(far, pairwise_distance(positive, negative, p, eps, False))
    return reduced((near - far + margin).clamp_min(0), size_average, reduce, reduction)
