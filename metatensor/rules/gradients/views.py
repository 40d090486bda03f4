"""Gradients of views, and of operators that repeat, reorder or join elements."""

from __future__ import annotations

import math
from typing import Any

import metatensor as mt
from metatensor._core.gradients import ops

__all__ = [
    "blocks",
    "chunks",
    "combined",
    "concatenated",
    "interleaved",
    "negated",
    "padded_around",
    "pieces",
    "powers",
    "repeated",
    "sections",
    "side_sections",
    "strided",
    "strided_part",
    "unbound",
    "unfolded",
    "unpadded",
    "without",
    "without_strided",
]


# One view -----------------------------------------------------------------------------------------------


def unfolded(grad: Any, shape: tuple, dim: int, size: int, step: int) -> Any:
    """Return the sum of the windows, each at its position along `dim`."""
    if not shape:
        return grad.reshape(shape)
    dim %= len(shape)
    grad = grad.movedim(-1, dim + 1)
    places = ops.arange(shape[dim], device=grad.device).unfold(0, size, step).reshape(-1)
    return grad.new_zeros(shape).index_add(dim, places, grad.flatten(dim, dim + 1))


def _extent(shape: Any, strides: Any) -> int:
    """Return the number of storage elements from the first to the last element of a layout."""
    return 0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, strides))


def _overlaps(shape: Any, strides: Any) -> bool:
    """Return whether two indices may refer to the same memory."""
    reached = 1
    for stride, size in sorted((s, n) for n, s in zip(shape, strides) if n != 1):
        if stride < reached:
            return True
        reached = stride * (size - 1) + reached
    return False


def strided(grad: Any, source: Any, size: tuple, stride: tuple, offset: int | None) -> Any:
    """Return the gradient of `as_strided`. Sum `grad` in a flat storage, then read that with the layout of the input."""
    at = source.offset if offset is None else offset
    start = min(at, source.offset)
    n = max(at + _extent(size, stride), source.offset + _extent(source.shape, source.strides)) - start
    memory = grad.new_zeros((n,))
    places = None
    if 0 not in size:
        if _overlaps(size, stride):
            places = ops.arange(n, device=grad.device)
            memory = memory.index_add(0, places.as_strided(size, stride, at - start).reshape(-1), grad.reshape(-1))
        else:
            memory.as_strided(size, stride, at - start).copy_(grad)
    if 0 not in source.shape and _overlaps(source.shape, source.strides):
        # Elements of the input that share memory get equal parts of the gradient.
        places = ops.arange(n, device=grad.device).as_strided(source.shape, source.strides, source.offset - start).reshape(-1)
        memory = memory / memory.new_zeros((n,)).index_add(0, places, memory.new_ones(places.shape))
    return memory.as_strided(source.shape, source.strides, source.offset - start)


# Replaced parts ---------------------------------------------------------------------------------------


def without(grad: Any, view: str, *arguments: Any) -> Any:
    """Return `grad` with zeros in the part that the operator `view` selects."""
    made = grad.clone()
    getattr(ops, view)(made, *arguments).zero_()
    return made


def _laid_out(grad: Any, layout: Any) -> Any:
    """Return a copy of `grad` that is laid out in memory as the input was."""
    return grad.new_empty_strided(layout.shape, layout.strides).copy_(grad)


def strided_part(grad: Any, layout: Any, size: tuple, stride: tuple, offset: int | None) -> Any:
    """Return the part of `grad` that `as_strided` selects in a tensor of the input's layout."""
    return _laid_out(grad, layout).as_strided(size, stride, 0 if offset is None else offset - layout.offset)


def without_strided(grad: Any, layout: Any, size: tuple, stride: tuple, offset: int | None) -> Any:
    """Return `grad` with zeros in the part that `as_strided` selects."""
    made = _laid_out(grad, layout)
    made.as_strided(size, stride, 0 if offset is None else offset - layout.offset).zero_()
    return made


# Several views ----------------------------------------------------------------------------------------


def pieces(grads: tuple, meta: Any, sizes: Any, dim: int) -> Any:
    """Return the joined gradients of parts. `sizes` is a list of sizes, or the size of every part."""
    shape = list(meta.shape)
    if isinstance(sizes, int):
        n, total = sizes, shape[dim]
        sizes = [min(n, total - i * n) for i in range(len(grads))]
    some = next(g for g in grads if g is not None)
    made = []
    for g, n in zip(grads, sizes):
        shape[dim] = n
        made.append(some.new_zeros(shape) if g is None else g)
    return ops.cat(made, dim)


