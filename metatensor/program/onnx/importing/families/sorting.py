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
        raise OnnxError(f"{count} elements cannot be chosen of {x.shape[axis]}")
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
    chosen: list[list[int]] = []
    node.run.spend(scores.numel())
    for b in range(scores.shape[0]):
        share = _overlaps(boxes[b], bool(node.get("center_point_box", 0))) > edge
        table = share.tolist() if limit else []
        for c in range(scores.shape[1]):
            row = scores[b, c]
            order = mt.argsort(row, descending=True, stable=True).tolist() if limit else []
            values = row.tolist() if limit else []
            kept: list[int] = []
            for i in order:
                if len(kept) >= limit:
                    break
                if (low is None or values[i] > low) and not any(table[i][j] for j in kept):
                    kept.append(i)
            chosen += [[b, c, i] for i in kept]
    if not limit:
        return mt.zeros((0, 3), dtype=mt.int64, device=node.device)
    return mt.tensor(chosen, dtype=mt.int64, device=node.device).reshape(-1, 3)


def _overlaps(boxes: Tensor, centred: bool) -> Tensor:
    """Return the intersection of each pair of boxes over their union."""
    first, second = boxes[:, :2], boxes[:, 2:]
    low = mt.minimum(first, second) if not centred else first - second / 2
    high = mt.maximum(first, second) if not centred else first + second / 2
    both = mt.clamp(mt.minimum(high[:, None], high) - mt.maximum(low[:, None], low), min=0)
    shared = both[..., 0] * both[..., 1]
    area = (high - low)[:, 0] * (high - low)[:, 1]
    return shared / (area[:, None] + area - shared)
