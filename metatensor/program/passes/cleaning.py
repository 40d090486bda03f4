"""Passes that remove calls: unused ones, repeated ones, and views and copies that change nothing."""

from __future__ import annotations

from math import prod
from typing import Any

from metatensor._core.capture import Value
from metatensor._core.op import operator_flags
from metatensor.program.passes.rewriting import Rewriter, random, replaced, same_layout, used, written
from metatensor.program.program import Program
from metatensor.program.structure import leaves

__all__ = ["common_subexpressions", "dead_code", "views_and_copies"]


def dead_code(program: Program) -> Program:
    """Return the program without calls whose results are not used.

    A call stays if its result, or a tensor that it writes to, reaches the output, an effect, an argument, a parameter or a
    buffer, or if it returns nothing. The remaining random operators draw the same numbers as before.

    Examples
    --------
    >>> import metatensor as mt
    >>> program = mt.program.trace(lambda x: (x.exp(), x + 1)[1], mt.empty(3, device="meta"))
    >>> [call.op.name for call in mt.program.dead_code(program).calls]
    ['add']
    """
    needed = {value.storage for value in [*program.inputs, *program.held.values(), *(taken for _, taken in replaced(program))]}
    wanted = {value.number for value in [*program.outputs, *(effect.value for effect in program.effects)]}
    needed |= {value.storage for value in program.values.values() if value.number in wanted}
    kept: list[int] = []
    for i in range(len(program.calls) - 1, -1, -1):
        call = program.calls[i]
        results = list(leaves(Value, call.result))
        if results and not any(value.number in wanted for value in results) and not any(v.storage in needed for v in call.writes):
            continue
        kept.append(i)
        for value in [*leaves(Value, (call.args, call.kwargs)), *call.writes]:
            wanted.add(value.number)
            needed.add(value.storage)
    made = Rewriter(program)
    for i in kept[::-1]:
        made.at(i)
        made.keep(program.calls[i])
    return made.finish()


def common_subexpressions(program: Program) -> Program:
    """Return the program with each result computed once, where two calls have the same operator and the same arguments.

    Calls that write, draw random numbers or return views stay. So do calls whose result is written to, returned or left as a
    gradient, and calls that read something written to in between. A reused result lives longer, so the peak memory can
    grow.

    Examples
    --------
    >>> import metatensor as mt
    >>> program = mt.program.trace(lambda x: x.exp() + x.exp(), mt.empty(3, device="meta"))
    >>> [call.op.name for call in mt.program.common_subexpressions(program).calls]
    ['exp', 'add']
    """
    apart = written(program) | {value.storage for value in program.outputs} | {effect.value.storage for effect in program.effects}
    version: dict[int, int] = {}
    first: dict[Any, Any] = {}
    made = Rewriter(program)
    for i, call in enumerate(program.calls):
        made.at(i)
        results = list(leaves(Value, call.result))
        given = [made.value(value) for value in used(call)]
        pure = (not call.writes and results and not random(call) and not call.op.name.startswith(("empty", "new_empty"))
                and not {value.storage for value in results} & ({value.storage for value in used(call)} | apart))  # fmt: skip
        key = (call.op.name, _key(made.mapped(call.args)), _key(sorted(made.mapped(call.kwargs).items())), call.grad, call.backward,
               tuple([version.get(value.storage, 0) for value in given])) if pure else None  # fmt: skip
        for value in call.writes:
            version[value.storage] = version.get(value.storage, 0) + 1
        if key is not None and key in first:
            made.replace(call.result, first[key])
            continue
        result = made.keep(call)
        if key is not None:
            first[key] = result
    return made.finish()


def _key(argument: Any) -> Any:
    """Return an argument in a form that can be compared and hashed; 1, 1.0 and True differ."""
    if isinstance(argument, Value):
        return ("value", argument.number)
    if isinstance(argument, (list, tuple)):
        return tuple([_key(a) for a in argument])
    return (type(argument), repr(argument))


def views_and_copies(program: Program) -> Program:
    """Return the program without views and copies that change nothing.

    A view is removed if it has the layout of its base. A copy is removed if neither the copy nor its source is written to and
    the difference cannot be seen outside: the copy is not returned, and the source does not live longer because of it.

    Examples
    --------
    >>> import metatensor as mt
    >>> program = mt.program.trace(lambda x: x.view(3).clone().exp(), mt.empty(3, device="meta"))
    >>> [call.op.name for call in mt.program.views_and_copies(program).calls]
    ['exp']
    """
    changed, moved = written(program), {value.storage for value, _ in replaced(program)}
    outside = {value.storage for value in [*program.inputs, *program.held.values()]}
    returned = {value.storage for value in [*program.outputs, *(effect.value for effect in program.effects)]}
    trains = any(call.backward for call in program.calls)
    extent: dict[int, int] = {}
    for value in program.values.values():
        extent[value.storage] = max(extent.get(value.storage, 0), _extent(value))
    made = Rewriter(program)
    for i, call in enumerate(program.calls):
        made.at(i)
        given = used(call)
        result = call.result
        if len(given) != 1 or not isinstance(result, Value) or call.writes or result.number == given[0].number:
            made.keep(call)
            continue
        source = given[0]
        grad = call.grad and not trains
        if result.storage == source.storage:
            plain = not grad or call.op.name == "view" or not call.op.flags & operator_flags.NO_GRAD  # view has both kinds
            useless = plain and result.storage not in moved and result.offset == source.offset and same_layout(result, source)
            useless = useless and (result.stride == source.stride or result.storage not in returned)
        else:
            own = made.value(source).storage
            useless = (call.op.name in ("clone", "_to_copy") and result.dtype is source.dtype and result.device == source.device
                       and same_layout(result, source) and result.stride == source.stride and result.offset == source.offset
                       and not {result.storage, own} & changed and result.storage not in returned
                       and (own in outside or extent.get(own, 0) <= _dense(result)))  # fmt: skip
        if useless:
            made.replace(result, made.value(source))
        else:
            made.keep(call)
    return made.finish()


def _extent(value: Value) -> int:
    """Return the number of bytes from the beginning of a storage to the end of a value."""
    if not prod(value.shape):
        return 0
    return (value.offset + sum((n - 1) * stride for n, stride in zip(value.shape, value.stride)) + 1) * value.dtype.itemsize


def _dense(value: Value) -> int:
    return prod(value.shape) * value.dtype.itemsize
