"""Operators that gather and scatter elements by indices."""

from __future__ import annotations

from math import prod
from typing import Any

import metatensor as mt
from metatensor._core.tensor import Tensor
from metatensor.program.onnx.importing.operators import Node, operator
from metatensor.program.onnx.importing.values import Known, OnnxError, plain, read

__all__ = ["wrapped"]

_REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def wrapped(index: Tensor, size: int) -> Tensor:
    """Return int64 indices with negative ones, which count from the end, made nonnegative."""
    index = index.to(mt.int64)
    return mt.where(index < 0, index + size, index)


def _places(node: Node, index: Any, size: int) -> Tensor:
    """Return indices on the device. Known ones are checked and made nonnegative on the host."""
    host = index.host if isinstance(index, Known) else None
    if isinstance(index, Known) and index.folds and isinstance(host, Tensor):
        flat = host.reshape(-1).tolist()
        if any(not -size <= i < size for i in flat):
            raise OnnxError(f"an index is out of range for a dimension of size {size}")
        if any(i < 0 for i in flat) or host.dtype is not mt.int64:
            return plain(node.known([i + size if i < 0 else i for i in flat]).on(node.device)).reshape(host.shape)
        found: Tensor = index.on(node.device)  # type: ignore[assignment]
        return found
    return wrapped(node.lift(index), size)


@operator("Gather", host=(1,), moves=True)
def _gather(node: Node, x: Tensor, index: Any) -> Tensor:
    axis = node.get("axis", 0)
    if not -x.ndim <= axis < x.ndim:
        raise OnnxError(f"there is no dimension {axis} in a tensor of {x.ndim} dimensions")
    axis %= x.ndim
    if isinstance(index, Known) and isinstance(index.host, Tensor) and index.folds and index.host.ndim == 0:
        at = read(index, "the index")
        if not -x.shape[axis] <= at < x.shape[axis]:
            raise OnnxError(f"the index {at} is out of range for a dimension of size {x.shape[axis]}")
        return x.select(axis, at)
    places = _places(node, index, x.shape[axis])
    if x.ndim == 2 and axis == 0 and x.is_floating_point():
        return mt.nn.functional.embedding(places, x)
    taken = x.index_select(axis, places.reshape(-1))
    return taken if places.ndim == 1 else taken.reshape((*x.shape[:axis], *places.shape, *x.shape[axis + 1 :]))


@operator("GatherElements")
def _gather_elements(node: Node, x: Tensor, index: Tensor) -> Tensor:
    axis = node.get("axis", 0)
    return mt.gather(x, axis, wrapped(index, x.shape[axis]))


def _flat_places(index: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """Return positions in the flattened dimensions for coordinates along the last dimension of `index`."""
    total = mt.zeros(index.shape[:-1], dtype=mt.int64, device=index.device)
    for i, n in enumerate(sizes):
        total = total * n + wrapped(index.select(-1, i), n)
    return total


@operator("GatherND", moves=True)
def _gather_nd(node: Node, x: Tensor, index: Tensor) -> Tensor:
    b, k = node.get("batch_dims", 0), index.shape[-1]
    if not 0 <= b < max(min(x.ndim, index.ndim), 1) or b + k > x.ndim:
        raise OnnxError(f"{k} coordinates behind {b} batch dimensions do not fit a tensor of {x.ndim} dimensions")
    rest, sizes = tuple(x.shape[b + k :]), tuple(x.shape[b : b + k])
    batch = prod(x.shape[:b])
    inner = prod(index.shape[b:-1])
    places = _flat_places(index, sizes).reshape(batch, inner)
    flat = x.reshape((batch * prod(sizes), *rest))
    if b:
        places = places + (mt.arange(batch, device=x.device) * prod(sizes))[:, None]
    return flat.index_select(0, places.reshape(-1)).reshape((*index.shape[:-1], *rest))


@operator("ScatterElements", "Scatter")
def _scatter_elements(node: Node, x: Tensor, index: Tensor, updates: Tensor) -> Tensor:
    axis = node.get("axis", 0)
    places = wrapped(index, x.shape[axis])
    reduction = node.get("reduction", "none")
    if reduction == "none":
        return mt.scatter(x, axis, places, updates)
    return mt.scatter_reduce(x, axis, places, updates, _reduction(reduction))


def _reduction(name: str) -> str:
    if name not in _REDUCTIONS:
        raise OnnxError(f"the reduction must be none, add, mul, max or min; got {name!r}")
    return _REDUCTIONS[name]


@operator("ScatterND")
def _scatter_nd(node: Node, x: Tensor, index: Tensor, updates: Tensor) -> Tensor:
    k = index.shape[-1]
    sizes, rest = tuple(x.shape[:k]), tuple(x.shape[k:])
    places = _flat_places(index, sizes).reshape(-1)
    flat = x.reshape((prod(sizes), *rest))
    rows = updates.reshape((places.shape[0], *rest))
    places = places.reshape((-1,) + (1,) * len(rest)).expand(rows.shape)
    reduction = node.get("reduction", "none")
    if reduction == "none":
        return mt.scatter(flat, 0, places, rows).reshape(x.shape)
    return mt.scatter_reduce(flat, 0, places, rows, _reduction(reduction)).reshape(x.shape)


@operator("TensorScatter")
def _tensor_scatter(node: Node, past: Tensor, update: Tensor, begins: Tensor | None = None) -> Tensor:
    axis = node.get("axis", -2) % past.ndim
    batch, count, size = past.shape[0], update.shape[axis], past.shape[axis]
    starts = mt.zeros(batch, dtype=mt.int64, device=past.device) if begins is None else begins.to(mt.int64)
    places = starts[:, None] + mt.arange(count, device=past.device)
    if node.get("mode", "linear") == "circular":
        places = mt.remainder(places, size)
    view = [1] * past.ndim
    view[0], view[axis] = batch, count
    return mt.scatter(past, axis, places.reshape(view).expand(update.shape), update)


@operator("NonZero")
def _nonzero(node: Node, x: Tensor) -> Tensor:
    return mt.nonzero(x.reshape(1) if x.ndim == 0 else x).t()


@operator("Compress")
def _compress(node: Node, x: Tensor, condition: Tensor) -> Tensor:
    axis = node.get("axis")
    x, axis = (x.reshape(-1), 0) if axis is None else (x, axis)
    return x.index_select(axis, mt.nonzero(condition).reshape(-1))


@operator("OneHot", host=(1,))
def _one_hot(node: Node, index: Tensor, depth: Any, values: Tensor) -> Tensor:
    n = int(node.number(depth, "the depth"))
    axis = node.get("axis", -1)
    axis = axis + index.ndim + 1 if axis < 0 else axis
    places = wrapped(index, n).unsqueeze(axis)
    view = [1] * (index.ndim + 1)
    view[axis] = n
    return mt.where(places == mt.arange(n, device=index.device).reshape(view), values[1], values[0])
