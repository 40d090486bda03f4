"""Conversions of views and of operators that rearrange elements."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

import metatensor as mt
from metatensor.program.onnx.exporting.graph import Graph, Size, Var
from metatensor.program.onnx.exporting.table import Declined, conversion, pair

__all__ = ["axis_of", "flat_index", "permuted", "sliced"]

_END = (1 << 63) - 1


def axis_of(dim: int, rank: int) -> int:
    """Return a dimension as a nonnegative number."""
    return int(dim) + max(rank, 1) if dim < 0 else int(dim)


def permuted(g: Graph, x: Var, order: list[int]) -> Var:
    """Return a value with its dimensions in another order."""
    if order == list(range(len(order))):
        return x
    shape = None if x.shape is None else [x.shape[d] for d in order]
    return g.op("Transpose", x, perm=order, shape=shape)


def sliced(g: Graph, x: Var, axis: int, start: int, end: int, step: int = 1) -> Var:
    """Return a part of a value along a dimension."""
    return g.op("Slice", x, g.ints([start]), g.ints([end]), g.ints([axis]), g.ints([step]))


@conversion("view", "reshape", "_unsafe_view", "view_copy", "reshape_as", "view_as", "flatten", "ravel", "unflatten")
def _reshape(g: Graph, a: Any, result: Any) -> Var:
    if a.input.dtype is not result.dtype:
        raise Declined("a view of another dtype")
    if a.input.shape == result.shape and not any(isinstance(n, Size) for n in (*a.input.shape, *result.shape)):
        return a.input  # type: ignore[no-any-return]
    return g.reshaped(a.input, result.shape)


@conversion("squeeze", "squeeze_copy")
def _squeeze(g: Graph, a: Any, result: Any) -> Var:
    shape = a.input.shape
    given = getattr(a, "dim", None)
    dims = range(len(shape)) if given is None else [axis_of(d, len(shape)) for d in pair(given, 1)]
    axes = [d for d in dims if d < len(shape) and shape[d] == 1]
    if any(isinstance(shape[d], Size) for d in axes):
        raise Declined("it removes a dimension whose size has a name")
    return g.op("Squeeze", a.input, g.ints(axes)) if axes else a.input


@conversion("unsqueeze", "unsqueeze_copy")
def _unsqueeze(g: Graph, a: Any, result: Any) -> Var:
    return g.op("Unsqueeze", a.input, g.ints([axis_of(a.dim, len(result.shape))]))


@conversion("permute", "permute_copy", "transpose", "transpose_copy", "swapaxes", "t", "t_copy", "T", "mT", "H", "mH", "adjoint",
            "movedim")  # fmt: skip
def _permute(g: Graph, a: Any, result: Any) -> Var:
    rank = len(a.input.shape)
    order = list(range(rank))
    if hasattr(a, "dims"):
        order = [axis_of(d, rank) for d in a.dims]
    elif hasattr(a, "source"):
        sources, targets = ([axis_of(d, rank) for d in pair(v, 1)] for v in (a.source, a.destination))
        order = [d for d in order if d not in sources]
        for target, source in sorted(zip(targets, sources)):
            order.insert(target, source)
    elif rank < 2:
        return a.input  # type: ignore[no-any-return]
    elif a.overload.startswith(("mT", "mH", "adjoint")):
        order[-2:] = reversed(order[-2:])
    elif hasattr(a, "dim0") or hasattr(a, "axis0"):
        one, other = (axis_of(d, rank) for d in ((a.dim0, a.dim1) if hasattr(a, "dim0") else (a.axis0, a.axis1)))
        order[one], order[other] = order[other], order[one]
    else:
        order.reverse()
    return permuted(g, a.input, order)


@conversion("expand", "expand_as", "expand_copy", "broadcast_to")
def _expand(g: Graph, a: Any, result: Any) -> Var:
    if a.input.shape == result.shape and not any(isinstance(n, Size) for n in (*a.input.shape, *result.shape)):
        return a.input  # type: ignore[no-any-return]
    return g.op("Expand", a.input, g.ints(result.shape))


@conversion("broadcast_tensors")
def _broadcast_tensors(g: Graph, a: Any, result: Any) -> list[Var]:
    if not isinstance(getattr(a, "tensors", None), (list, tuple)):
        raise Declined("tensors that are not in a list")
    return [g.op("Expand", x, g.ints(value.shape)) for x, value in zip(a.tensors, result)]


@conversion("select", "select_copy")
def _select(g: Graph, a: Any, result: Any) -> Var:
    return g.op("Gather", a.input, g.number(a.index, mt.int64), axis=axis_of(a.dim, len(a.input.shape)))


@conversion("slice", "slice_copy")
def _slice(g: Graph, a: Any, result: Any) -> Var:
    start, end = (0 if a.start is None else a.start), (_END if a.end is None else a.end)
    axis = axis_of(a.dim, len(a.input.shape))
    size = a.input.shape[axis]
    if a.input.shape == result.shape and a.step == 1 and start in (0, -size) and (end >= size):
        return a.input if start == 0 else sliced(g, a.input, axis, start, end)  # a size with a name may have been clipped
    return sliced(g, a.input, axis, start, end, a.step)


@conversion("narrow", "narrow_copy")
def _narrow(g: Graph, a: Any, result: Any) -> Var:
    if isinstance(a.start, Var):
        raise Declined("a start that is a tensor")
    axis = axis_of(a.dim, len(a.input.shape))
    start = a.start if a.start >= 0 else a.start + a.input.shape[axis]
    if isinstance(start, Size) or isinstance(a.length, Size):
        begin = g.ints([start])
        return g.op("Slice", a.input, begin, g.op("Add", begin, g.ints([a.length])), g.ints([axis]))
    return sliced(g, a.input, axis, start, start + a.length)


@conversion("split", "split_with_sizes", "chunk", "tensor_split", "unsafe_split", "unsafe_split_with_sizes", "unsafe_chunk", "split_copy",
            "split_with_sizes_copy")  # fmt: skip
def _split(g: Graph, a: Any, result: Any) -> list[Var]:
    axis = axis_of(a.dim, len(a.input.shape))
    sizes = [value.shape[axis] for value in result]
    if sum(sizes) != a.input.shape[axis]:
        raise Declined("parts that overlap")
    if len(sizes) == 1:
        return [a.input]
    return g.ops("Split", a.input, g.ints(sizes), dtypes=[a.input.dtype] * len(sizes), axis=axis)


@conversion("unbind", "unbind_copy")
def _unbind(g: Graph, a: Any, result: Any) -> list[Var]:
    axis = axis_of(a.dim, len(a.input.shape))
    return [g.op("Gather", a.input, g.number(i, mt.int64), axis=axis) for i in range(len(result))]


@conversion("cat")
def _cat(g: Graph, a: Any, result: Any) -> Var:
    parts = [g.cast(x, result.dtype) for x in a.tensors if not (x.shape == (0,) and len(result.shape) != 1)]
    return parts[0] if len(parts) == 1 else g.op("Concat", *parts, axis=axis_of(a.dim, len(result.shape)))


@conversion("stack")
def _stack(g: Graph, a: Any, result: Any) -> Var:
    axis = axis_of(a.dim, len(result.shape))
    parts = [g.op("Unsqueeze", g.cast(x, result.dtype), g.ints([axis])) for x in a.tensors]
    return parts[0] if len(parts) == 1 else g.op("Concat", *parts, axis=axis)


@conversion("repeat", "tile")
def _repeat(g: Graph, a: Any, result: Any) -> Var:
    times = list(a.repeats if hasattr(a, "repeats") else a.dims)
    x, missing = a.input, len(times) - len(a.input.shape)
    if missing > 0:
        x = g.op("Unsqueeze", x, g.ints(range(missing)))
    return g.op("Tile", x, g.ints([1] * -missing + times)) if times else x


@conversion("_repeat_interleave")
def _repeat_interleave(g: Graph, a: Any, result: Any) -> Var:
    axis = axis_of(a.dim, len(a.input.shape))
    wide = [*a.input.shape[: axis + 1], a.repeats, *a.input.shape[axis + 1 :]]
    return g.reshaped(g.op("Expand", g.op("Unsqueeze", a.input, g.ints([axis + 1])), g.ints(wide), shape=wide), result.shape)


@conversion("roll")
def _roll(g: Graph, a: Any, result: Any) -> Var:
    x = a.input
    shifts, dims = pair(a.shifts, 1), pair(a.dims, 1) if not isinstance(a.dims, tuple) else list(a.dims)
    if not dims:
        if len(x.shape) != 1:
            raise Declined("rolling over the flattened tensor")
        dims = [0]
    for shift, dim in zip(shifts, dims):
        axis = axis_of(dim, len(x.shape))
        size = result.shape[axis]
        if not size or not shift:
            continue
        if abs(shift) >= size:
            if isinstance(size, Size):
                raise Declined("a shift larger than a named size")
            shift %= size
        back = g.op("Concat", sliced(g, x, axis, -shift, _END), sliced(g, x, axis, 0, -shift), axis=axis)
        x = Var(back, result.dtype, result.shape)
    return x  # type: ignore[no-any-return]


@conversion("flip")
def _flip(g: Graph, a: Any, result: Any) -> Var:
    axes = [axis_of(d, len(result.shape)) for d in a.dims]
    if not axes or not result.shape:
        return a.input  # type: ignore[no-any-return]
    n = len(axes)
    return g.op("Slice", a.input, g.ints([-1] * n), g.ints([-_END] * n), g.ints(axes), g.ints([-1] * n))


@conversion("tril", "triu")
def _triangle(g: Graph, a: Any, result: Any) -> Var:
    x = a.input if result.dtype in (mt.float32, mt.float64, mt.int64, mt.bool) else g.cast(a.input, mt.float32)
    if not result.dtype.is_floating_point and x.dtype is mt.float32:
        raise Declined("small integers")
    return g.op("Trilu", x, g.number(a.diagonal, mt.int64), upper=int(a.overload.startswith("triu")))


@conversion("nn.functional.pixel_shuffle")
def _pixel_shuffle(g: Graph, a: Any, result: Any) -> Var:
    if len(a.input.shape) != 4 or not a.input.dtype.is_floating_point:
        raise Declined("more than one batch dimension, or integers")
    return g.op("DepthToSpace", a.input, blocksize=a.upscale_factor, mode="CRD")


@conversion("nn.functional.pad", "constant_pad_nd")
def _pad(g: Graph, a: Any, result: Any) -> Var:
    rank, pads = len(a.input.shape), list(a.pad)
    before, after = [0] * rank, [0] * rank
    for i in range(len(pads) // 2):
        before[rank - 1 - i], after[rank - 1 - i] = pads[2 * i], pads[2 * i + 1]
    mode = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}[getattr(a, "mode", "constant")]
    if mode == "wrap" and g.opset < 19:
        raise Declined("circular padding before version 19 of the operators")
    if not any(pads):
        return a.input  # type: ignore[no-any-return]
    x = g.cast(a.input, mt.int32) if result.dtype in (mt.bool, mt.int16, mt.uint16) else a.input
    value = [g.number(a.value or 0, x.dtype)] if mode == "constant" else []
    return g.cast(g.op("Pad", x, g.ints(before + after), *value, mode=mode), result.dtype)


# By index -------------------------------------------------------------------------------------------------


def flat_index(shape: Any, stride: Any, offset: int) -> np.ndarray:
    """Return the memory offset of each element of a layout."""
    index = np.full(tuple(shape), offset, dtype=np.int64)
    for d, (n, s) in enumerate(zip(shape, stride)):
        index += (np.arange(n, dtype=np.int64) * s).reshape([-1 if i == d else 1 for i in range(len(shape))])
    return index


@conversion("as_strided", "as_strided_copy")
def _as_strided(g: Graph, a: Any, result: Any) -> Var:
    """The input's elements are in memory order, which `checked` in `lowering` ensures."""
    flat = g.reshaped(a.input, (-1,))
    return g.op("Gather", flat, g.constant(flat_index(a.size, a.stride, a.storage_offset or 0), mt.int64), axis=0)


