"""The data that the page of a program's graph shows, as JSON types."""

from __future__ import annotations

import linecache
import os
from collections.abc import Hashable
from math import prod
from typing import Any

from metatensor._core.capture import Ticket, Value
from metatensor.analysis.graph.figures import figures
from metatensor.analysis.graph.tree import PHASES, grouped, paths_of
from metatensor.analysis.kinds import kind_of
from metatensor.program.printing import arguments_of, names_of
from metatensor.program.program import Program
from metatensor.program.sizes.expressions import Size
from metatensor.program.structure import leaves

__all__ = ["contents"]

BACKWARD, GRAD, RANDOM = 1, 2, 4
"""Bit flags of calls."""


class _Table:
    """Assigns numbers to distinct keys in the order of their first use."""

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self._numbers: dict[Hashable, int] = {}

    def number(self, key: Hashable, row: Any = None) -> int:
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self.rows)
            self.rows.append(key if row is None else row)
        return found


def contents(program: Program) -> dict[str, Any]:
    """Return a program, its figures and its groups as JSON types. Sizes are in bytes.

    ``calls`` has for each call a list: operator, module, place, arguments as text, numbers of results, sources of its data
    as pairs of producer and value, numbers of values to which it writes, FLOPs, bytes read, written, allocated and in use
    afterwards, and flags. A producer is the index of a call, or -1 - i for the input i.
    """
    names = names_of(program)
    types, operators, places = _Table(), _Table(), _Table()
    values = {}
    for number, value in program.values.items():
        shape = [str(n) if isinstance(n, Size) else int(n) for n in value.shape]  # named sizes as expressions
        row = [value.dtype.name, shape, prod(map(int, value.shape)) * value.dtype.itemsize]
        values[number] = [names[number], types.number((value.dtype.name, tuple(shape)), row)]
    sources = _Sources(program)
    costs, reason = figures(program)
    calls = []
    for i, (call, arguments, cost) in enumerate(zip(program.calls, arguments_of(program), costs, strict=True)):
        given = leaves(Value, (call.args, call.kwargs))
        made_from = list(dict.fromkeys((source, value.number) for value in given if (source := sources.of(value)) is not None))
        random = next(leaves(Ticket, (call.args, call.kwargs)), None) is not None
        moved = cost.read == cost.written == 0 and not cost.flops
        kind = "view" if cost.flops is not None and moved and not cost.made else kind_of(call.op.name)
        operator, place = operators.number((call.op.name, kind), [call.op.name, kind]), call.place
        calls.append([
            operator, call.module, None if place is None else places.number(place), [text[:300] for text in arguments],
            [value.number for value in leaves(Value, call.result)], made_from,
            [value.number for value in call.writes], *cost, BACKWARD * call.backward | GRAD * call.grad | RANDOM * random,
        ])  # fmt: skip
        sources.after(i, call)
    paths = paths_of(program)
    return {
        "kind": "program", "model": program.name, "calls": calls, "tree": grouped(paths), "values": values, "types": types.rows,
        "operators": operators.rows, "modules": ["" if i == 1 else name for i, name in enumerate(program.modules)],
        "places": [f"{file}:{line}" for file, line in places.rows], "directory": os.getcwd(),
        "source": {f"{file}:{line}": text for file, line in places.rows if (text := linecache.getline(file, line).strip())},
        "inputs": [value.number for value in program.inputs],
        "outputs": [[value.number, sources.of(value)] for value in program.outputs],
        "effects": [[effect.kind, effect.name, effect.value.number, sources.of(effect.value)] for effect in program.effects],
        "held": [[name, program.kinds[name], value.number] for name, value in program.held.items()],
        "phases": list(PHASES) if any(call.backward for call in program.calls) else [], "unknown": reason,
        "reads": [[at, op, value.number] for at, op, value in program.reads],
    }  # fmt: skip


class _Sources:
    """The source of each value's data: the call that returned the value, or a later one that wrote to its storage."""

    def __init__(self, program: Program) -> None:
        self._maker = {value.number: -1 - i for i, value in reversed(list(enumerate(program.inputs)))}
        self._writer: dict[int, int] = {}

    def of(self, value: Value) -> int | None:
        """Return the index of a call, -1 - i for input i, or None for parameters, buffers and constants that nothing has changed."""
        return max((x for x in (self._maker.get(value.number), self._writer.get(value.storage)) if x is not None), default=None)

    def after(self, i: int, call: Any) -> None:
        """Record the values that a call has returned and written."""
        for value in leaves(Value, call.result):
            self._maker[value.number] = i
        for value in call.writes:
            self._writer[value.storage] = i
