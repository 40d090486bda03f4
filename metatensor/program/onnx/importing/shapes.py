"""Dtypes and shapes of all values of a graph."""

from __future__ import annotations

from typing import Any, NamedTuple

import metatensor as mt
from metatensor._core.tensor import Tensor
from metatensor.program.onnx.dtypes import NAMES
from metatensor.program.onnx.importing.graph import Builder, Graph
from metatensor.program.onnx.importing.reading import Declared
from metatensor.program.onnx.importing.running import Run
from metatensor.program.onnx.importing.values import Known, Small, Texts, Unknown, described, element_kind

__all__ = ["ValueShape", "infer"]


class ValueShape(NamedTuple):
    """Dtype and shape of a value of an ONNX graph."""

    name: str
    kind: str | None
    """The element type as ONNX calls it, such as ``"FLOAT"``; ``"SEQUENCE"`` for a sequence. None if it is not known."""
    shape: tuple[int, ...] | None
    """The sizes. None if they are not known, and for sequences."""
    reason: str | None = None
    """Why nothing is known."""

    def __str__(self) -> str:
        if self.reason is not None:
            return f"{self.name}: ? ({self.reason})"
        return f"{self.name}: {self.kind}" + ("" if self.shape is None else f"[{','.join(map(str, self.shape))}]")


def infer(builder: Builder, graph: Graph, inputs: list[Declared], values: list[Any], limit: int) -> list[ValueShape]:
    """Run a graph on meta and return what its values are."""
    found = [shape_of_value(one.name, value) for one, value in zip(inputs, values, strict=True) if one.name not in graph.constants]
    run = Run(builder, mt.device("meta"), limit, True, lambda name, value: found.append(shape_of_value(name, value)))
    run.graph(graph, {}, values)
    return found


def shape_of_value(name: str, value: Any) -> ValueShape:
    """Return the dtype and the shape of a value."""
    if isinstance(value, Unknown):
        return ValueShape(name, None, None, value.reason)
    if isinstance(value, (list, Texts)):
        return ValueShape(name, "SEQUENCE" if isinstance(value, list) else "STRING", None if isinstance(value, list) else value.shape)
    if value is None:
        return ValueShape(name, "NOTHING", None)
    tensor = value.host if isinstance(value, Known) else value
    tensor = tensor.tensor if isinstance(tensor, Small) else tensor
    if not isinstance(tensor, Tensor):
        return ValueShape(name, None, None, f"it is {described(value)}")
    return ValueShape(name, NAMES[element_kind(value)], tuple(tensor.shape))