@conversion("as_strided_scatter", "diagonal_scatter")
def _as_strided_scatter(g: Graph, a: Any, result: Any) -> Var:
    """The input's elements are in memory order here too."""
    if hasattr(a, "stride"):
        index = flat_index(a.size, a.stride, a.storage_offset or 0)
    else:
        index = _diagonal(a)
    flat = g.op("ScatterElements", g.reshaped(a.input, (-1,)), g.constant(index.reshape(-1), mt.int64), g.reshaped(a.src, (-1,)), axis=0)
    return g.reshaped(flat, result.shape)


def _diagonal(a: Any) -> np.ndarray:
    shape = tuple(int(n) for n in a.input.shape)
    return np.diagonal(np.arange(prod(shape), dtype=np.int64).reshape(shape), a.offset, a.dim1, a.dim2)


@conversion("diagonal", "diagonal_copy")
def _take_diagonal(g: Graph, a: Any, result: Any) -> Var:
    return g.op("Gather", g.reshaped(a.input, (-1,)), g.constant(_diagonal(a), mt.int64), axis=0)


@conversion("unfold", "unfold_copy")
def _unfold(g: Graph, a: Any, result: Any) -> Var:
    rank = len(a.input.shape)
    if not rank:
        raise Declined("a tensor without dimensions")
    axis = axis_of(a.dimension, rank)
    index = np.arange(result.shape[axis])[:, None] * a.step + np.arange(a.size)[None, :]
    found = g.op("Gather", a.input, g.constant(index, mt.int64), axis=axis)
    order = [d for d in range(rank + 1) if d != axis + 1] + [axis + 1]
    return permuted(g, Var(found, found.dtype), order)