def chunks(grads: tuple, meta: Any, n: int, dim: int) -> Any:
    """Return the joined gradients of `n` chunks."""
    total = meta.shape[dim]
    return pieces(grads, meta, -(-total // n) if total else [0] * len(grads), dim)


def sections(grads: tuple, meta: Any, where: Any, dim: int) -> Any:
    """Return the joined gradients of sections. `where` is their number, or the indices at which they are split."""
    size = meta.shape[dim]
    if isinstance(where, int):
        small, more = divmod(size, where)
        bounds = [0]
        for i in range(where):
            bounds.append(bounds[-1] + small + (i < more))
    else:
        bounds = [0, *where, size]
    total = None
    for g, start, stop in zip(grads, bounds, bounds[1:]):
        if g is not None:
            whole = g.new_zeros(meta.shape)
            ops.slice(whole, dim, start, stop).copy_(g)
            total = whole if total is None else total + whole
    return total


def side_sections(grads: tuple, meta: Any, where: Any) -> Any:
    """Return the gradient of `hsplit`, which splits dimension 1, or dimension 0 of a vector."""
    return sections(grads, meta, where, min(len(meta.shape) - 1, 1))


def unbound(grads: tuple, meta: Any, dim: int) -> Any:
    """Return the stacked gradients of the slices along `dim`."""
    some = next(g for g in grads if g is not None)
    return ops.stack([some.new_zeros(some.shape) if g is None else g for g in grads], dim)


# Joining ------------------------------------------------------------------------------------------------


def concatenated(grad: Any, layouts: list, dim: int) -> list:
    """Return the parts of `grad` that belong to the joined tensors. Tensors of shape (0,) were ignored."""
    made, start = [], 0
    for each in layouts:
        if each.shape == (0,) and grad.ndim != 1:
            made.append(grad.new_zeros((0,)))
            continue
        n = each.shape[dim]
        made.append(grad.narrow(dim, start, n))
        start += n
    return made


def blocks(grad: Any, layouts: list) -> list:
    """Return the blocks of the gradient of a block-diagonal matrix."""
    made, row, column = [], 0, 0
    for each in layouts:
        shape = each.shape
        rows, columns = shape if len(shape) == 2 else (1, shape[0] if shape else 1)
        made.append(grad.narrow(0, row, rows).narrow(1, column, columns).reshape(shape))
        row, column = row + rows, column + columns
    return made


# Repeating and reordering -----------------------------------------------------------------------------


def repeated(grad: Any, shape: tuple, repeats: tuple) -> Any:
    """Return the sum over all repetitions."""
    if 0 in repeats:
        return grad.new_zeros(shape)
    lead = len(repeats) - len(shape)
    split, sums = list(repeats[:lead]), list(range(lead))
    for n, size in zip(repeats[lead:], shape):
        if n != 1:
            sums.append(len(split))
            split.append(n)
        split.append(size)
    return grad.reshape(split).sum(sums) if sums else grad


def interleaved(input: Any, repeats: Any, dim: int, size: int) -> Any:
    """Compute `repeat_interleave` by selecting each slice by its index."""
    index = ops._repeat_interleave_by(ops.arange(input.size(dim), device=input.device), repeats, 0, size)
    return input.index_select(dim, index)


def negated(shifts: Any) -> Any:
    """Return the opposite shifts."""
    return -shifts if isinstance(shifts, int) else tuple(-n for n in shifts)


def combined(input: Any, r: int, with_replacement: bool) -> Any:
    """Compute `combinations` by selecting the ordered tuples from all tuples."""
    if not r:
        return input.new_empty((0,))
    n = input.shape[0]
    mask = ops.ones((n,) * r, dtype=mt.bool, device=input.device)
    places = ops.arange(n, device=input.device)
    for k in range(r - 1):
        before, after = (places.reshape([n if d == at else 1 for d in range(r)]) for at in (k, k + 1))
        mask = mask & (before <= after if with_replacement else before < after)
    count = math.comb(n + r - 1, r) if with_replacement else math.comb(n, r)
    grids = [input.reshape([n if d == k else 1 for d in range(r)]).expand((n,) * r) for k in range(r)]
    return ops.stack([ops._masked_select(grid, mask, count) for grid in grids], 1)


def unpadded(grad: Any, shape: tuple, pad: tuple, mode: str) -> Any:
    """Return the gradient of padding with copies of elements. Each element gets the sum of the gradients of its copies."""
    for k in range(len(pad) // 2):
        before, after, dim = pad[2 * k], pad[2 * k + 1], len(shape) - 1 - k
        if not before and not after:
            continue
        last = shape[dim] - 1
        places = ops.arange(-before, last + 1 + after, device=grad.device)
        places = last - (last - places.abs()).abs() if mode == "reflect" else places.clamp(0, last)
        grad = grad.new_zeros((*grad.shape[:dim], last + 1, *grad.shape[dim + 1 :])).index_add(dim, places, grad)
    return grad


def padded_around(input: Any, pad: tuple) -> Any:
    """Compute circular padding: copy the tensor to the middle, then each side from the opposite one."""
    shape, n = list(input.shape), input.ndim
    for k in range(len(pad) // 2):
        shape[n - 1 - k] += pad[2 * k] + pad[2 * k + 1]
    made = input.new_empty(shape)
    source, target = input, made
    for k in range(len(pad) // 2):
        before, after, dim = pad[2 * k], pad[2 * k + 1], n - 1 - k
        source = ops.slice(source, dim, max(-before, 0), input.shape[dim] - max(-after, 0))
        target = ops.slice(target, dim, max(before, 0), shape[dim] - max(after, 0))
    target.copy_(source)
    for k in reversed(range(len(pad) // 2)):
        before, after, dim = pad[2 * k], pad[2 * k + 1], n - 1 - k
        size = shape[dim]
        if before > 0:
            start = size - before - max(after, 0)
            ops.slice(made, dim, 0, before).copy_(ops.slice(made, dim, start, start + before))
        if after > 0:
            start = max(before, 0)
            ops.slice(made, dim, size - after, size).copy_(ops.slice(made, dim, start, start + after))
    return made


def powers(x: Any, n: int) -> Any:
    """Compute the powers 0 to ``n - 1`` along a new last dimension."""
    x = x.unsqueeze(-1)
    one = x.new_ones(x.shape)
    return ops.cat([one, x.expand(*x.shape[:-1], n - 1).cumprod(-1)], -1) if n > 1 else one.narrow(-1, 0, n)
