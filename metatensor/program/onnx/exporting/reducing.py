"""Conversions of reductions and of running sums."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import metatensor as mt
from metatensor._core.dtype import DType
from metatensor.program.onnx.exporting.creating import filled
from metatensor.program.onnx.exporting.graph import Graph, Var
from metatensor.program.onnx.exporting.table import CONVERSIONS, Declined, conversion
from metatensor.program.onnx.exporting.views import axis_of

__all__ = ["reduced"]


_EMPTY = {"ReduceSum": 0, "ReduceProd": 1, "ReduceMean": math.nan}
"""Results of reductions over no elements."""


def _axes(a: Any, rank: int) -> list[int]:
    dim = getattr(a, "dim", None)
    if dim is None or dim == () or dim == []:
        return list(range(rank))
    return [axis_of(d, rank) for d in (dim if isinstance(dim, (list, tuple)) else [dim])]


def reduced(g: Graph, kind: str, x: Var, axes: list[int], keepdim: bool) -> Var:
    """Return a reduction over dimensions."""
    if not x.shape:
        return x
    return g.op(kind, x, g.ints(axes), keepdims=int(keepdim))


def _within(dtype: DType) -> DType:
    """Return the dtype in which runtimes reduce tensors of this dtype."""
    return dtype if dtype.is_floating_point or dtype is mt.int64 else mt.int32 if dtype is not mt.uint64 else mt.uint64


def _reduction(kind: str) -> Callable[[Graph, Any, Any], Var]:
    def make(g: Graph, a: Any, result: Any) -> Var:
        if isinstance(result, (list, tuple)):
            raise Declined("it also returns indices")
        if 0 in a.input.shape and kind in _EMPTY:
            return filled(g, result.shape, _EMPTY[kind], result.dtype)
        x = g.cast(a.input, _within(result.dtype))
        x = Var(x, x.dtype, a.input.shape)
        return g.cast(reduced(g, kind, x, _axes(a, len(a.input.shape)), getattr(a, "keepdim", False)), result.dtype)

    return make


CONVERSIONS.update({"sum": _reduction("ReduceSum"), "mean": _reduction("ReduceMean"), "prod": _reduction("ReduceProd"),
                    "amax": _reduction("ReduceMax"), "amin": _reduction("ReduceMin")})  # fmt: skip


@conversion("any", "all")
def _any(g: Graph, a: Any, result: Any) -> Var:
    x = g.cast(g.cast(a.input, mt.bool), mt.int32)
    x = Var(x, x.dtype, a.input.shape)
    if 0 in a.input.shape:
        raise Declined("an empty tensor")
    kind = "ReduceMax" if a.overload.startswith("any") else "ReduceMin"
    return g.cast(reduced(g, kind, x, _axes(a, len(a.input.shape)), a.keepdim), mt.bool)


@conversion("max", "min")
def _max(g: Graph, a: Any, result: Any) -> Any:
    name = "Max" if a.overload.startswith("max") else "Min"
    if hasattr(a, "other"):
        return CONVERSIONS["maximum" if name == "Max" else "minimum"](g, a, result)
    if not hasattr(a, "dim"):
        return _reduction(f"Reduce{name}")(g, a, result)
    if not a.input.shape:
        raise Declined("a tensor without dimensions")
    axis = axis_of(a.dim, len(a.input.shape))
    x = g.cast(a.input, _within(a.input.dtype))
    place = g.op(f"Arg{name}", x, dtype=mt.int64, axis=axis, keepdims=int(a.keepdim))
    return g.op(f"Reduce{name}", x, g.ints([axis]), keepdims=int(a.keepdim)), place


@conversion("argmax", "argmin")
def _argmax(g: Graph, a: Any, result: Any) -> Var:
    if not a.input.shape:
        raise Declined("a tensor without dimensions")
    x = g.cast(a.input, _within(a.input.dtype))
    kind = "ArgMax" if a.overload.startswith("argmax") else "ArgMin"
    if a.dim is None:
        found = g.op(kind, g.op("Reshape", x, g.ints([-1])), dtype=mt.int64, axis=0, keepdims=0)
        return g.op("Reshape", found, g.ints([1] * len(result.shape))) if a.keepdim else found
    return g.op(kind, x, dtype=mt.int64, axis=axis_of(a.dim, len(a.input.shape)), keepdims=int(a.keepdim))


@conversion("logsumexp")
def _logsumexp(g: Graph, a: Any, result: Any) -> Var:
    x = g.cast(a.input, result.dtype)
    return reduced(g, "ReduceLogSumExp", Var(x, x.dtype, a.input.shape), _axes(a, len(a.input.shape)), a.keepdim)


@conversion("cumsum")
def _cumsum(g: Graph, a: Any, result: Any) -> Var:
    if not a.input.shape:
        return g.cast(a.input, result.dtype)
    x = g.cast(a.input, _within(result.dtype))
    return g.cast(g.op("CumSum", x, g.number(axis_of(a.dim, len(a.input.shape)), mt.int64)), result.dtype)
