"""Conversions of indexing, gathering, scattering and sorting."""

from __future__ import annotations

import math
from typing import Any

import metatensor as mt
from metatensor._core.dtype import DType
from metatensor.program.onnx.exporting.graph import Graph, Var
from metatensor.program.onnx.exporting.table import Declined, conversion, operand
from metatensor.program.onnx.exporting.views import axis_of, permuted, sliced

__all__: list[str] = []


@conversion("nn.functional.embedding", "embedding")
def _embedding(g: Graph, a: Any, result: Any) -> Var:
    if getattr(a, "max_norm", None) is not None:
        raise Declined("max_norm changes the weight")
    index = a.indices if hasattr(a, "indices") else a.input
    return g.op("Gather", a.weight, g.cast(index, mt.int64), axis=0)


@conversion("index_select")
def _index_select(g: Graph, a: Any, result: Any) -> Var:
    if not a.input.shape:
        raise Declined("a tensor without dimensions")
    index = a.index if a.index.shape else g.op("Unsqueeze", a.index, g.ints([0]))
    return g.op("Gather", a.input, g.cast(index, mt.int64), axis=axis_of(a.dim, len(a.input.shape)))


def _cropped(g: Graph, x: Var, like: Var, axis: int) -> Var:
    """Crop a value to the index's sizes in all dimensions but the indexed one."""
    assert x.shape is not None and like.shape is not None
    for d, (n, wanted) in enumerate(zip(x.shape, like.shape)):
        if d != axis and n != wanted:
            x = Var(sliced(g, x, d, 0, wanted), x.dtype, (*x.shape[:d], wanted, *x.shape[d + 1 :]))
    return x


@conversion("gather")
def _gather(g: Graph, a: Any, result: Any) -> Var:
    if not a.input.shape or not a.index.shape:
        raise Declined("a tensor without dimensions")
    axis = axis_of(a.dim, len(a.input.shape))
    return g.op("GatherElements", _cropped(g, a.input, a.index, axis), g.cast(a.index, mt.int64), axis=axis)


@conversion("take_along_dim")
def _take_along_dim(g: Graph, a: Any, result: Any) -> Var:
    if a.dim is None or a.input.shape != a.indices.shape:
        raise Declined("shapes that are broadcast")
    return g.op("GatherElements", a.input, g.cast(a.indices, mt.int64), axis=axis_of(a.dim, len(a.input.shape)))


def _joined(g: Graph, indices: Any) -> tuple[Var, int]:
    """Return index tensors, broadcast, side by side in a last dimension, and their common number of dimensions."""
    rank = max(len(index.shape) for index in indices)
    if any(index.dtype in (mt.bool, mt.uint8) for index in indices):
        raise Declined("a mask: the number of elements depends on values")
    parts = [g.cast(index, mt.int64) for index in indices]
    if any(index.shape != indices[0].shape for index in indices):
        total = parts[0]
        for part in parts[1:]:
            total = g.op("Add", total, part)
        shape = g.op("Shape", total, dtype=mt.int64)
        parts = [g.op("Expand", part, shape) for part in parts]
    return g.op("Concat", *(g.op("Unsqueeze", part, g.ints([rank])) for part in parts), axis=rank), rank


@conversion("_index")
def _index(g: Graph, a: Any, result: Any) -> Var:
    rank = len(a.input.shape)
    dims = [axis_of(d, rank) for d in a.dims]
    if len(dims) == 1:
        if a.indices[0].dtype in (mt.bool, mt.uint8):
            raise Declined("a mask: the number of elements depends on values")
        return g.op("Gather", a.input, g.cast(a.indices[0], mt.int64), axis=dims[0])
    rest = [d for d in range(rank) if d not in dims]
    index, count = _joined(g, a.indices)
    found = g.op("GatherND", permuted(g, a.input, dims + rest), index)
    if dims == list(range(dims[0], dims[0] + len(dims))):  # adjacent dimensions: the index replaces them
        before = sum(d < dims[0] for d in rest)
        places = list(range(count, count + before)) + list(range(count)) + list(range(count + before, count + len(rest)))
        found = permuted(g, Var(found, result.dtype), places)
    return found


