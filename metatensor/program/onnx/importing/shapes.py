"""Dtypes and shapes of all values of a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import metatensor as mt
from metatensor._core.tensor import Tensor
from metatensor.program.onnx.dtypes import type_name
from metatensor.program.onnx.importing.expressions import STEP, Point, expression, points
from metatensor.program.onnx.importing.graph import Builder, Graph
from metatensor.program.onnx.importing.reading import Declared
from metatensor.program.onnx.importing.running import Run
from metatensor.program.onnx.importing.values import Known, Small, Texts, Unknown, described, element_kind

__all__ = ["ValueShape", "infer", "named"]


class ValueShape(NamedTuple):
    """Dtype and shape of a value of an ONNX graph."""

    name: str
    kind: str | None
    """ONNX's name of the element type, such as ``"FLOAT"``; ``"SEQUENCE"`` for a sequence. None if it is not known."""
    shape: tuple[int | str, ...] | None
    """The sizes, as numbers or as expressions of named sizes; ``"?"`` for unknown ones. None for sequences and unknown shapes."""
    reason: str | None = None
    """Why dtype and shape are unknown, or None."""

    def __str__(self) -> str:
        if self.reason is not None:
            return f"{self.name}: ? ({self.reason})"
        return f"{self.name}: {self.kind}" + ("" if self.shape is None else f"[{','.join(map(str, self.shape))}]")


def infer(builder: Builder, graph: Graph, inputs: list[Declared], values: list[Any], limit: int) -> list[ValueShape]:
    """Run a graph on meta and return the types and shapes of its values."""
    found = [shape_of_value(one.name, value) for one, value in zip(inputs, values, strict=True) if one.name not in graph.constants]
    run = Run(builder, mt.device("meta"), limit, True, lambda name, value: found.append(shape_of_value(name, value)))
    run.graph(graph, {}, values)
    return found


def named(run: Callable[[Point], list[ValueShape]], names: list[str]) -> list[ValueShape]:
    """Return shapes with expressions of named sizes.

    Parameters
    ----------
    run : callable
        Returns the shapes for given sizes.
    names : list of str
        The names. `run` is called with a distinct number for each name. If some shapes stay unknown, it is called again with
        multiples of `STEP`.
    """
    best: tuple[list[Point], list[list[ValueShape]]] | None = None
    for step in (1, STEP):
        at = points(names, step)
        first = run(at[0])
        failed = sum(one.reason is not None for one in first)
        if best is not None and failed >= sum(one.reason is not None for one in best[1][0]):
            break
        best = at, [first, *(run(point) for point in at[1:])]
        if not failed:
            break
    assert best is not None
    at, runs = best
    return [_merged(at, [rows[i] for rows in runs]) for i in range(len(runs[0]))]


def _merged(at: list[Point], rows: list[ValueShape]) -> ValueShape:
    """Combine the shapes of a value at several points into expressions."""
    first = rows[0]
    for one in rows:
        if one.reason is not None:
            return one
    if len({(one.kind, None if one.shape is None else len(one.shape)) for one in rows}) > 1:
        return ValueShape(first.name, None, None, "its type depends on the named sizes")
    if first.shape is None:
        return first
    columns = zip(*(one.shape or () for one in rows), strict=True)
    sizes = [expression(at, [n for n in column if isinstance(n, int)]) for column in columns]
    return first._replace(shape=tuple("?" if n is None else n for n in sizes))


def shape_of_value(name: str, value: Any) -> ValueShape:
    """Return the dtype and the shape of a value."""
    if isinstance(value, Unknown):
        return ValueShape(name, None, None, value.reason)
    if isinstance(value, (list, Texts)):
        return ValueShape(name, "SEQUENCE" if isinstance(value, list) else "STRING", None if isinstance(value, list) else value.shape)
    if value is None:
        return ValueShape(name, "NOTHING", None)
    tensor = value.on(mt.device("meta")) if isinstance(value, Known) else value
    tensor = tensor.tensor if isinstance(tensor, Small) else tensor
    if not isinstance(tensor, Tensor):
        return ValueShape(name, None, None, f"it is {described(value)}")
    return ValueShape(name, type_name(element_kind(value)), tuple(tensor.shape))
