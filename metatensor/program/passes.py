"""Passes: functions from a program to a program that computes the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from metatensor._core.capture import ProgramCall, Ticket, Value
from metatensor.program.program import Effect, Program
from metatensor.program.structure import leaves, mapped

__all__ = ["common_subexpressions", "dead_code"]


def dead_code(program: Program) -> Program:
    """Return the program without calls whose results are not used.

    A call stays if its result, or something that it writes to, reaches the output, an effect, an argument, a parameter or a
    buffer. Random operators keep the numbers that they would draw.

    Examples
    --------
    >>> import metatensor as mt
    >>> program = mt.program.trace(lambda x: (x.exp(), x + 1)[1], mt.empty(3, device="meta"))
    >>> [call.op.name for call in mt.program.dead_code(program).calls]
    ['add']
    """
    needed = {value.storage for value in [*program.inputs, *program.held.values()]}
    wanted = {value.number for value in [*program.outputs, *(effect.value for effect in program.effects)]}
    needed |= {value.storage for value in program.values.values() if value.number in wanted}
    kept: list[int] = []
    for i in range(len(program.calls) - 1, -1, -1):
        call = program.calls[i]
        results = list(leaves(Value, call.result))
        if not any(value.number in wanted for value in results) and not any(value.storage in needed for value in call.writes):
            continue
        kept.append(i)
        for value in [*leaves(Value, (call.args, call.kwargs)), *call.writes]:
            wanted.add(value.number)
            needed.add(value.storage)
    return _with_calls(program, kept[::-1])


def common_subexpressions(program: Program) -> Program:
    """Return the program with each result computed once, where two calls have the same operator and the same arguments.

    Calls that write, draw random numbers or return views stay. So do calls whose result is written to, or that read something
    which is written to in between.

    Examples
    --------
    >>> import metatensor as mt
    >>> program = mt.program.trace(lambda x: x.exp() + x.exp(), mt.empty(3, device="meta"))
    >>> [call.op.name for call in mt.program.common_subexpressions(program).calls]
    ['exp', 'add']
    """
    written = {value.storage for call in program.calls for value in call.writes}
    written |= {value.storage for value in program.outputs}  # whoever gets two results may write to one
    version: dict[int, int] = {}
    first: dict[Any, ProgramCall] = {}
    same: dict[int, Value] = {}
    kept = []
    calls = []
    for i, call in enumerate(program.calls):
        call = _replaced(call, same)
        results = list(leaves(Value, call.result))
        given = list(leaves(Value, (call.args, call.kwargs)))
        pure = (not call.writes and results and next(leaves(Ticket, (call.args, call.kwargs)), None) is None
                and not call.op.name.startswith(("empty", "new_empty"))
                and not {value.storage for value in results} & ({value.storage for value in given} | written))  # fmt: skip
        key = (call.op.name, _key(call.args), _key(sorted(call.kwargs.items())), call.grad,
               tuple([version.get(value.storage, 0) for value in given])) if pure else None  # fmt: skip
        for value in call.writes:
            version[value.storage] = version.get(value.storage, 0) + 1
        if key is not None and key in first:
            for mine, other in zip(results, leaves(Value, first[key].result)):
                same[mine.number] = other
            continue
        if key is not None:
            first[key] = call
        kept.append(i)
        calls.append(call)
    effects = [Effect(kind, name, same.get(value.number, value)) for kind, name, value in program.effects]
    made = _with_calls(program.replace(effects=effects), kept)
    return made.replace(calls=calls, releases=_later(program, made, calls, kept))


def _key(argument: Any) -> Any:
    """Return an argument in a form that can be compared and hashed; 1, 1.0 and True differ."""
    if isinstance(argument, Value):
        return ("value", argument.number)
    if isinstance(argument, (list, tuple)):
        return tuple([_key(a) for a in argument])
    return (type(argument), repr(argument))


def _replaced(call: ProgramCall, same: dict[int, Value]) -> ProgramCall:
    if not same or not any(value.number in same for value in leaves(Value, (call.args, call.kwargs))):
        return call
    args, kwargs = mapped(lambda value: same.get(value.number, value), Value, (call.args, call.kwargs))
    return ProgramCall(call.op, args, kwargs, call.result, call.writes, call.grad, call.backward, call.module, call.first, call.last)


def _with_calls(program: Program, kept: list[int]) -> Program:
    """Return a program with some of the calls, and the releases moved to those before."""
    releases: dict[int, tuple[int, ...]] = {}
    place = dict(_before(kept, len(program.calls)))
    for at, storages in program.releases.items():
        releases[place[at]] = (*releases.get(place[at], ()), *storages)
    made = {value.storage for i in kept for value in leaves(Value, program.calls[i].result)}
    return program.replace(calls=[program.calls[i] for i in kept],
                           releases={at: tuple(s for s in storages if s in made) for at, storages in releases.items()})  # fmt: skip


def _before(kept: list[int], count: int) -> Iterator[tuple[int, int]]:
    """Yield for each index the position in `kept` of the last one that is not greater, at least 0."""
    position = 0
    for i in range(count):
        while position + 1 < len(kept) and kept[position + 1] <= i:
            position += 1
        yield i, position


def _later(program: Program, made: Program, calls: list[ProgramCall], kept: list[int]) -> dict[int, tuple[int, ...]]:
    """Return the releases, none of which comes before the last use of the storage."""
    last: dict[int, int] = {}
    for i, call in enumerate(calls):
        for value in leaves(Value, (call.args, call.kwargs)):
            last[value.storage] = i
    found: dict[int, list[int]] = {}
    for at, storages in made.releases.items():
        for s in storages:
            found.setdefault(max(at, last.get(s, at)), []).append(s)
    return {at: tuple(storages) for at, storages in sorted(found.items())}
