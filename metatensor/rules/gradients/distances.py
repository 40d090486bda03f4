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
    lengths = [linalg.vector_norm(x, 2, dim, True).clone() for x in (x1, x2)]
    with mt.no_grad():
        least = ops.full((), eps, dtype=lengths[0].dtype, device=x1.device)
        for length in lengths:
            length.clamp_(min=least)
    first, second = x1 / lengths[0], x2 / lengths[1]
    product = first * second
    return product.sum(dim)


def pairwise_distance(x1: Any, x2: Any, p: float, eps: float, keepdim: bool) -> Any:
    difference = x1 - x2
    shifted = difference + eps
    return renamed(linalg.vector_norm(shifted, p, -1, keepdim), "NormBackward1")


def margin_ranking_loss(input1: Any, input2: Any, target: Any, margin: float, size_average: Any, reduce: Any, reduction: str) -> Any:
    first = input1 - input2
    second = -target
    third = second * first
    loss = third + margin
    del first, second, third
    return reduced(loss.clamp_min_(0), size_average, reduce, reduction)


def triplet_margin_loss(anchor: Any, positive: Any, negative: Any, margin: float, p: float, eps: float, swap: bool, size_average: Any,
                        reduce: Any, reduction: str) -> Any:  # fmt: skip
    near, far = (pairwise_distance(anchor, other, p, eps, False) for other in (positive, negative))
    if swap:
        far = ops.minimum(far, pairwise_distance(positive, negative, p, eps, False))
    shifted = near + margin
    del near
    difference = shifted - far
    del far
    loss = difference.clamp_min(0)
    del shifted, difference
    return reduced(loss, size_average, reduce, reduction)
