"""`chain`: programs each of which takes what the one before returns, for the stages of a pipeline."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any

from metatensor._core.capture import Ticket, Value
from metatensor.program.passes.rewriting import released, used
from metatensor.program.passes.splitting import rebased
from metatensor.program.program import Program
from metatensor.program.structure import leaves

__all__ = ["chain", "crossing_bytes", "hazards"]


class _Boundaries:
    """What crosses each boundary of a program: boundary ``i`` is before call ``i``."""

    def __init__(self, program: Program) -> None:
        self.program = program
        held = {value.number for value in program.held.values()}
        self.born: dict[int, int] = {value.number: 0 for value in program.inputs}
        self.values: dict[int, Value] = {value.number: value for value in program.inputs}
        self.last: dict[int, int] = {}
        for i, call in enumerate(program.calls):
            for value in used(call):
                self.last[value.number] = i
            for value in leaves(Value, call.result):
                if value.number not in self.born and value.number not in held:
                    self.born[value.number] = i + 1
                    self.values[value.number] = value
        for value in program.outputs:
            self.last[value.number] = len(program.calls)
        for number in held:
            self.last.pop(number, None)

    def crossing(self, i: int) -> list[Value]:
        """Return the values that are made before a boundary and used after it."""
        return [value for number, value in self.values.items() if self.born[number] <= i <= self.last.get(number, -1)]


def crossing_bytes(program: Program) -> list[int]:
    """Return the bytes of the values that cross the boundary before each call, and the end."""
    found = _Boundaries(program)
    change = [0] * (len(program.calls) + 2)
    for number, value in found.values.items():
        last = found.last.get(number, -1)
        if last >= found.born[number]:
            size = prod(value.shape) * value.dtype.itemsize
            change[found.born[number]] += size
            change[last + 1] -= size
    total, sizes = 0, []
    for one in change[:-1]:
        total += one
        sizes.append(total)
    return sizes


def hazards(program: Program) -> dict[int, int]:
    """Return the boundaries at which a program cannot be divided, each with the call that writes to memory from before it.

    After the boundary there is a copy of that memory, so that a write on one side would not be seen on the other.
    """
    found = _Boundaries(program)
    writes: dict[int, list[int]] = {}
    for i, call in enumerate(program.calls):
        for value in call.writes:
            writes.setdefault(value.storage, []).append(i)
    held = {value.storage for value in program.held.values()}
    bad: dict[int, int] = {}
    for number, value in found.values.items():
        if value.storage in writes:
            for i in range(max(found.born[number], 1), found.last.get(number, -1) + 1):
                later = next((at for at in writes[value.storage] if at >= i), None)
                if later is not None or value.storage in held:
                    bad.setdefault(i, writes[value.storage][0] if later is None else later)
    return bad


def chain(program: Program, starts: Iterable[int]) -> list[Program]:
    """Divide a forward program into programs each of which takes what the one before returns.

    Values that are needed later pass through the programs in between. The first one has the arguments of the whole, the last one
    returns its result. Each one sets the buffers that it computes.

    Parameters
    ----------
    program : Program
        A program without a backward pass.
    starts : iterable of int
        Indices of the calls with which programs begin, without 0.

    Raises
    ------
    ValueError
        If the program has a backward pass, an index is not inside of it, or a call writes to memory from before its program.

    Examples
    --------
    >>> import metatensor as mt
    >>> with mt.device("meta"):
    ...     model = mt.nn.Sequential(mt.nn.Linear(8, 16), mt.nn.ReLU(), mt.nn.Linear(16, 4))
    >>> program = mt.program.trace(model, mt.empty(2, 8, device="meta"))
    >>> first, second = mt.program.chain(program, [2])
    >>> second(*first(mt.empty(2, 8, device="meta"))).shape
    metatensor.Size([2, 4])
    """
    if any(call.backward for call in program.calls) or any(effect.kind == "grad" for effect in program.effects):
        raise ValueError(f"chain: {program.name} has a backward pass; trace the forward pass")
    inner = sorted(set(starts))
    if inner and not 0 < inner[0] <= inner[-1] < len(program.calls):
        raise ValueError(f"chain: parts must begin with calls 1 to {len(program.calls) - 1}, got {inner}")
    bad = hazards(program)
    for i in inner:
        if i in bad:
            call = program.calls[bad[i]]
            place = "" if call.place is None else f" at {call.place[0]}:{call.place[1]}"
            raise ValueError(f"chain: {call.op.name}{place} writes in place to a tensor that was made before the boundary at call {i}; use "
                             "a variant that is not in place, or divide elsewhere")  # fmt: skip
    found = _Boundaries(program)
    bounds = [0, *inner, len(program.calls)]
    carried = [found.crossing(i) for i in inner]
    taken: dict[Any, int] = {}
    parts = [_part(program, index, bounds, carried, taken) for index in range(len(bounds) - 1)]
    changed = {effect.name for effect in program.effects}
    writes = {value.storage for call in program.calls for value in call.writes}
    for name, value in program.held.items():
        if (name in changed or value.storage in writes) and sum(name in part.held for part in parts) > 1:
            raise ValueError(f"chain: the program changes {program.kinds[name]} {name!r}, which several parts use; divide it elsewhere")
    return parts


def _part(program: Program, index: int, bounds: list[int], carried: list[list[Value]], taken: dict[Any, int]) -> Program:
    start, stop = bounds[index], bounds[index + 1]
    final = index == len(bounds) - 2
    calls = [rebased(call, taken) for call in program.calls[start:stop]]
    for call in program.calls[start:stop]:
        for ticket in leaves(Ticket, (call.args, call.kwargs)):
            taken[ticket.generator] = max(taken.get(ticket.generator, 0), ticket.number + 1)
    made = {value.number for call in calls for value in leaves(Value, call.result)}
    effects = [effect for effect in program.effects if effect.value.number in made]
    wanted = {value.number for call in calls for value in used(call)} | ({value.number for value in program.outputs} if final else set())
    replaced = {effect.name for effect in effects}
    names = {name for name, value in program.held.items() if value.number in wanted or name in replaced}
    return Program(
        f"{program.name}_{index}", arguments=program.arguments if index == 0 else (tuple(carried[index - 1]), {}),
        output=program.output if final else tuple(carried[index]), calls=calls,
        held={name: value for name, value in program.held.items() if name in names},
        kinds={name: kind for name, kind in program.kinds.items() if name in names},
        tied={name: own for name, own in program.tied.items() if own in names},
        tensors={name: tensor for name, tensor in program.tensors.items() if name in names},
        effects=effects, releases=released(calls), modules=program.modules,
        reads=[(n - start, op, value) for n, op, value in program.reads if start <= n < stop or n == stop and final],
        default_dtype=program.default_dtype, names=program.names if index == 0 else (),
    )  # fmt: skip
