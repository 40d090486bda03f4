"""Control flow: If, Loop and Scan."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor._core.errors import DataDependentError
from metatensor._core.tensor import Tensor
from metatensor.program.onnx.importing.graph import Graph
from metatensor.program.onnx.importing.operators import Node, operator
from metatensor.program.onnx.importing.values import Known, OnnxError, Small, Unknown, beside_the_run, described, element_kind

__all__: list[str] = []


def _graph(node: Node, name: str) -> Graph:
    found = node.need(name)
    if not isinstance(found, Graph):
        raise OnnxError(f"the attribute {name!r} must be a graph")
    return found


@operator("If", host=True, folds=False)
def _if(node: Node, env: dict[str, Any], condition: Any) -> Any:
    try:
        chosen = bool(node.number(condition, "the condition"))
    except DataDependentError as error:
        return _both(node, env, error)
    return tuple(node.run.graph(_graph(node, "then_branch" if chosen else "else_branch"), env, []))


def _both(node: Node, env: dict[str, Any], error: Exception) -> Any:
    """Return the results of an If with an unknown condition. Those with different types in the two branches are unknown."""
    results = [node.run.graph(_graph(node, name), env, []) for name in ("then_branch", "else_branch")]
    found: list[Any] = []
    for one, other in zip(*results, strict=True):
        if _alike(one, other):
            found.append(node.lift(one))
        elif node.run.partial:
            found.append(Unknown(f"it is {described(one)} or {described(other)}: {error}"))
        else:
            raise error
    return tuple(found)


def _alike(one: Any, other: Any) -> bool:
    """Return whether two values have the same type and shape."""
    if isinstance(one, Known) or isinstance(other, Known) or isinstance(one, (Tensor, Small)) and isinstance(other, (Tensor, Small)):
        return _type(one) == _type(other) is not None
    return False


def _type(value: Any) -> Any:
    tensor = value.on(mt.device("meta")) if isinstance(value, Known) else value
    tensor = tensor.tensor if isinstance(tensor, Small) else tensor
    return (element_kind(value), tuple(tensor.shape)) if isinstance(tensor, Tensor) else None


@operator("Loop", host=True, folds=False)
def _loop(node: Node, env: dict[str, Any], count: Any = None, going: Any = None, *states: Any) -> Any:
    body, carried = _graph(node, "body"), list(states)
    rows: list[list[Any]] = [[] for _ in range(max(len(body.outputs) - 1 - len(carried), 0))]
    try:
        most = None if count is None else int(node.number(count, "the number of iterations"))
        on = True if going is None else bool(node.number(going, "the condition"))
        i = 0
        while on and (most is None or i < most):
            state, *results = node.run.graph(body, env, [node.known(i), node.known(True, mt.bool), *carried])
            carried = results[: len(carried)]
            for row, value in zip(rows, results[len(carried) :], strict=True):
                row.append(value)
            i += 1
            if body.outputs[0] not in body.inputs or state is not None:
                on = bool(node.number(state, "the condition"))
    except DataDependentError as error:
        if not node.run.partial:
            raise
        return _once(node, env, body, list(states), len(rows), error)
    if rows and not i:
        return (*carried, *_none(node, env, body, [node.known(0), node.known(True, mt.bool), *carried], 1 + len(carried)))
    return (*carried, *(_stacked(node, row) for row in rows))


def _once(node: Node, env: dict[str, Any], body: Graph, states: list[Any], rows: int, error: Exception) -> Any:
    """Return the types after a loop of unknown length: of states whose types one iteration does not change."""
    unknown = Unknown(str(error))
    given = [mt.empty((), dtype=mt.int64, device="meta"), mt.empty((), dtype=mt.bool, device="meta")]
    results = node.run.graph(body, env, [*given, *(node.lift(one) for one in states)])[1:]
    if not all(isinstance(b, Unknown) or _alike(a, b) for a, b in zip(states, results, strict=False)):
        return tuple(unknown for _ in range(len(states) + rows))
    return tuple(node.lift(one) for one in results[: len(states)]) + (unknown,) * rows


def _none(node: Node, env: dict[str, Any], body: Graph, states: list[Any], kept: int) -> list[Any]:
    """Return the results of no iterations: empty tensors, whose shapes are taken from an iteration on meta.

    `states` are the inputs of the iteration, of which the first `kept` are outputs as well.
    """
    from metatensor.program.onnx.importing.running import Run

    def shaped(value: Any) -> Any:
        if isinstance(value, list):
            return [shaped(one) for one in value]
        if isinstance(value, Small):
            return Small(value.tensor.to("meta"), value.kind)
        return value.to("meta") if isinstance(value, Tensor) else value

    with beside_the_run():
        run = Run(node.run.builder, mt.device("meta"), node.run.limit)
        results = run.graph(body, {name: shaped(value) for name, value in env.items()}, list(map(shaped, states)))[kept:]
    found: list[Any] = []
    for one in results:
        value = one.on(mt.device("meta")) if isinstance(one, Known) else one
        tensor = value.tensor if isinstance(value, Small) else value
        if not isinstance(tensor, Tensor):
            raise OnnxError(f"the results of iterations are {described(one)}, not tensors")
        empty = mt.zeros((0, *tensor.shape), dtype=tensor.dtype, device=node.device)
        found.append(Small(empty, value.kind) if isinstance(value, Small) else empty)
    return found


def _stacked(node: Node, row: list[Any]) -> Any:
    """Return the values of all iterations in one tensor."""
    unknown = next((one for one in row if isinstance(one, Unknown)), None)
    if unknown is not None:
        return unknown
    tensors = [node.lift(one) for one in row]
    if isinstance(tensors[0], Small):
        return Small(mt.stack([one.tensor for one in tensors]), tensors[0].kind)
    if not all(isinstance(one, Tensor) for one in tensors):
        raise OnnxError(f"the results of iterations are {described(row[0])}, not tensors")
    return mt.stack(tensors)


@operator("Scan", host=True, folds=False)
def _scan(node: Node, env: dict[str, Any], *values: Any) -> Any:
    body, scanned = _graph(node, "body"), node.need("num_scan_inputs")
    inputs = [node.lift(value) for value in values]
    if node.version < 9:
        return _scan_8(node, env, body, scanned, inputs)
    return _scanned(node, env, body, scanned, inputs)


def _scanned(node: Node, env: dict[str, Any], body: Graph, scanned: int, inputs: list[Any]) -> Any:
    kept = len(inputs) - scanned
    if not 0 < scanned <= len(inputs):
        raise OnnxError(f"it scans {scanned} of {len(inputs)} inputs")
    states, sequences = inputs[:kept], inputs[kept:]
    outputs = len(body.outputs) - kept
    axes = node.get("scan_input_axes") or [0] * scanned
    ends = node.get("scan_output_axes") or [0] * outputs
    ways = node.get("scan_input_directions") or [0] * scanned
    back = node.get("scan_output_directions") or [0] * outputs
    steps = sequences[0].shape[axes[0]]
    rows: list[list[Any]] = [[] for _ in range(outputs)]
    for t in range(steps):
        parts = [x.select(axis, steps - 1 - t if way else t) for x, axis, way in zip(sequences, axes, ways, strict=True)]
        results = node.run.graph(body, env, [*states, *parts])
        states = results[:kept]
        for row, value in zip(rows, results[kept:], strict=True):
            row.append(value)
    if not steps:
        parts = [mt.zeros([n for d, n in enumerate(x.shape) if d != axis % x.ndim], dtype=x.dtype, device="meta")
                 for x, axis in zip(sequences, axes, strict=True)]  # fmt: skip
        empty = _none(node, env, body, [*states, *parts], kept)
        return (*states, *(y.movedim(0, axis) if axis else y for y, axis in zip(empty, ends, strict=True)))
    found = []
    for row, axis, way in zip(rows, ends, back, strict=True):
        y = _stacked(node, row[::-1] if way else row)
        found.append(y.movedim(0, axis) if axis and isinstance(y, Tensor) else y)
    return (*states, *found)


def _scan_8(node: Node, env: dict[str, Any], body: Graph, scanned: int, inputs: list[Any]) -> Any:
    """Scan as in version 8: with a batch dimension, and lengths as the first input."""
    lengths, *rest = inputs
    if lengths is not None:
        raise NotImplementedError("Scan with lengths of sequences is not supported")
    batch = [_scanned(node, env, body, scanned, [x[i] for x in rest]) for i in range(rest[-1].shape[0])]
    if not batch:
        raise NotImplementedError("Scan of an empty batch is not supported")
    return tuple(mt.stack([node.lift(one) for one in column]) for column in zip(*batch, strict=True))
