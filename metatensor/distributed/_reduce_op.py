"""Reduction operations: their names, and how tensors on any device are reduced."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

import metatensor as mt

__all__ = ["ReduceOp", "divided", "named_reduction", "reduced", "supports_complex"]


class ReduceOp(enum.Enum):
    """Reduction operations. Reducing a single tensor returns that tensor."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7

    def __str__(self) -> str:
        return f"RedOpType.{self.name}"


ReduceOp.RedOpType = ReduceOp  # type: ignore[attr-defined]

_NAMED = {"product": ReduceOp.PRODUCT, "prod": ReduceOp.PRODUCT} | {
    op.name.lower(): op for op in ReduceOp if op is not ReduceOp.PRODUCT
}

# Functions (accumulator, tensor) that work in place.
_STEPS: dict[ReduceOp, Callable[[Any, Any], Any]] = {
    ReduceOp.SUM: lambda total, one: total.add_(one),
    ReduceOp.AVG: lambda total, one: total.add_(one),
    ReduceOp.PRODUCT: lambda total, one: total.mul_(one),
    ReduceOp.MIN: lambda total, one: mt.minimum(total, one, out=total),
    ReduceOp.MAX: lambda total, one: mt.maximum(total, one, out=total),
    ReduceOp.BAND: lambda total, one: total.bitwise_and_(one),
    ReduceOp.BOR: lambda total, one: total.bitwise_or_(one),
    ReduceOp.BXOR: lambda total, one: total.bitwise_xor_(one),
}


def named_reduction(name: Any) -> ReduceOp:
    """Return the operation called ``"sum"``, ``"avg"``, ``"product"``, ... An operation is returned unchanged.

    Raise ValueError for other names.
    """
    if isinstance(name, ReduceOp):
        return name
    found = _NAMED.get(str(name).lower())
    if found is None:
        raise ValueError(f"torch.distributed: unknown reduction {name!r}; the known ones are {', '.join(_NAMED)}")
    return found


def supports_complex(reduceOp: ReduceOp) -> bool:
    """Return True if complex tensors can be reduced with this operation."""
    return reduceOp in (ReduceOp.SUM, ReduceOp.AVG)


def reduced(tensors: Sequence[Any], op: ReduceOp) -> Any:
    """Return a new tensor: ``tensors``, of equal shape and dtype, reduced in their order.

    Half precision is accumulated in float32 and rounded once.
    """
    first = tensors[0]
    narrow = first.is_floating_point() and first.element_size() < 4
    total = first.to(mt.float32) if narrow else first.clone()
    step = _STEPS[op]
    for one in tensors[1:]:
        step(total, one.to(mt.float32) if narrow else one)
    if op is ReduceOp.AVG:
        divided(total, len(tensors))
    return total.to(first.dtype) if narrow else total


def divided(total: Any, count: int) -> Any:
    """Divide a sum by the number of ranks, in place. Return it."""
    return total.div_(count)