@conversion("slice_scatter")
def _slice_scatter(g: Graph, a: Any, result: Any) -> Var:
    rank = len(result.shape)
    axis = axis_of(a.dim, rank)
    size = result.shape[axis]
    start, end, step = slice(a.start, a.end, a.step).indices(size)
    if a.start is not None and isinstance(a.start, Size) or a.end is not None and isinstance(a.end, Size):
        raise Declined("a slice whose bounds are named sizes")
    src = g.cast(a.src, result.dtype)
    if step != 1:
        front = [axis, *[d for d in range(rank) if d != axis]]
        index = g.constant(np.arange(start, end, step)[:, None], mt.int64)
        found = g.op("ScatterND", permuted(g, a.input, front), index, permuted(g, src, front))
        return permuted(g, Var(found, result.dtype), [front.index(d) for d in range(rank)])
    parts = [src]
    if start > 0:
        parts.insert(0, sliced(g, a.input, axis, 0, start))
    if end < size:
        parts.append(sliced(g, a.input, axis, end if a.end is not None and a.end >= 0 else end - size, _END))
    return g.op("Concat", *parts, axis=axis) if len(parts) > 1 else src


@conversion("select_scatter")
def _select_scatter(g: Graph, a: Any, result: Any) -> Var:
    axis = axis_of(a.dim, len(result.shape))
    size = result.shape[axis]
    index = a.index + size if a.index < 0 else a.index
    parts = [g.op("Unsqueeze", g.cast(a.src, result.dtype), g.ints([axis]))]
    if index > 0:
        parts.insert(0, sliced(g, a.input, axis, 0, a.index))
    if index + 1 < size:
        parts.append(sliced(g, a.input, axis, a.index + 1, _END))
    return g.op("Concat", *parts, axis=axis) if len(parts) > 1 else parts[0]
