"""Scaled dot-product attention, computed in blocks of query rows so that only one block of scores is in memory."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from metatensor.devices.array_kit import host
from metatensor.devices.array_kit.pointwise import is_single
from metatensor.devices.array_kit.registry import kernel
from metatensor.devices.array_kit.softmax import softmax_of

# Number of scores in one block. On the host a block should fit in the cache. On other devices, large blocks save kernel
# launches.
HOST_BLOCK = 1 << 17
DEVICE_BLOCK = 1 << 26
_ALL = slice(None)


def _repeat_heads(array: Any, heads: int) -> Any:
    """Repeat the heads of an array (..., heads, length, width) to match a query with ``heads`` heads."""
    own = array.shape[-3]
    return array if own == heads else array.repeat(heads // own, axis=-3)


def _softmax(kit: Any, scores: Any, masked: bool) -> Any:
    """Compute the softmax over the last dimension in place. With ``masked``, rows of -inf become zeros."""
    xp = kit.xp
    if is_single(kit, scores, scores):
        host.softmax(scores, scores, scores.shape[-1], masked)
        return scores
    if not masked:
        return softmax_of(xp, scores, -1, scores)
    top = scores.max(axis=-1, keepdims=True)
    xp.copyto(top, scores.dtype.type(0), where=xp.isinf(top))
    scores -= top
    xp.exp(scores, out=scores)
    total = scores.sum(axis=-1, keepdims=True)
    xp.copyto(total, scores.dtype.type(1), where=total == 0)
    scores /= total
    return scores


def _blocks(room: int, batch: tuple[int, ...], length: int, keys: int) -> Iterator[tuple[tuple[Any, ...], int, int]]:
    """Yield (batch index, first row, end row) of blocks with at most ``room`` scores each.

    A single row of scores is never divided, so it may exceed ``room``.
    """
    rows = max(1, min(length, room // keys))
    left = room // (rows * keys) if rows == length else 1
    place = len(batch)
    while place and batch[place - 1] <= left:  # blocks contain these dimensions as a whole
        place -= 1
        left //= batch[place]
    left = max(1, left)
    for leading in itertools.product(*map(range, batch[: max(place - 1, 0)])):
        for at in range(0, batch[place - 1] if place else 1, left):
            index = (*leading, slice(at, at + left)) if place else ()
            for first in range(0, length, rows):
                yield index, first, min(length, first + rows)


@kernel("nn.functional.scaled_dot_product_attention")
def attention(
    kit: Any, out: Any, query: Any, key: Any, value: Any, mask: Any, dropout_p: float, is_causal: bool,
    scale: float | None, enable_gqa: bool, ticket: Any,
) -> Any:  # fmt: skip
    xp, batch = kit.xp, out.shape[:-2]
    length, keys = query.shape[-2], key.shape[-2]
    if not out.size:
        return None
    if not keys:
        out[...] = 0
        return None
    if enable_gqa:
        key, value = _repeat_heads(key, query.shape[-3]), _repeat_heads(value, query.shape[-3])
    if query.shape[-1]:  # without features all scores are 0
        query = query * query.dtype.type(1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    room = HOST_BLOCK if kit.on_host else DEVICE_BLOCK
    direct = out.dtype == query.dtype == value.dtype
    if direct and mask is None and not is_causal and not dropout_p and math.prod(batch) * length * keys <= room:
        xp.matmul(_softmax(kit, xp.matmul(query, key.swapaxes(-1, -2)), False), value, out=out)
        return None
    stream = kit.random(ticket) if dropout_p > 0 else None
    if mask is not None:
        mask = xp.broadcast_to(mask, (*batch, length, keys))
    if not query.shape[:-2] == key.shape[:-2] == value.shape[:-2] == batch:
        query, key, value = (xp.broadcast_to(item, (*batch, *item.shape[-2:])) for item in (query, key, value))
    transposed = key.swapaxes(-1, -2)
    for index, first, last in _blocks(room, batch, length, keys):
        scores = xp.matmul(query[index + (..., slice(first, last), _ALL)], transposed[index])
        if is_causal:
            later = xp.arange(keys)[None, :] > xp.arange(first, last)[:, None]
            xp.copyto(scores, scores.dtype.type(-np.inf), where=later)
        if mask is not None:
            part = mask[index + (..., slice(first, last), _ALL)]
            if part.dtype.kind == "b":
                xp.copyto(scores, scores.dtype.type(-np.inf), where=~part)
            else:
                scores += part
        weights = _softmax(kit, scores.astype(out.dtype, copy=False), is_causal or mask is not None)
        if stream is not None:
            numbers = np.arange(math.prod(batch)).reshape(batch)[index]
            weights *= _kept(xp, stream, weights.shape, numbers, first, length, dropout_p)
        target = out[index + (..., slice(first, last), _ALL)]
        if direct:
            xp.matmul(weights, value[index], out=target)
        else:
            target[...] = xp.matmul(weights, value[index])
    return None


def _kept(xp: Any, stream: Any, shape: tuple[int, ...], numbers: Any, first: int, length: int, p: float) -> Any:
    """Return the dropout factor of each weight: 0, or 1 / (1 - p).

    The random number of element (..., row, key) does not depend on how the work is divided into blocks. ``numbers``
    holds the indices of the matrices within the whole batch.
    """
    *_, rows, keys = shape
    scale = np.float32(0) if p == 1 else np.float32(1) / np.float32(1 - p)
    draws = [stream.below(rows * keys, (int(i) * length + first) * keys, 1 - p) for i in numbers.reshape(-1)]
    return xp.stack(draws).reshape(shape) * scale
