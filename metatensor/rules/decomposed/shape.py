"""Joining, reordering, padding and indexing, and factories such as `eye`, `arange` and `linspace`."""

from __future__ import annotations

import functools
import math
from typing import Any

import metatensor as mt
from metatensor.rules.decompositions import decomposition


@decomposition("cat")
def cat(tensors: Any, dim: int) -> Any:
    """Copy each tensor into its part of the result. Tensors of shape (0,) are skipped."""
    dtype = functools.reduce(mt.promote_types, [t.dtype for t in tensors])
    kept = [t for t in tensors if tuple(t.shape) != (0,)] or [tensors[0]]
    shape = list(kept[0].shape)
    shape[dim] = sum(t.shape[dim] for t in kept)
    out = mt.empty(shape, dtype=dtype, device=kept[0].device)
    start = 0
    for t in kept:
        out.narrow(dim, start, t.shape[dim]).copy_(t)
        start += t.shape[dim]
    return out


@decomposition("stack")
def stack(tensors: Any, dim: int) -> Any:
    return mt.cat([t.unsqueeze(dim) for t in tensors], dim)


@decomposition("roll")
def roll(x: Any, shifts: Any, dims: Any) -> Any:
    if not dims:
        return x.reshape(-1).roll(shifts, (0,)).reshape(x.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        size = x.shape[dim]
        at = (size - shift) % size if size else 0
        if at:
            x = mt.cat([x.narrow(dim, at, size - at), x.narrow(dim, 0, at)], dim)
    return x


@decomposition("repeat")
def repeat(x: Any, repeats: Any) -> Any:
    x = x.reshape((1,) * (len(repeats) - x.dim()) + tuple(x.shape))
    spread = x
    for d in range(len(repeats)):
        spread = spread.unsqueeze(2 * d)
    spread = spread.expand([n for times, size in zip(repeats, x.shape, strict=True) for n in (times, size)])
    return spread.reshape([times * size for times, size in zip(repeats, x.shape, strict=True)])


@decomposition("_repeat_interleave")
def repeat_interleave(x: Any, repeats: int, dim: int, output_size: int) -> Any:
    spread = x.unsqueeze(dim % x.dim() + 1)
    shape = list(spread.shape)
    shape[dim % x.dim() + 1] = repeats
    return spread.expand(shape).flatten(dim % x.dim(), dim % x.dim() + 1)


@decomposition("constant_pad_nd")
def constant_pad(x: Any, pad: Any, value: Any) -> Any:
    """Fill the result with the value, then copy the part of the input that is not cropped."""
    before, after = [0] * x.dim(), [0] * x.dim()
    for i in range(len(pad) // 2):
        before[-1 - i], after[-1 - i] = pad[2 * i], pad[2 * i + 1]
    shape = [size + a + b for size, a, b in zip(x.shape, before, after, strict=True)]
    out = mt.full(shape, value, dtype=x.dtype, device=x.device)
    target = out
    for d, (a, b) in enumerate(zip(before, after, strict=True)):
        kept = x.shape[d] + min(a, 0) + min(b, 0)
        target = target.narrow(d, max(a, 0), kept)
        x = x.narrow(d, max(-a, 0), kept)
    target.copy_(x)
    return out


@decomposition("nn.functional.pad")
def pad(x: Any, pad: Any, mode: str, value: Any) -> Any:
    if mode == "constant":
        return mt.constant_pad_nd(x, pad, 0 if value is None else value)
    for i in range(len(pad) // 2):
        dim, before, after = x.dim() - 1 - i, pad[2 * i], pad[2 * i + 1]
        size = x.shape[dim]
        at = mt.arange(-before, size + after, device=x.device)
        if mode == "reflect":
            at = (size - 1) - ((size - 1) - at.abs()).abs()
        elif mode == "replicate":
            at = at.clamp(0, size - 1)
        else:
            at = at.remainder(size)
        x = x.index_select(dim, at)
    return x


@decomposition("tril")
def tril(x: Any, diagonal: int) -> Any:
    return mt.where(_offsets(x) <= diagonal, x, mt.zeros((), dtype=x.dtype, device=x.device))


@decomposition("triu")
def triu(x: Any, diagonal: int) -> Any:
    return mt.where(_offsets(x) >= diagonal, x, mt.zeros((), dtype=x.dtype, device=x.device))


def _offsets(x: Any) -> Any:
    """Return the diagonal offset, column minus row, of each element of the matrices."""
    rows, columns = (mt.arange(size, device=x.device) for size in x.shape[-2:])
    return columns - rows.unsqueeze(-1)


@decomposition("eye")
def eye(n: int, *options: Any) -> Any:
    return _eye(n, n, options)


@decomposition("eye.m")
def eye_m(n: int, m: Any, *options: Any) -> Any:
    return _eye(n, n if m is None else m, options)


def _eye(n: int, m: int, options: tuple[Any, ...]) -> Any:
    dtype, device = options[0] or mt.get_default_dtype(), options[2]
    return (mt.arange(m, device=device) == mt.arange(n, device=device).unsqueeze(-1)).to(dtype)


@decomposition("arange.start")
def arange(start: Any, end: Any, step: Any, dtype: Any, layout: Any, device: Any, *rest: Any) -> Any:
    """Compute start + i * step with integer i, which does not accumulate rounding errors."""
    exact = all(isinstance(n, int) for n in (start, end, step))
    count = max(0, -((start - end) // step) if exact else _ceil((end - start) / step))
    steps = mt.arange(count, device=device)
    dtype = dtype or (mt.int64 if exact else mt.get_default_dtype())
    if exact:
        return (steps * step + start).to(dtype)
    return (steps.to(mt.float64) * step + start).to(dtype)


def _ceil(value: float) -> int:
    return math.ceil(value)


@decomposition("linspace")
def linspace(start: Any, end: Any, steps: int, dtype: Any, layout: Any, device: Any, *rest: Any) -> Any:
    """Compute each half from its own end, so that both ends are exact."""
    start, end = (value.item() if isinstance(value, mt.Tensor) else value for value in (start, end))
    dtype = dtype or mt.get_default_dtype()
    if steps == 1:
        return mt.full((1,), start, dtype=dtype, device=device)
    i = mt.arange(steps, device=device).to(mt.float64)
    step = (end - start) / (steps - 1)
    return mt.where(i < steps // 2, start + i * step, end - (steps - 1 - i) * step).to(dtype)


@decomposition("diag_embed")
def diag_embed(x: Any, offset: int, dim1: int, dim2: int) -> Any:
    size = x.shape[-1] + abs(offset)
    out = mt.zeros((*x.shape[:-1], size, size), dtype=x.dtype, device=x.device).movedim((-2, -1), (dim1, dim2))
    out.diagonal(offset, dim1, dim2).copy_(x)
    return out


@decomposition("_block_diag")
def block_diag(tensors: Any) -> Any:
    blocks = [t.reshape(1, -1) if t.dim() < 2 else t for t in tensors]
    dtype = blocks[0].dtype
    for block in blocks[1:]:
        dtype = mt.promote_types(dtype, block.dtype)
    out = mt.zeros((sum(b.shape[0] for b in blocks), sum(b.shape[1] for b in blocks)), dtype=dtype, device=blocks[0].device)
    row = column = 0
    for block in blocks:
        out[row : row + block.shape[0], column : column + block.shape[1]].copy_(block)
        row, column = row + block.shape[0], column + block.shape[1]
    return out


@decomposition("take")
def take(x: Any, index: Any) -> Any:
    return x.reshape(-1)[index]


@decomposition("embedding")
def embedding(weight: Any, indices: Any, *options: Any) -> Any:
    return weight.index_select(0, indices.reshape(-1)).reshape(*indices.shape, *weight.shape[1:])


@decomposition("nn.functional.embedding")
def embedding_function(input: Any, weight: Any, padding_idx: Any, max_norm: Any, *options: Any) -> Any:
    return weight.index_select(0, input.reshape(-1)).reshape(*input.shape, *weight.shape[1:])


@decomposition("_masked_select")
def masked_select_some(x: Any, mask: Any, count: int) -> Any:
    return x.masked_select(mask)


@decomposition("nn.functional.one_hot")
def one_hot(x: Any, classes: int) -> Any:
    classes = int(x.max().item()) + 1 if classes == -1 else classes
    if x.numel() and not bool(((x >= 0) & (x < classes)).all().item()):
        raise RuntimeError(f"one_hot(): every class must lie in [0, {classes})")
    return (x.unsqueeze(-1) == mt.arange(classes, device=x.device)).to(mt.int64)


@decomposition("nn.functional.pixel_shuffle")
def pixel_shuffle(x: Any, factor: int) -> Any:
    *batch, channels, height, width = x.shape
    x = x.reshape(*batch, channels // factor**2, factor, factor, height, width)
    n = len(batch)
    order = (*range(n + 1), n + 3, n + 1, n + 4, n + 2)
    return x.permute(order).reshape(*batch, channels // factor**2, height * factor, width * factor)


@decomposition("nn.functional.pixel_unshuffle")
def pixel_unshuffle(x: Any, factor: int) -> Any:
    *batch, channels, height, width = x.shape
    x = x.reshape(*batch, channels, height // factor, factor, width // factor, factor)
    n = len(batch)
    return x.permute((*range(n + 1), n + 2, n + 4, n + 1, n + 3)).reshape(*batch, channels * factor**2, height // factor, width // factor)


@decomposition("nn.functional.channel_shuffle")
def channel_shuffle(x: Any, groups: int) -> Any:
    batch, channels, *rest = x.shape
    return x.reshape(batch, groups, channels // groups, *rest).transpose(1, 2).reshape(x.shape)


@decomposition("index_fill")
def index_fill(x: Any, dim: int, index: Any, value: Any) -> Any:
    size = x.shape[dim] if x.dim() else 1
    if index.numel() and not bool(((index >= -size) & (index < size)).all().item()):
        raise IndexError(f"index_fill(): an index is out of bounds for dimension {dim} of size {size}")
    marked = (mt.arange(size, device=x.device).unsqueeze(-1) == index.reshape(-1).remainder(max(size, 1))).any(1)
    shape = [1] * x.dim()
    if x.dim():
        shape[dim] = -1
    return mt.masked_fill(x, marked.reshape(shape), value)


@decomposition("index_add")
def index_add(x: Any, dim: int, index: Any, source: Any, alpha: Any) -> Any:
    flat, source = (x.reshape(1), source.reshape(1)) if x.dim() == 0 else (x, source)
    shape = [1] * flat.dim()
    shape[dim] = -1
    source = source if alpha == 1 else (source * alpha).to(x.dtype)
    return mt.scatter_add(flat, dim, index.to(mt.int64).reshape(shape).expand(source.shape), source).reshape(x.shape)


@decomposition("scatter.value")
def scatter_value(x: Any, dim: int, index: Any, value: Any) -> Any:
    return mt.scatter(x, dim, index, mt.full(index.shape, value, dtype=x.dtype, device=x.device))


@decomposition("tril_indices")
def tril_indices(row: int, col: int, offset: int, dtype: Any, layout: Any, device: Any, *rest: Any) -> Any:
    places = [(i, j) for i in range(row) for j in range(min(max(i + offset + 1, 0), col))]
    return _places(places, dtype, device)


@decomposition("triu_indices")
def triu_indices(row: int, col: int, offset: int, dtype: Any, layout: Any, device: Any, *rest: Any) -> Any:
    places = [(i, j) for i in range(row) for j in range(max(i + offset, 0), col)]
    return _places(places, dtype, device)


def _places(places: list[tuple[int, int]], dtype: Any, device: Any) -> Any:
    return mt.tensor(places, dtype=dtype or mt.int64, device=device).reshape(-1, 2).T


@decomposition("masked_select")
def masked_select(x: Any, mask: Any) -> Any:
    x, mask = mt.broadcast_tensors(x, mask)
    return x.reshape(-1).index_select(0, mt.nonzero(mask.reshape(-1)).reshape(-1))


@decomposition("argwhere")
def argwhere(x: Any) -> Any:
    return mt.nonzero(x)


@decomposition("isin")
def isin(elements: Any, tests: Any, unique: bool, invert: bool) -> Any:
    found = (elements.unsqueeze(-1) == tests.reshape(-1)).any(-1)
    return ~found if invert else found


@decomposition("bucketize")
def bucketize(x: Any, boundaries: Any, as_int32: bool, right: bool) -> Any:
    x = x if isinstance(x, mt.Tensor) else mt.tensor(x, device=boundaries.device)
    at = x.unsqueeze(-1)
    found = (~(at < boundaries) if right else ~(at <= boundaries)).sum(-1)
    return found.to(mt.int32) if as_int32 else found
