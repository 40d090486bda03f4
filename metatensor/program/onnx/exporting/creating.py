"""Conversions of operators that create tensors."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import metatensor as mt
from metatensor._core.dtype import DType
from metatensor.program.onnx.exporting.graph import Graph, Size, Var
from metatensor.program.onnx.exporting.table import Declined, conversion, operand

__all__ = ["filled"]

_MOST = 4096
"""Maximum number of elements of a range that is exported as a constant."""


def filled(g: Graph, shape: Any, value: float, dtype: DType) -> Var:
    """Return a tensor filled with a number."""
    element = g.number(value, dtype)
    if not len(shape):
        return element
    return g.op("Expand", element, g.ints(shape))


@conversion("zeros", "zeros_like", "new_zeros", "empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted",
            "zero")  # fmt: skip
def _zeros(g: Graph, a: Any, result: Any) -> Var:
    return filled(g, result.shape, 0, result.dtype)


@conversion("ones", "ones_like", "new_ones")
def _ones(g: Graph, a: Any, result: Any) -> Var:
    return filled(g, result.shape, 1, result.dtype)


@conversion("full", "full_like", "new_full", "fill", "scalar_tensor")
def _full(g: Graph, a: Any, result: Any) -> Var:
    value = next(getattr(a, name) for name in ("fill_value", "value", "s") if hasattr(a, name))
    if isinstance(value, Var):
        return g.op("Expand", operand(g, value, result.dtype), g.ints(result.shape))
    return filled(g, result.shape, value, result.dtype)


@conversion("_from_host")
def _from_host(g: Graph, a: Any, result: Any) -> Var:
    contiguous, expected = True, 1
    for n, s in zip(reversed(a.size), reversed(a.stride)):
        contiguous &= n == 1 or s == expected
        expected *= n
    if not isinstance(a.data, bytes) or not contiguous or sys.byteorder != "little":
        raise Declined("data that are not bytes in order")
    return g.raw(a.data, a.dtype, a.size)


@conversion("arange", "range")
def _arange(g: Graph, a: Any, result: Any) -> Var:
    """Export the numbers as a constant, or computed from a count if sizes have names. Range is used for integers only, because
    runtimes add the step repeatedly, which accumulates rounding errors."""
    start, step = getattr(a, "start", 0), getattr(a, "step", 1)
    count = result.shape[0]
    if not any(isinstance(v, Size) for v in (start, step, a.end, count)):
        if count <= _MOST:
            kind = np.int64 if all(isinstance(v, int) for v in (start, step)) else np.float64
            numbers = np.arange(count, dtype=kind) * step + start
            return g.constant(numbers, result.dtype)
    elif isinstance(step, Size) or not isinstance(count, Size):
        raise Declined("a range whose number of elements is not a size with a name")
    numbers = g.op("Range", g.number(0, mt.int64), g.number(count, mt.int64), g.number(1, mt.int64))
    within = result.dtype if result.dtype is not mt.bool else mt.int64
    within = within if within.is_floating_point or all(isinstance(v, int) for v in (start, step)) else mt.float64
    found = g.cast(numbers, within)
    if step != 1:
        found = g.op("Mul", found, g.number(step, within))
    if start != 0 or isinstance(start, Size):
        found = g.op("Add", found, g.number(start, within))
    return g.cast(found, result.dtype)


@conversion("linspace")
def _linspace(g: Graph, a: Any, result: Any) -> Var:
    if isinstance(a.start, Var) or isinstance(a.end, Var) or isinstance(a.steps, Size) or a.steps > 16 * _MOST:
        raise Declined("ends that are tensors")
    if a.steps < 2 or not result.dtype.is_floating_point:
        if a.steps == 1:
            return g.constant([a.start], result.dtype)
        raise Declined("integers")
    step = (a.end - a.start) / (a.steps - 1)
    index = np.arange(a.steps)
    numbers = np.where(index < a.steps // 2, a.start + step * index, a.end - step * (a.steps - 1 - index))
    return g.constant(numbers, result.dtype)


@conversion("eye")
def _eye(g: Graph, a: Any, result: Any) -> Var:
    if any(isinstance(n, Size) for n in result.shape):
        raise Declined("sizes with names")
    return g.constant(np.eye(*result.shape), result.dtype)


@conversion("tril_indices", "triu_indices")
def _triangle(g: Graph, a: Any, result: Any) -> Var:
    pick = np.tril_indices if a.overload.startswith("tril") else np.triu_indices
    return g.constant(np.stack(pick(a.row, a.offset, a.col)), result.dtype)


