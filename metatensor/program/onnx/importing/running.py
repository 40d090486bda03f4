"""A run of a graph, node by node."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import metatensor as mt
from metatensor._core.errors import DataDependentError
from metatensor._core.tensor import Tensor
from metatensor.checkpoint.errors import CheckpointError, printable
from metatensor.checkpoint.reading import shown
from metatensor.program.onnx.dtypes import type_name
from metatensor.program.onnx.importing.graph import MAX_DEPTH, Builder, Graph, Step
from metatensor.program.onnx.importing.operators import Node, Operator
from metatensor.program.onnx.importing.values import (
    LIMIT,
    Known,
    OnnxError,
    Small,
    Unknown,
    beside_the_run,
    described,
    element_kind,
    plain,
)

__all__ = ["Run"]

_HOST = mt.device("cpu")
_MODEST = frozenset((
    "Abs", "Add", "And", "Cast", "Ceil", "Concat", "Div", "Equal", "Flatten", "Floor", "Gather", "Greater", "Less", "Max", "Min", "Mod",
    "Mul", "Neg", "Not", "Or", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum", "Reshape", "Slice", "Sqrt", "Squeeze", "Sub",
    "Transpose", "Unsqueeze", "Where",
))  # fmt: skip
"""Operators that compute sizes. Their results have at most as many elements as the product of the inputs' element counts."""

HOST_BYTES = 1 << 28
"""Largest total size of the tensors that a run computes on the host. Beyond it, nodes are computed on the device."""


