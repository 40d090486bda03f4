"""Operators that move elements: shapes, slices, joins, paddings."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor._core.tensor import Tensor
from metatensor.nn import functional as F
from metatensor.program.onnx.importing.operators import Node, operator
from metatensor.program.onnx.importing.values import OnnxError

__all__ = ["padded"]


@operator("Reshape", host=(1,), moves=True)
def _reshape(node: Node, x: Tensor, shape: Any = None) -> Tensor:
    sizes = node.ints(shape, "the new shape") if shape is not None else list(node.need("shape"))
    if not node.get("allowzero", 0):
        for i, n in enumerate(sizes):
            if n == 0:
                if i >= x.ndim:
                    raise OnnxError(f"the new shape {sizes} keeps a size that the tensor does not have")
                sizes[i] = x.shape[i]
    return x.reshape(sizes)


@operator("Flatten", moves=True)
def _flatten(node: Node, x: Tensor) -> Tensor:
    axis = node.get("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    rows = 1
    for n in x.shape[:axis]:
        rows *= n
    columns = 1
    for n in x.shape[axis:]:
        columns *= n
    return x.reshape(rows, columns)


@operator("Transpose", moves=True)
def _transpose(node: Node, x: Tensor) -> Tensor:
    order = node.get("perm") or list(range(x.ndim))[::-1]
    return x.permute(order)


@operator("Squeeze", host=(1,), moves=True)
def _squeeze(node: Node, x: Tensor, axes: Any = None) -> Tensor:
    dims = node.axes(axes)
    if dims is None:
        return x.squeeze()
    for d in dims:
        if x.shape[d] != 1:
            raise OnnxError(f"dimension {d} has size {x.shape[d]}, not 1")
    return x.squeeze(tuple(dims))


@operator("Unsqueeze", host=(1,), moves=True)
def _unsqueeze(node: Node, x: Tensor, axes: Any = None) -> Tensor:
    dims = node.axes(axes)
    rank = x.ndim + len(dims)
    for d in sorted(d + rank if d < 0 else d for d in dims):
        x = x.unsqueeze(d)
    return x


@operator("Concat", moves=True)
def _concat(node: Node, *tensors: Tensor) -> Tensor:
    axis = node.get("axis", 1) if node.version < 4 else node.need("axis")
    rank = tensors[0].ndim
    if not -rank <= axis < rank or any(t.ndim != rank for t in tensors):
        raise OnnxError(f"tensors of {[t.ndim for t in tensors]} dimensions cannot be joined along axis {axis}")
    return mt.cat(tensors, axis)


@operator("Split", host=(1,), moves=True)
def _split(node: Node, x: Tensor, split: Any = None) -> Any:
    axis = node.get("axis", 0)
    sizes = node.axes(split, None, "split")
    if sizes is None:
        count = node.get("num_outputs", node.outputs)
        if count < 1:
            raise OnnxError("it splits into no parts")
        piece = -(-x.shape[axis] // count)
        sizes = [max(min(piece, x.shape[axis] - i * piece), 0) for i in range(min(count, 1 << 14))]
    return tuple(mt.split(x, sizes, axis))


@operator("Slice", host=(1, 2, 3, 4), moves=True)
def _slice(node: Node, x: Tensor, starts: Any = None, ends: Any = None, axes: Any = None, steps: Any = None) -> Tensor:
    begin, end = node.axes(starts, None, "starts"), node.axes(ends, None, "ends")
    if begin is None or end is None:
        raise OnnxError("starts or ends are missing")
    dims = node.axes(axes) or list(range(len(begin)))
    step = node.ints(steps, "steps") if steps is not None else [1] * len(begin)
    if not len(begin) == len(end) == len(dims) == len(step):
        raise OnnxError("starts, ends, axes and steps differ in length")
    if len({d % x.ndim if x.ndim else d for d in dims}) < len(dims):
        raise OnnxError("an axis occurs twice")
    for d, first, last, by in zip(dims, begin, end, step, strict=True):
        size = x.shape[d]
        low, high, by = slice(first, last, by).indices(size)
        if by > 0:
            x = _taken(x, d, low, max(high, low), by)
        else:  # from low down to high, without high
            count = max(0, -(-(high - low) // by)) if low > high else 0
            bottom = low + (count - 1) * by
            x = _taken(x, d, bottom, low + 1, -by).flip(d) if count else x.narrow(d, 0, 0)
    return x


def _taken(x: Tensor, d: int, low: int, high: int, step: int) -> Tensor:
    if step == 1:
        return x.narrow(d, low, high - low)
    index: list[Any] = [slice(None)] * x.ndim
    index[d] = slice(low, high, step)
    return x[tuple(index)]


@operator("Expand", host=(1,), moves=True)
def _expand(node: Node, x: Tensor, shape: Any) -> Tensor:
    return x.expand(mt.broadcast_shapes(tuple(x.shape), tuple(node.ints(shape, "the new shape"))))


@operator("Tile", host=(1, 2), moves=True)
def _tile(node: Node, x: Tensor, repeats: Any, axis: Any = None) -> Tensor:
    counts = node.ints(repeats, "repeats")
    if axis is not None:  # version 1
        dim = node.number(axis, "the axis")
        counts = [counts[0] if d == dim else 1 for d in range(x.ndim)]
    return x.repeat(counts)


_MODES = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}


def padded(x: Tensor, begins: list[int], ends: list[int], mode: str = "constant", value: Any = 0) -> Tensor:
    """Pad or, where a number is negative, crop each dimension.

    Parameters
    ----------
    x : Tensor
        The tensor.
    begins, ends : list of int
        Elements to add before and after, by dimension.
    mode : {"constant", "reflect", "edge", "wrap"}
        What to add.
    value : number
        The constant.
    """
    if mode not in _MODES:
        raise OnnxError(f"the mode of padding must be one of {', '.join(_MODES)}; got {mode!r}")
    for d, (low, high) in enumerate(zip(begins, ends, strict=True)):
        if low < 0 or high < 0:
            size = x.shape[d]
            start, stop = max(-low, 0), size - max(-high, 0)
            x = x.narrow(d, min(start, size), max(stop - start, 0))
    begins, ends = [max(n, 0) for n in begins], [max(n, 0) for n in ends]
    if mode == "constant":
        flat = [n for pair in zip(reversed(begins), reversed(ends), strict=True) for n in pair]
        return F.pad(x, flat, value=value) if any(flat) else x
    for d, (low, high) in enumerate(zip(begins, ends, strict=True)):
        size = x.shape[d]
        if not low and not high:
            continue
        if not size:
            raise OnnxError("an empty dimension cannot be padded with its own elements")
        places = mt.arange(-low, size + high, device=x.device)
        if mode == "edge":
            places = mt.clamp(places, 0, size - 1)
        elif mode == "wrap":
            places = mt.remainder(places, size)
        elif size == 1:
            places = mt.zeros_like(places)
        else:
            places = mt.remainder(places, 2 * (size - 1))
            places = mt.where(places < size, places, 2 * (size - 1) - places)
        x = x.index_select(d, places)
    return x


@operator("Pad", host=(1, 2, 3), moves=True)
def _pad(node: Node, x: Tensor, pads: Any = None, value: Any = None, axes: Any = None) -> Tensor:
    amounts = node.axes(pads, node.get("paddings"), "pads")
    constant = node.number(value, "the constant", 0) if node.version >= 11 else node.get("value", 0.0)
    dims = node.ints(axes, "axes") if axes is not None else list(range(x.ndim))
    if amounts is None or len(amounts) != 2 * len(dims):
        raise OnnxError(f"{0 if amounts is None else len(amounts)} numbers of padding for {len(dims)} dimensions")
    begins, ends = [0] * x.ndim, [0] * x.ndim
    for i, d in enumerate(dims):
        begins[d], ends[d] = amounts[i], amounts[i + len(dims)]
    return padded(x, begins, ends, node.get("mode", "constant"), constant)


@operator("DepthToSpace", moves=True)
def _depth_to_space(node: Node, x: Tensor) -> Tensor:
    b, c, h, w = x.shape
    k = node.need("blocksize")
    if k < 1 or c % (k * k):
        raise OnnxError(f"{c} channels cannot be divided among blocks of size {k}")
    if node.get("mode", "DCR") == "CRD":
        return x.reshape(b, c // (k * k), k, k, h, w).permute(0, 1, 4, 2, 5, 3).reshape(b, c // (k * k), h * k, w * k)
    return x.reshape(b, k, k, c // (k * k), h, w).permute(0, 3, 4, 1, 5, 2).reshape(b, c // (k * k), h * k, w * k)


@operator("SpaceToDepth", moves=True)
def _space_to_depth(node: Node, x: Tensor) -> Tensor:
    b, c, h, w = x.shape
    k = node.need("blocksize")
    if k < 1 or h % k or w % k:
        raise OnnxError(f"an image of {h} by {w} cannot be divided into blocks of size {k}")
    order = (0, 1, 3, 5, 2, 4) if node.get("mode", "DCR") == "CRD" else (0, 3, 5, 1, 2, 4)
    return x.reshape(b, c, h // k, k, w // k, k).permute(order).reshape(b, c * k * k, h // k, w // k)


@operator("Trilu", host=(1,))
def _trilu(node: Node, x: Tensor, k: Any = None) -> Tensor:
    diagonal = int(node.number(k, "k", 0))
    return mt.triu(x, diagonal) if node.get("upper", 1) else mt.tril(x, diagonal)


@operator("CenterCropPad", host=(1,))
def _center_crop_pad(node: Node, x: Tensor, shape: Any) -> Tensor:
    sizes = node.ints(shape, "the shape")
    dims = node.get("axes") or list(range(x.ndim))
    begins, ends = [0] * x.ndim, [0] * x.ndim
    for d, n in zip(dims, sizes, strict=True):
        more = n - x.shape[d]
        half = more // 2 if more > 0 else -(-more // 2)
        begins[d], ends[d] = half, more - half
    return padded(x, begins, ends)


@operator("ReverseSequence")
def _reverse_sequence(node: Node, x: Tensor, lengths: Tensor) -> Tensor:
    time, batch = node.get("time_axis", 0), node.get("batch_axis", 1)
    n = x.shape[time]
    steps = mt.arange(n, device=x.device)
    ends = lengths.to(mt.int64)[:, None]
    places = mt.where(steps < ends, ends - 1 - steps, steps)  # batch by time
    places = places if batch < time else places.t()
    view = [1] * x.ndim
    view[time], view[batch] = n, x.shape[batch]
    return mt.gather(x, time, places.reshape(view).expand(x.shape))
