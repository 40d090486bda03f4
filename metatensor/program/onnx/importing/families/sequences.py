"""Sequences and optional values."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor._core.tensor import Tensor
from metatensor.program.onnx.importing.operators import Node, operator
from metatensor.program.onnx.importing.values import LIMIT, OnnxError, described

__all__: list[str] = []


def _sequence(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise OnnxError(f"expected a sequence, got {described(value)}")
    return value


def _at(node: Node, sequence: list[Any], position: Any, extra: int = 0) -> int:
    found = int(node.number(position, "the position"))
    size = len(sequence) + extra
    if not -len(sequence) <= found < size:
        raise OnnxError(f"the position {found} is not in a sequence of {len(sequence)}")
    return found


@operator("SequenceEmpty", host=True, folds=False)
def _empty(node: Node) -> list[Any]:
    return []


@operator("SequenceConstruct", host=True, folds=False)
def _construct(node: Node, *values: Any) -> list[Any]:
    return list(values)


@operator("SequenceInsert", host=True, folds=False)
def _insert(node: Node, sequence: Any, value: Any, position: Any = None) -> list[Any]:
    node.run.spend(len(_sequence(sequence)) // 64)
    made = list(sequence)
    made.insert(len(made) if position is None else _at(node, made, position, 1), value)
    return made


@operator("SequenceErase", host=True, folds=False)
def _erase(node: Node, sequence: Any, position: Any = None) -> list[Any]:
    made = list(_sequence(sequence))
    if not made:
        raise OnnxError("the sequence is empty")
    del made[-1 if position is None else _at(node, made, position)]
    return made


@operator("SequenceAt", host=True, folds=False)
def _sequence_at(node: Node, sequence: Any, position: Any) -> Any:
    return _sequence(sequence)[_at(node, sequence, position)]


@operator("SequenceLength", host=True, folds=False)
def _length(node: Node, sequence: Any) -> Any:
    return node.known(len(_sequence(sequence)))


@operator("ConcatFromSequence", host=True, folds=False)
def _concat(node: Node, sequence: Any) -> Tensor:
    tensors = [node.lift(one) for one in _sequence(sequence)]
    return (mt.stack if node.get("new_axis", 0) else mt.cat)(tensors, node.need("axis"))


@operator("SplitToSequence", host=True, folds=False)
def _split(node: Node, x: Any, split: Any = None) -> list[Any]:
    x, axis = node.lift(x), node.get("axis", 0)
    size = x.shape[axis]
    if split is None:
        if size > LIMIT:
            raise OnnxError(f"a sequence of {size:,} parts is too long; at most {LIMIT:,}")
        node.run.spend(size)
        parts = [x.narrow(axis, i, 1) for i in range(size)]
        return parts if node.get("keepdims", 1) else [part.squeeze(axis) for part in parts]
    sizes = node.ints(split, "the sizes of parts")
    rank = (split.host if hasattr(split, "host") else split).ndim
    if rank == 0:
        step = sizes[0]
        if step < 1 or size // step > LIMIT:
            raise OnnxError(f"a dimension of size {size:,} cannot be split into parts of size {step}")
        node.run.spend(size // step)
        sizes = [min(step, size - i) for i in range(0, size, step)]
    return list(mt.split(x, sizes, axis))


# Optional values --------------------------------------------------------------------------------------


@operator("Optional", host=True, folds=False)
def _optional(node: Node, value: Any = None) -> Any:
    return value


@operator("OptionalHasElement", host=True, folds=False)
def _has_element(node: Node, value: Any = None) -> Any:
    return node.known(value is not None, mt.bool)


@operator("OptionalGetElement", host=True, folds=False)
def _get_element(node: Node, value: Any = None) -> Any:
    if value is None:
        raise OnnxError("the optional value is empty")
    return value
