"""Separation of the numbers in a program from the rest: runs that differ only in numbers have the same calls."""

from __future__ import annotations

import copy
import dataclasses
from array import array
from collections.abc import Callable
from operator import index
from typing import Any, NamedTuple

import metatensor as mt
from metatensor._core.capture import ProgramCall, Ticket, Value
from metatensor.program.program import Effect, Program
from metatensor.program.structure import _opens, leaves

__all__ = ["Taken", "filled", "first_difference", "owner", "taken"]

_LONGEST = 1024
"""Maximum bytes of a host tensor whose elements count as numbers of the program."""
_CODES = {mt.int64: "q", mt.int32: "i", mt.int16: "h", mt.int8: "b", mt.uint8: "B"}

Take = Callable[[], Any]


class Taken(NamedTuple):
    """A program with its numbers separated from the rest."""

    program: Program
    head: Any
    """Everything but numbers, values and calls."""
    values: list[Any]
    """For each value, everything but its numbers."""
    rows: list[Any]
    """For each call, everything but its numbers."""
    numbers: list[Any]
    """Offsets, sizes and strides of the values, and numbers among arguments: ints, floats and bytes."""

    def same_calls(self, other: Taken) -> bool:
        """Return True if two programs differ only in numbers."""
        if self.rows is other.rows:
            return True
        return (len(self.numbers) == len(other.numbers) and self.head == other.head and self.rows == other.rows
                and self.values == other.values)  # fmt: skip


def taken(program: Program) -> Taken:
    """Separate the numbers of a program from the rest."""
    numbers: list[Any] = []
    values = []
    for _, value in sorted(program.values.items()):
        numbers.append(value.offset)
        numbers += value.shape
        numbers += value.stride
        values.append((value.number, value.storage, len(value.shape), value.dtype, value.device, value.conj, value.neg,
                       value.requires_grad))  # fmt: skip
    rows = [
        (call.op.name, _opened(call, numbers) or _apart(call.args, numbers), _apart(call.kwargs, numbers), _apart(call.result, numbers),
         [value.number for value in call.writes], call.grad, call.backward, call.module)
        for call in program.calls
    ]  # fmt: skip
    head = [
        _apart(program.arguments, numbers), _apart(program.output, numbers), {name: v.number for name, v in program.held.items()},
        program.kinds, program.tied, [(e.kind, e.name, e.value.number) for e in program.effects], program.releases, program.modules,
        [(at, op, value.number) for at, op, value in program.reads],
    ]  # fmt: skip
    return Taken(program, head, values, rows, numbers)


def _opened(call: ProgramCall, numbers: list[Any]) -> Any:
    """Separate the ints of a call that creates a tensor from host data: each is a number. Return None for other calls."""
    if call.op.name != "_from_host" or len(call.args) < 4 or not isinstance(call.args[0], bytes):
        return None
    code: Any = _CODES.get(call.args[3])
    if code is None or len(call.args[0]) > _LONGEST or len(call.args[0]) % call.args[3].itemsize:
        return None
    content = memoryview(call.args[0]).cast(code).tolist()
    numbers += content
    return len(content), _apart(call.args[1:], numbers)


