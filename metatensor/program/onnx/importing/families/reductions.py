"""Reductions, cumulative sums and softmax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import metatensor as mt
from metatensor._core.tensor import Tensor
from metatensor.nn import functional as F
from metatensor.program.onnx.importing.operators import Node, operator
from metatensor.program.onnx.importing.values import OnnxError

__all__: list[str] = []


def _dims(node: Node, x: Tensor, axes: Any) -> list[int] | None:
    """Return the dimensions to reduce, or None if the node does nothing."""
    found = node.axes(axes)
    if not found:
        if node.get("noop_with_empty_axes", 0):
            return None
        return list(range(x.ndim))
    for d in found:
        if not -x.ndim <= d < max(x.ndim, 1):
            raise OnnxError(f"there is no dimension {d} in a tensor of {x.ndim} dimensions")
    return [d % x.ndim for d in found] if x.ndim else []


def _reduction(name: str, fn: Callable[[Tensor, list[int], bool], Tensor], before: Callable[[Tensor], Tensor] | None = None,
               after: Callable[[Tensor], Tensor] | None = None) -> None:  # fmt: skip
    """Register a reduction. `before` is applied to the elements, `after` to the results; both also if there are no axes to reduce."""
    def call(node: Node, x: Tensor, axes: Any = None) -> Tensor:
        dims = _dims(node, x, axes)
        y = x if before is None else before(x)
        if dims is not None and (dims or not x.ndim):
            y = fn(y, dims, bool(node.get("keepdims", 1))) if dims else y
        return y if after is None else after(y)

    operator(name, host=(1,))(call)


def _sum(x: Tensor, dims: list[int], keep: bool) -> Tensor:
    return mt.sum(x, dims, keep, dtype=x.dtype)


def _mean(x: Tensor, dims: list[int], keep: bool) -> Tensor:
    if x.is_floating_point():
        return mt.mean(x, dims, keep)
    count = 1
    for d in dims:
        count *= x.shape[d]
    return mt.div(_sum(x, dims, keep), count, rounding_mode="trunc").to(x.dtype)


def _prod(x: Tensor, dims: list[int], keep: bool) -> Tensor:
    for d in sorted(dims, reverse=True):
        x = mt.prod(x, d, keep, dtype=x.dtype)
    return x


def _extreme(x: Tensor, dims: list[int], keep: bool, fn: Callable[..., Tensor], greatest: bool) -> Tensor:
    if not all(x.shape[d] for d in dims):
        shape = [1 if d in dims else n for d, n in enumerate(x.shape)] if keep else [n for d, n in enumerate(x.shape) if d not in dims]
        if x.dtype is mt.bool:
            return mt.full(shape, not greatest, dtype=x.dtype, device=x.device)
        if x.is_floating_point():
            return mt.full(shape, float("-inf" if greatest else "inf"), dtype=x.dtype, device=x.device)
        info = mt.iinfo(x.dtype)
        return mt.full(shape, info.min if greatest else info.max, dtype=x.dtype, device=x.device)
    return fn(x, dims, keep)


def _log_sum_exp(x: Tensor, dims: list[int], keep: bool) -> Tensor:
    return mt.logsumexp(x, dims, keep)


_reduction("ReduceSum", _sum)
_reduction("ReduceMean", _mean)
_reduction("ReduceProd", _prod)
_reduction("ReduceMax", lambda x, dims, keep: _extreme(x, dims, keep, mt.amax, True))
_reduction("ReduceMin", lambda x, dims, keep: _extreme(x, dims, keep, mt.amin, False))
_reduction("ReduceL1", _sum, mt.abs)
_reduction("ReduceL2", _sum, mt.square, lambda y: mt.sqrt(y).to(y.dtype))
_reduction("ReduceSumSquare", _sum, mt.square)
_reduction("ReduceLogSum", _sum, None, lambda y: mt.log(y).to(y.dtype))


@operator("ReduceLogSumExp", host=(1,))
def _reduce_log_sum_exp(node: Node, x: Tensor, axes: Any = None) -> Tensor:
    dims = _dims(node, x, axes)
    if dims is None:
        return x
    wide = x if x.is_floating_point() else x.to(mt.float32)
    return (_log_sum_exp(wide, dims, bool(node.get("keepdims", 1))) if dims else wide).to(x.dtype)


def _arg(node: Node, x: Tensor, fn: Callable[..., Tensor]) -> Tensor:
    axis, keep = node.get("axis", 0), bool(node.get("keepdims", 1))
    if node.get("select_last_index", 0):
        return x.shape[axis] - 1 - fn(x.flip(axis), axis, keep)
    return fn(x, axis, keep)


operator("ArgMax")(lambda node, x: _arg(node, x, mt.argmax))
operator("ArgMin")(lambda node, x: _arg(node, x, mt.argmin))


def _cumulative(node: Node, x: Tensor, axis: Any, fn: Callable[..., Tensor], start: int) -> Tensor:
    d = int(node.number(axis, "the axis"))
    x = x.flip(d) if node.get("reverse", 0) else x
    if node.get("exclusive", 0):
        first = mt.full_like(x.narrow(d, 0, min(1, x.shape[d])), start)
        x = mt.cat([first, x.narrow(d, 0, max(x.shape[d] - 1, 0))], d)
    y = fn(x, d, dtype=x.dtype)
    return y.flip(d) if node.get("reverse", 0) else y


operator("CumSum", host=(1,))(lambda node, x, axis: _cumulative(node, x, axis, mt.cumsum, 0))
operator("CumProd", host=(1,))(lambda node, x, axis: _cumulative(node, x, axis, mt.cumprod, 1))


# Softmax ----------------------------------------------------------------------------------------------


def _along(node: Node, x: Tensor, fn: Callable[[Tensor, int], Tensor]) -> Tensor:
    """Apply a function along an axis. Before version 13, the tensor was flattened at the axis to a matrix first."""
    if node.version >= 13:
        return fn(x, node.get("axis", -1))
    axis = node.get("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    if axis == x.ndim - 1:
        return fn(x, axis)
    return fn(x.flatten(axis), axis).reshape(x.shape)


def _hardmax(x: Tensor, axis: int) -> Tensor:
    places = mt.argmax(x, axis, True)
    return mt.zeros_like(x).scatter(axis, places, mt.ones_like(places, dtype=x.dtype))


operator("Softmax")(lambda node, x: _along(node, x, F.softmax))
operator("LogSoftmax")(lambda node, x: _along(node, x, F.log_softmax))
operator("Hardmax")(lambda node, x: _along(node, x, _hardmax))