@conversion("_index_put_", "_index_put_accumulate_")
def _index_put(g: Graph, a: Any, result: Any) -> Var:
    """A write to a copy that `functionalize` made. The returned value replaces the copy from then on."""
    rank = len(a.input.shape)
    dims = [axis_of(d, rank) for d in a.dims]
    rest = [d for d in range(rank) if d not in dims]
    index, count = _joined(g, a.indices)
    order = dims + rest
    x = permuted(g, a.input, order)
    adjacent = dims == list(range(dims[0], dims[0] + len(dims)))
    before = sum(d < dims[0] for d in rest) if adjacent else 0
    shape = g.op("Concat", sliced(g, g.op("Shape", index, dtype=mt.int64), 0, 0, -1),
                 sliced(g, g.op("Shape", x, dtype=mt.int64), 0, len(dims), (1 << 63) - 1), axis=0)  # fmt: skip
    values = g.cast(a.values, a.input.dtype)
    if before and len(values.shape or ()) > count + len(rest) - before:
        # The dimensions before those of the index are first in `values` too: bring both into the order of the result, then permute.
        total = count + len(rest)
        lacking = total - len(values.shape or ())
        if lacking:
            values = g.op("Unsqueeze", values, g.ints(range(lacking)))
        values = permuted(g, Var(values, a.input.dtype), [*range(before, before + count), *range(before), *range(before + count, total)])
    elif before and len(values.shape or ()):
        total = count + len(rest)
        values = g.op("Unsqueeze", values, g.ints(range(total - len(values.shape or ()))))
        values = permuted(g, Var(values, a.input.dtype), [*range(before, before + count), *range(before), *range(before + count, total)])
    reduction: dict[str, Any] = {"reduction": "add"} if a.overload.startswith("_index_put_accumulate_") else {}
    found = g.op("ScatterND", x, index, g.op("Expand", values, shape), **reduction)
    return permuted(g, Var(found, a.input.dtype, None), [order.index(d) for d in range(rank)])


# Scattering -----------------------------------------------------------------------------------------------

_REDUCTIONS = {"add": "add", "sum": "add", "multiply": "mul", "prod": "mul", "amax": "max", "amin": "min", "mean": "add"}


@conversion("scatter", "scatter_add", "scatter_reduce")
def _scatter(g: Graph, a: Any, result: Any) -> Var:
    if not result.shape or not a.index.shape:
        raise Declined("a tensor without dimensions")
    axis = axis_of(a.dim, len(result.shape))
    index = g.cast(a.index, mt.int64)
    reduce = "add" if a.overload.startswith("scatter_add") else getattr(a, "reduce", None)
    if reduce is not None and reduce not in _REDUCTIONS or reduce == "mean" and not result.dtype.is_floating_point:
        raise Declined(f"reduce={reduce!r}")
    if isinstance(getattr(a, "src", None), Var):
        src = _cropped(g, a.src, a.index, -1)
    else:
        src = g.op("Expand", operand(g, a.value, result.dtype), g.op("Shape", index, dtype=mt.int64))
    src = g.cast(src, result.dtype)
    if reduce is None:
        return g.op("ScatterElements", a.input, index, src, axis=axis)
    x = a.input
    shape = g.op("Shape", index, dtype=mt.int64)
    if not getattr(a, "include_self", True):  # elements written to start as the identity of the reduction
        neutral = g.op("Expand", g.number(_neutral(reduce, result.dtype), result.dtype), shape)
        x = g.op("ScatterElements", x, index, neutral, axis=axis)
    x = g.op("ScatterElements", x, index, src, axis=axis, reduction=_REDUCTIONS[reduce])
    if reduce != "mean":
        return x
    one = g.number(1, result.dtype)
    count = g.op("Expand", one, g.ints(result.shape))
    if not a.include_self:
        count = g.op("ScatterElements", count, index, g.op("Expand", g.number(0, result.dtype), shape), axis=axis)
    count = g.op("ScatterElements", count, index, g.op("Expand", one, shape), axis=axis, reduction="add")
    return g.op("Div", x, count)


def _neutral(reduce: str, dtype: DType) -> float:
    """Return the identity element of a reduction."""
    if reduce in ("amax", "amin"):
        if dtype.is_floating_point:
            return -math.inf if reduce == "amax" else math.inf
        return mt.iinfo(dtype).min if reduce == "amax" else mt.iinfo(dtype).max
    return 1 if reduce in ("prod", "multiply") else 0


