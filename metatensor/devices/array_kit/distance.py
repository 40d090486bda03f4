"""Kernels of similarities, distances, and the losses based on them."""

from __future__ import annotations

from typing import Any

import numpy as np

from metatensor.devices.array_kit.loss import reduced
from metatensor.devices.array_kit.pointwise import in_common
from metatensor.devices.array_kit.registry import kernel


def _cosine(xp: Any, a: Any, b: Any, axis: int, eps: float) -> Any:
    dot = (a * b).sum(axis=axis)
    lengths = [xp.maximum(xp.sqrt((v * v).sum(axis=axis)), eps) for v in (a, b)]
    return dot / (lengths[0] * lengths[1])


def _norm(xp: Any, difference: Any, p: float, keepdims: bool = False) -> Any:
    """Return the p-norm over the last dimension. For p = 0 it is the number of nonzeros.

    For p = inf it is the largest magnitude, for -inf the smallest.
    """
    size = xp.abs(difference)
    if p == 0:
        return (size != 0).sum(axis=-1, keepdims=keepdims).astype(size.dtype)
    if p == np.inf:
        return size.max(axis=-1, keepdims=keepdims)
    if p == -np.inf:
        return size.min(axis=-1, keepdims=keepdims)
    if p == 2:
        return xp.sqrt((size * size).sum(axis=-1, keepdims=keepdims))
    return (size**p).sum(axis=-1, keepdims=keepdims) ** (1 / p)


def _apart(kit: Any, a: Any, b: Any, dtype: Any) -> Any:
    """Return a - b. Integers are subtracted as integers, which wrap around. Real results are then cast to ``dtype``."""
    a, b = in_common(kit, a, b)
    difference = a - b
    return difference if difference.dtype.kind == "c" else difference.astype(dtype, copy=False)


@kernel("cosine_similarity")
def cosine_similarity(kit: Any, out: Any, x1: Any, x2: Any, dim: int, eps: float) -> Any:
    x1, x2 = kit.xp.broadcast_arrays(*(x if x.dtype.kind == "c" else x.astype(out.dtype) for x in (x1, x2)))
    if not x1.ndim:
        x1, x2, dim = x1[None], x2[None], 0
    return _cosine(kit.xp, x1, x2, dim, eps)


@kernel("pairwise_distance")
def pairwise_distance(kit: Any, out: Any, x1: Any, x2: Any, p: float, eps: float, keepdim: bool) -> Any:
    difference = _apart(kit, x1, x2, out.dtype) + out.dtype.type(eps)
    if not out.ndim and not difference.ndim:
        difference = difference[None]
    return _norm(kit.xp, difference, p, keepdim)


@kernel("pdist")
def pdist(kit: Any, out: Any, input: Any, p: float) -> None:
    start = 0
    for i in range(len(input) - 1):
        stop = start + len(input) - 1 - i
        out[start:stop] = _norm(kit.xp, input[i + 1 :] - input[i], p) if input.shape[1] else 0
        start = stop


def _slope(xp: Any, grad: Any, difference: Any, p: float, distance: Any) -> Any:
    """Return the gradient of p-norms over the last dimension. ``grad`` and ``distance`` have size 1 in that dimension."""
    sign, size = xp.sign(difference), xp.abs(difference)
    if p == 0:
        return xp.zeros_like(difference)
    if p == 1:
        return sign * grad
    if p == np.inf:
        largest = size == distance
        return sign * largest * grad / xp.maximum(largest.sum(axis=-1, keepdims=True), 1)
    scale = xp.where(distance == 0, 0, grad / xp.where(distance == 0, 1, distance) ** (p - 1))
    if p == 2:
        return difference * scale
    return sign * xp.where(size == 0, 0, xp.where(size == 0, 1, size) ** (p - 1)) * scale


@kernel("_pdist_backward")
def pdist_backward(kit: Any, out: Any, grad: Any, input: Any, p: float, pdist: Any) -> None:
    out[...] = 0
    start = 0
    for i in range(len(input) - 1):
        stop = start + len(input) - 1 - i
        made = _slope(kit.xp, grad[start:stop, None], input[i] - input[i + 1 :], p, pdist[start:stop, None])
        out[i] += made.sum(axis=0)
        out[i + 1 :] -= made
        start = stop


@kernel("_cdist_backward")
def cdist_backward(kit: Any, out: Any, grad: Any, x1: Any, x2: Any, p: float, cdist: Any) -> None:
    for i in range(x1.shape[-2]):
        difference = x1[..., i : i + 1, :] - x2
        out[..., i, :] = _slope(kit.xp, grad[..., i, :, None], difference, p, cdist[..., i, :, None]).sum(axis=-2)


@kernel("nn.functional.margin_ranking_loss")
def margin_ranking_loss(
    kit: Any, out: Any, input1: Any, input2: Any, target: Any, margin: float, average: Any, reduce: Any, reduction: str
) -> Any:
    # Integers are subtracted and multiplied as integers, which wrap around.
    first, second = in_common(kit, input1, input2)
    sign, difference = in_common(kit, kit.xp.negative(target), first - second)
    return reduced(kit.xp.maximum((sign * difference).astype(out.dtype) + out.dtype.type(margin), 0), reduction)


@kernel("nn.functional.cosine_embedding_loss")
def cosine_embedding_loss(
    kit: Any, out: Any, input1: Any, input2: Any, target: Any, margin: float, average: Any, reduce: Any, reduction: str
) -> Any:
    xp, zero = kit.xp, out.dtype.type(0)
    cosine = _cosine(xp, input1.astype(out.dtype), input2.astype(out.dtype), -1, 1e-12)
    together = xp.where(target == 1, 1 - cosine, zero)
    return reduced(together + xp.where(target == -1, xp.maximum(cosine - margin, 0), zero), reduction)


@kernel("nn.functional.triplet_margin_loss")
def triplet_margin_loss(
    kit: Any, out: Any, anchor: Any, positive: Any, negative: Any, margin: float, p: float, eps: float, swap: bool,
    average: Any, reduce: Any, reduction: str,
) -> Any:  # fmt: skip
    xp = kit.xp
    if not anchor.ndim:
        anchor, positive, negative = anchor[None], positive[None], negative[None]
    near = _norm(xp, _apart(kit, anchor, positive, out.dtype) + eps, p)
    far = _norm(xp, _apart(kit, anchor, negative, out.dtype) + eps, p)
    if swap:
        far = xp.minimum(far, _norm(xp, _apart(kit, positive, negative, out.dtype) + eps, p))
    return reduced(xp.maximum(margin + near - far, 0), reduction)
