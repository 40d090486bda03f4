"""Sorting and choosing elements."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor._core.tensor import Tensor
from metatensor.program.onnx.importing.operators import Node, operator
from metatensor.program.onnx.importing.values import OnnxError

__all__: list[str] = []


@operator("TopK", host=(1,))
def _topk(node: Node, x: Tensor, k: Any = None) -> Any:
    count = int(node.number(k, "k")) if k is not None else node.need("k")
    axis, largest = node.get("axis", -1), bool(node.get("largest", 1))
    if not 0 <= count <= x.shape[axis]:
        raise OnnxError(f"{count} elements cannot be chosen from {x.shape[axis]}")
    wide = x.to(mt.float32) if x.is_floating_point() and x.dtype.itemsize == 2 else x
    places = mt.argsort(wide, dim=axis, descending=largest, stable=True).narrow(axis, 0, count)  # of equal elements the first one
    return mt.gather(x, axis, places), places


@operator("Unique")
def _unique(node: Node, x: Tensor) -> Any:
    axis = node.get("axis")
    if axis is None:
        x, axis = x.reshape(-1), 0
    found, inverse, counts = mt.unique(x, return_inverse=True, return_counts=True, dim=axis)
    size = x.shape[axis]
    start = mt.full((found.shape[axis],), size, dtype=mt.int64, device=x.device)
    first = mt.scatter_reduce(start, 0, inverse.reshape(-1), mt.arange(size, device=x.device), "amin")
    if not node.get("sorted", 1):
        order = mt.argsort(first)
        found, first, counts = found.index_select(axis, order), first[order], counts[order]
        inverse = mt.argsort(order)[inverse.reshape(-1)]
    return found, first, inverse.reshape(-1), counts


@operator("NonMaxSuppression", host=True)
def _non_max_suppression(node: Node, boxes: Any, scores: Any, most: Any = None, overlap: Any = None, least: Any = None) -> Any:
    limit = int(node.number(most, "the number of boxes", 0))
    edge, low = node.number(overlap, "the overlap", 0.0), node.number(least, "the score", None)
    boxes, scores = node.lift(boxes), node.lift(scores)
    found = [mt.zeros((0, 3), dtype=mt.int64, device=node.device)]
    for b in range(scores.shape[0] if limit > 0 else 0):
        first, second = boxes[b, :, :2], boxes[b, :, 2:]
        if node.get("center_point_box", 0):
            corners = first - second / 2, first + second / 2
        else:
            corners = mt.minimum(first, second), mt.maximum(first, second)
        for c in range(scores.shape[1]):
            node.run.spend(1)
            kept = _kept(node, *corners, scores[b, c], limit, edge, low)
            if kept:
                found.append(mt.tensor([[b, c, i] for i in kept], dtype=mt.int64, device=node.device))
    return mt.cat(found)


def _kept(node: Node, low: Tensor, high: Tensor, scores: Tensor, limit: int, edge: float, least: float | None) -> list[int]:
    """Return the boxes of one class that remain, the best first. `low` and `high` are the corners, (boxes, 2)."""
    order = mt.argsort(scores, descending=True, stable=True)
    if least is not None:
        order = order[: int((scores > least).sum())]
    area = (high - low).prod(1)
    kept: list[int] = []
    while order.numel() and len(kept) < limit:
        node.run.spend(1)
        best, order = order[:1], order[1:]
        kept.append(int(best))
        both = mt.clamp(mt.minimum(high[best], high[order]) - mt.maximum(low[best], low[order]), min=0).prod(1)
        order = order[both <= edge * (area[best] + area[order] - both)]
    return kept