def _packed(call: ProgramCall, take: Take, made: dict[int, Value]) -> Any:
    """Undo `_opened` with other numbers. Return None for other calls."""
    if _opened(call, []) is None:
        return None
    dtype = call.args[3]
    content = array(_CODES[dtype], [take() for _ in range(len(call.args[0]) // dtype.itemsize)]).tobytes()
    return (content, *_together(call.args[1:], take, made))


def _apart(value: Any, numbers: list[Any]) -> Any:
    """Return a nested structure without its numbers, which are appended to `numbers`."""
    kind = type(value)
    if kind is Value:
        return value.number
    if kind is int or kind is float or kind is bytes:
        numbers.append(value)
        return kind
    if value is None or kind is bool or kind is str:
        return value
    if kind is tuple or kind is list:
        return kind, [_apart(item, numbers) for item in value]
    if isinstance(value, Ticket):
        return "ticket", id(value.generator), value.number
    if kind is dict or isinstance(value, dict) and not dataclasses.is_dataclass(value):
        return kind, [(key, _apart(item, numbers)) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return kind, [_apart(item, numbers) for item in value]
    if isinstance(value, float):  # NumPy's
        numbers.append(float(value))
        return float
    if isinstance(value, int) or hasattr(value, "__index__"):
        numbers.append(index(value))
        return int
    members = _members(value)
    if members is not None:
        return kind, [(key, _apart(item, numbers)) for key, item in members.items()]
    try:
        hash(value)
    except TypeError:
        return kind, id(value)
    return value


def _members(value: Any) -> dict[str, Any] | None:
    """Return the attributes of an object that contains values, or None."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return vars(value) if _opens(value) and next(leaves(Value, value), None) is not None else None


def filled(program: Program, numbers: list[Any]) -> Program:
    """Return a program with other numbers, in the order of `taken`."""
    following = iter(numbers)
    take = following.__next__
    made: dict[int, Value] = {}
    for number, v in sorted(program.values.items()):
        offset, ndim = take(), len(v.shape)
        shape = tuple([take() for _ in range(ndim)])
        stride = tuple([take() for _ in range(ndim)])
        made[number] = Value(number, v.storage, offset, shape, stride, v.dtype, v.device, v.conj, v.neg, v.requires_grad)
    calls: list[ProgramCall] = []
    for call in program.calls:
        calls.append(call.replace(
            args=_packed(call, take, made) or _together(call.args, take, made),
            kwargs=_together(call.kwargs, take, made), result=_together(call.result, take, made),
            writes=[made[value.number] for value in call.writes],
        ))  # fmt: skip
    found = program.replace(
        arguments=_together(program.arguments, take, made), output=_together(program.output, take, made), calls=calls,
        held={name: made[value.number] for name, value in program.held.items()},
        effects=[Effect(e.kind, e.name, made[e.value.number]) for e in program.effects],
        reads=[(at, op, made.get(value.number, value)) for at, op, value in program.reads],
    )  # fmt: skip
    found._uncounted = program._uncounted
    found._plan = program._plan
    return found


def _together(value: Any, take: Take, made: dict[int, Value]) -> Any:
    """Return a nested structure with other numbers and values."""
    kind = type(value)
    if kind is Value:
        return made[value.number]
    if value is None or kind is bool or kind is str:
        return value
    if kind is int or kind is float or kind is bytes:
        return take()
    if isinstance(value, Ticket):
        return value
    if isinstance(value, dict) and not dataclasses.is_dataclass(value):
        new = copy.copy(value)
        for key, item in value.items():
            new[key] = _together(item, take, made)
        return new
    if isinstance(value, (list, tuple)):
        items = [_together(item, take, made) for item in value]
        if kind is mt.Size:
            return tuple.__new__(kind, items)  # the items may be ints with expressions
        return kind(*items) if hasattr(value, "_fields") else kind(items)
    if isinstance(value, (int, float)) or hasattr(value, "__index__"):
        return take()
    members = _members(value)
    if members is None:
        return value
    new = copy.copy(value)
    for key, item in members.items():
        now = _together(item, take, made)
        object.__setattr__(new, key, now)
        if isinstance(new, dict) and key in new:
            dict.__setitem__(new, key, now)
    return new


# For messages ------------------------------------------------------------------------------------------------


def owner(program: Program, position: int) -> str:
    """Describe the number of a program at a position, for messages."""
    at = 0
    made = {value.number: (i, call) for i, call in enumerate(program.calls) for value in leaves(Value, call.result)}
    for number, value in sorted(program.values.items()):
        width = 1 + 2 * len(value.shape)
        if position < at + width:
            part = "the offset" if position == at else f"size {position - at - 1}" if position <= at + len(value.shape) else (
                f"stride {position - at - 1 - len(value.shape)}")  # fmt: skip
            what = f"the result of {describe(*made[number])}" if number in made else "an argument, parameter or constant"
            return f"{part} of {what}"
        at += width
    for i, call in enumerate(program.calls):
        numbers: list[Any] = []
        if not _opened(call, numbers):
            _apart(call.args, numbers)
        _apart((call.kwargs, call.result), numbers)
        if position < at + len(numbers):
            return f"a number given to {describe(i, call)}"
        at += len(numbers)
    return "a number in the arguments or the output"


def describe(i: int, call: ProgramCall) -> str:
    """Return the index, the operator and the source line of a call."""
    return f"call {i} ({call.op.name}{'' if call.place is None else f', {call.place[0]}:{call.place[1]}'})"


def first_difference(a: Taken, b: Taken) -> str:
    """Return the first difference between the calls of two programs."""
    for i, (one, other) in enumerate(zip(a.rows, b.rows)):
        if one != other:
            same = a.program.calls[i].op is b.program.calls[i].op
            rest = " with other arguments" if same else f" and {describe(i, b.program.calls[i])}"
            return f"{describe(i, a.program.calls[i])}{rest}"
    if len(a.rows) != len(b.rows):
        longer = a if len(a.rows) > len(b.rows) else b
        i = min(len(a.rows), len(b.rows))
        return f"{describe(i, longer.program.calls[i])}, which only one has"
    if a.values != b.values:
        return "the dtypes, devices or sharing of memory of values"
    names = ("the arguments", "the output", "parameters, buffers and constants", "their kinds", "tied names", "effects", "releases",
             "modules", "numbers that were read")  # fmt: skip
    return next((what for what, one, other in zip(names, a.head, b.head) if one != other), "the numbers")
