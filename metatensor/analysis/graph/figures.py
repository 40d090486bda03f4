"""The cost of each call of a program."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import metatensor as mt
from metatensor._core.capture import Value
from metatensor.analysis.calls import Call, CallRecorder
from metatensor.program.program import Program
from metatensor.program.restoring import restoring
from metatensor.program.structure import leaves, mapped

__all__ = ["CallFigures", "calls_of", "figures"]


class CallFigures(NamedTuple):
    """Figures of one call. FLOPs and bytes read and written are None if the program does not run on meta."""

    flops: int | None
    read: int | None
    """Bytes of the elements that it reads."""
    written: int | None
    """Bytes of the elements that it writes."""
    made: int
    """Bytes of the storages that it allocates."""
    in_use: int
    """Bytes in use when it ends, before releases: storages allocated by calls, without inputs, parameters,
    buffers and constants."""


def figures(program: Program) -> tuple[list[CallFigures], str]:
    """Return the figures of each call, and why some are unknown, or an empty text.

    The program runs once on meta, on tensors of its own.
    """
    memory = _memory(program)
    try:
        recorded = calls_of(program)
    except Exception as error:  # a program may come from a file, or need data
        reason = f"the program does not run on meta: {type(error).__name__}: {error}"
        return [CallFigures(None, None, None, *pair) for pair in memory], reason
    return [CallFigures(call.flops, call.read, call.written, *pair) for call, pair in zip(recorded, memory, strict=True)], ""


def calls_of(program: Program) -> list[Call]:
    """Return the recorded call for each call of a program, which runs once on meta, on tensors of its own."""
    return _aligned(program, _recorded(program))


def _recorded(program: Program) -> list[Call]:
    def empty(value: Value) -> Any:
        return mt.empty(value.shape, dtype=value.dtype, device="meta")

    tensors = {name: program.tensors[name].to("meta").detach() if name in program.tensors else empty(value)
               for name, value in program.held.items()}  # fmt: skip
    args, kwargs = mapped(empty, Value, program.arguments)
    with restoring(), mt.device("meta"), mt.no_grad(), CallRecorder() as recorder:
        program.replace(tensors=tensors)(*args, **kwargs)
    return recorder.calls


def _aligned(program: Program, calls: list[Call]) -> list[Call]:
    """Return the recorded call for each call of the program. Recorded calls that only read tickets are skipped."""
    found, at = [], 0
    for call in program.calls:
        while at < len(calls) and calls[at].op != call.op.name:
            at += 1
        if at == len(calls):
            raise RuntimeError(f"the run on meta has no matching call of {call.op.name}")
        found.append(calls[at])
        at += 1
    return found


def _memory(program: Program) -> list[tuple[int, int]]:
    """Return the bytes that each call allocates, and the bytes in use when it ends."""
    size: dict[int, int] = {}
    for value in program.values.values():
        reach = 1 + sum((n - 1) * step for n, step in zip(value.shape, value.stride, strict=True)) if prod(value.shape) else 0
        size[value.storage] = max(size.get(value.storage, 0), (value.offset + reach) * value.dtype.itemsize if reach else 0)
    existed = {value.storage for value in [*program.inputs, *program.held.values()]}
    stays = {value.storage for value in [*program.outputs, *(effect.value for effect in program.effects)]}
    found, alive, total = [], set[int](), 0
    for i, call in enumerate(program.calls):
        new = {value.storage for value in leaves(Value, call.result)} - existed - alive
        alive |= new
        made = sum(size[storage] for storage in new)
        total += made
        found.append((made, total))
        released = alive.intersection(program.releases.get(i, ())) - stays
        alive -= released
        total -= sum(size[storage] for storage in released)
    return found