@conversion("index_copy", "index_add")
def _index_copy(g: Graph, a: Any, result: Any) -> Var:
    rank = len(result.shape)
    if not rank or not a.source.shape:
        raise Declined("a tensor without dimensions")
    axis = axis_of(a.dim, rank)
    front = [axis, *[d for d in range(rank) if d != axis]]
    source = g.cast(a.source, result.dtype)
    adds = a.overload.startswith("index_add")
    if adds and a.alpha != 1:
        source = g.op("Mul", source, g.number(a.alpha, result.dtype))
    index = g.reshaped(g.cast(a.index, mt.int64), (-1, 1))
    options: dict[str, Any] = {"reduction": "add"} if adds else {}
    found = g.op("ScatterND", permuted(g, a.input, front), index, permuted(g, source, front), **options)
    return permuted(g, Var(found, result.dtype), [front.index(d) for d in range(rank)])


@conversion("index_fill")
def _index_fill(g: Graph, a: Any, result: Any) -> Var:
    rank = len(result.shape)
    if not rank:
        raise Declined("a tensor without dimensions")
    axis = axis_of(a.dim, rank)
    front = [axis, *[d for d in range(rank) if d != axis]]
    x = permuted(g, a.input, front)
    index = g.reshaped(g.cast(a.index, mt.int64), (-1, 1))
    shape = g.op("Concat", sliced(g, g.op("Shape", index, dtype=mt.int64), 0, 0, 1),
                 sliced(g, g.op("Shape", x, dtype=mt.int64), 0, 1, (1 << 63) - 1), axis=0)  # fmt: skip
    found = g.op("ScatterND", x, index, g.op("Expand", operand(g, a.value, result.dtype), shape))
    return permuted(g, Var(found, result.dtype), [front.index(d) for d in range(rank)])


@conversion("nn.functional.one_hot")
def _one_hot(g: Graph, a: Any, result: Any) -> Var:
    if a.num_classes < 0:
        raise Declined("the number of classes depends on values")
    x = g.op("Unsqueeze", a.input, g.ints([len(a.input.shape)]))
    return g.cast(g.op("Equal", x, g.constant(range(a.num_classes), x.dtype), dtype=mt.bool), result.dtype)


# Order ----------------------------------------------------------------------------------------------------


def _largest(g: Graph, x: Var, k: Var, axis: int, largest: bool, in_order: bool = True) -> list[Var]:
    if x.dtype is mt.bool:
        values, places = _largest(g, g.cast(x, mt.int32), k, axis, largest, in_order)
        return [g.cast(values, mt.bool), places]
    return g.ops("TopK", x, k, dtypes=[x.dtype, mt.int64], axis=axis, largest=int(largest), sorted=int(in_order))


@conversion("topk")
def _topk(g: Graph, a: Any, result: Any) -> list[Var]:
    if not a.input.shape:
        raise Declined("a tensor without dimensions")
    return _largest(g, a.input, g.ints([a.k]), axis_of(a.dim, len(a.input.shape)), a.largest, a.sorted)


@conversion("sort", "argsort", "msort")
def _sort(g: Graph, a: Any, result: Any) -> Any:
    """Sort with TopK of all elements. Equal elements keep their order, so it is stable."""
    if not a.input.shape:
        raise Declined("a tensor without dimensions")
    axis = axis_of(getattr(a, "dim", 0), len(a.input.shape))
    found = _largest(g, a.input, g.ints([a.input.shape[axis]]), axis, getattr(a, "descending", False))
    return found if a.overload.startswith("sort") else found[1 if a.overload.startswith("argsort") else 0]


@conversion("searchsorted", "bucketize")
def _bucketize(g: Graph, a: Any, result: Any) -> Var:
    bounds = a.boundaries if hasattr(a, "boundaries") else a.sorted_sequence
    if len(bounds.shape) != 1 or getattr(a, "sorter", None) is not None:
        raise Declined("several rows of boundaries")
    right = a.right or getattr(a, "side", None) == "right"
    dtype = bounds.dtype if bounds.dtype.is_floating_point or not isinstance(a.input, Var) else a.input.dtype
    if isinstance(a.input, float):
        dtype = mt.float32 if not bounds.dtype.is_floating_point else dtype
    x = operand(g, a.input, dtype)
    x = g.op("Unsqueeze", x, g.ints([len(getattr(a.input, "shape", None) or ())]))
    below = g.op("LessOrEqual" if right else "Less", g.cast(bounds, dtype), x, dtype=mt.bool)
    return g.op("ReduceSum", g.cast(below, mt.int64), g.ints([-1]), keepdims=0)