class Run:
    """A run on a device.

    Parameters
    ----------
    builder : Builder
        Has the functions of the model.
    device : device
        Where results are made.
    limit : int
        Largest number of nodes that are computed.
    partial : bool
        Whether a node that cannot be computed makes its outputs unknown, with the reason, instead of ending the run.
    meet : callable, optional
        Called with the name and value of each output of a node of the main graph.
    """

    def __init__(
        self, builder: Builder, device: mt.device, limit: int, partial: bool = False, meet: Callable[[str, Any], None] | None = None,
    ) -> None:
        self.builder, self.device, self.partial = builder, device, partial
        self.limit = self._left = limit
        self._depth = 0
        self._room = HOST_BYTES
        self._meet = meet

    def graph(self, graph: Graph, outer: dict[str, Any], inputs: list[Any], optional: bool = False) -> list[Any]:
        """Run a graph and return its outputs. Names that it does not define are looked up in `outer`.

        With `optional`, outputs that no node computes are None.
        """
        if self._depth > MAX_DEPTH:
            raise CheckpointError(self.builder.file, "graphs or functions are nested too deeply")
        env: dict[str, Any] = {name: outer[name] for name in graph.captured if name in outer}
        env.update(graph.constants)
        if len(inputs) > len(graph.inputs):
            raise OnnxError(f"a graph takes {len(graph.inputs)} inputs, got {len(inputs)}")
        env.update(zip(graph.inputs, inputs, strict=False))
        self.spend(1)
        self._depth += 1
        meet = self._meet if self._depth == 1 else None
        try:
            for step in graph.steps:
                self.spend(1)
                results = self._results(step, env)
                for name, value in zip(step.outputs, results, strict=False):
                    if name:
                        env[name] = value
                        if meet is not None:
                            meet(name, value)
                del results
                for name in step.frees:
                    env.pop(name, None)
        finally:
            self._depth -= 1
        return [env.get(name) if optional else self._named(env, name, None) for name in graph.outputs]

    def spend(self, count: int) -> None:
        """Count nodes, or work that takes as long as `count` nodes. Raise `OnnxError` if the limit is exceeded."""
        self._left -= count
        if self._left < 0:
            raise OnnxError(f"it computes more than {self.limit:,} nodes, or does as much work; limit= sets the bound")

    def _named(self, env: dict[str, Any], name: str, step: Step | None) -> Any:
        if not name:
            return None
        try:
            return env[name]
        except KeyError:
            where = "the graph returns" if step is None else f"{step} uses"
            raise OnnxError(printable(f"{self.builder.file}: {where} {shown(name)}, which nothing before it makes")) from None

    def _results(self, step: Step, env: dict[str, Any]) -> tuple[Any, ...]:
        values = [self._named(env, name, step) for name in step.inputs]
        while values and values[-1] is None:
            values.pop()
        if self.partial:
            for name, value in zip(step.inputs, values, strict=False):
                if isinstance(value, Unknown):
                    why = value.reason if value.reason.startswith("depends on") else f"depends on {name}"
                    return tuple(Unknown(why) for _ in step.outputs)
        try:
            result = self._call(step, values, env)
        except (CheckpointError, OnnxError) as error:
            if not isinstance(error, _Placed) and not isinstance(error, CheckpointError):
                error = _Placed(self._message(step, values, error))
            return self._failed(step, error)
        except (DataDependentError, NotImplementedError) as error:
            if getattr(error, "placed", False):
                return self._failed(step, error)
            made: Any = type(error)(self._message(step, values, error)) if type(error) in _OWN else error
            made.placed = True
            return self._failed(step, made, error)
        except MemoryError:
            raise
        except Exception as error:
            return self._failed(step, _Placed(self._message(step, values, error)), error)
        return result if isinstance(result, tuple) else (result,)

    def _failed(self, step: Step, error: Exception, cause: Exception | None = None) -> tuple[Any, ...]:
        if self.partial:
            return tuple(Unknown(str(error)) for _ in step.outputs)
        raise error from cause

    def _message(self, step: Step, values: list[Any], error: Exception) -> str:
        inputs = ", ".join(described(value) for value in values[:8])
        text = str(error) or type(error).__name__
        return printable(f"{self.builder.file}: {step} of {inputs}: {text[:1000]}")

    def _call(self, step: Step, values: list[Any], env: dict[str, Any]) -> Any:
        op = step.operator
        if op is None:
            return self._function(step, values)
        if op.folds and all(value is None or isinstance(value, Known) and value.folds for value in values):
            found = self._folded(step, op, values)
            if found is not None:
                return found
        found = self._computed(step, op, values, self.device, env)
        return self._function(step, values) if found is NotImplemented else found

    def _computed(self, step: Step, op: Operator, values: list[Any], device: mt.device, env: dict[str, Any] | None = None) -> Any:
        node = Node(step, self, device)
        if op.host is True:
            return op.fn(node, *values) if not _has_graphs(step) else op.fn(node, env, *values)
        kind, args = 0, []
        for at, value in enumerate(values):
            if at not in op.host:  # type: ignore[operator]
                value = node.lift(value)
                if isinstance(value, Small) and not op.small:
                    if not op.moves:
                        raise NotImplementedError(f"{step.kind} of {type_name(value.kind)} is not supported")
                    kind, value = value.kind, value.tensor
            args.append(value)
        result = op.fn(node, *args)
        if kind:
            results = result if isinstance(result, tuple) else (result,)
            return tuple(Small(one, kind) if isinstance(one, Tensor) else one for one in results)
        return result

    def _folded(self, step: Step, op: Operator, values: list[Any]) -> Any:
        """Compute a node on the host. Return None if a result would be large."""
        with beside_the_run():
            if step.kind in _MODEST and prod(max(plain(one.host).numel(), 1) for one in values if one is not None) <= LIMIT:
                return self._on_host(step, op, values)
            try:
                tried = self._computed(step, op, values, mt.device("meta"))
            except DataDependentError:
                pass
            else:
                if tried is NotImplemented:
                    return self._function(step, values)
                made = [plain(one) for one in (tried if isinstance(tried, tuple) else (tried,)) if isinstance(one, (Tensor, Small))]
                self._room -= sum(one.numel() * one.dtype.itemsize for one in made)
                if self._room < 0 or any(one.numel() > LIMIT for one in made):
                    return None
            return self._on_host(step, op, values)

    def _on_host(self, step: Step, op: Operator, values: list[Any]) -> tuple[Any, ...]:
        result = self._computed(step, op, values, _HOST)
        results = result if isinstance(result, tuple) else (result,)
        return tuple(Known(one) if isinstance(one, (Tensor, Small)) else one for one in results)

    def _function(self, step: Step, values: list[Any]) -> tuple[Any, ...]:
        types = [] if (step.domain, step.kind) in self.builder.functions else [_type(value) for value in values]
        body = self.builder.body(step, self._depth, types)
        if body is None:
            kind = f"{step.domain}.{step.kind}" if step.domain else step.kind
            raise NotImplementedError(f"the operator {kind} is not supported")
        return tuple(self.graph(body, {}, values + [None] * (len(body.inputs) - len(values)), True))


_OWN = (DataDependentError, NotImplementedError)


class _Placed(OnnxError):
    """An error that names its node."""


_Placed.__name__ = _Placed.__qualname__ = "OnnxError"


def _has_graphs(step: Step) -> bool:
    return any(isinstance(value, Graph) for value in step.attributes.values())


def _type(value: Any) -> bytes:
    """Return the serialized type of a value, for functions that depend on the types of their inputs."""
    from onnx import TypeProto, helper

    if value is None:
        return bytes(TypeProto().SerializeToString())
    if isinstance(value, list):
        made = helper.make_sequence_type_proto(TypeProto.FromString(_type(value[0])) if value else TypeProto())
    else:
        tensor = value.host if isinstance(value, Known) else value
        tensor = tensor.tensor if isinstance(tensor, Small) else tensor
        made = helper.make_tensor_type_proto(element_kind(value), list(tensor.shape))
    return bytes(made.SerializeToString())
