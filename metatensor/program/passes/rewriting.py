"""Shared by passes: `Rewriter` builds the calls of a new program, `released` finds when its storages are released."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import metatensor as mt
from metatensor._core.capture import ProgramCall, Ticket, Value
from metatensor._core.device import Device
from metatensor._core.dtype import DType
from metatensor._core.op import Op, operator_flags
from metatensor._core.tensor import Tensor
from metatensor.program.program import Effect, Program
from metatensor.program.structure import leaves, mapped

__all__ = ["Rewriter", "random", "released", "replaced", "same_layout", "used", "written"]

_WHOLE = 1 << 50
"""Bytes of the storages on meta that replace those of a program: enough for any layout."""


def used(call: ProgramCall) -> list[Value]:
    """Return the values among the arguments of a call."""
    return list(leaves(Value, (call.args, call.kwargs)))


def written(program: Program) -> set[int]:
    """Return the storages to which the calls of a program write, and those that become the memory of another tensor."""
    return {value.storage for call in program.calls for value in call.writes} | {taken.storage for _, taken in replaced(program)}


def replaced(program: Program) -> list[tuple[Value, Value]]:
    """Return for each call that gives a tensor other memory or another layout (``set_``, ``.data = ...``, ``resize_``): the value before
    and after it."""
    return [(call.writes[0], call.result) for call in program.calls
            if call.writes and call.op.flags & operator_flags.HOST and isinstance(call.result, Value)
            and call.result.number != call.writes[0].number]  # fmt: skip


def random(call: ProgramCall) -> bool:
    """Return True if a call draws random numbers."""
    return next(leaves(Ticket, (call.args, call.kwargs)), None) is not None


def same_layout(one: Value, other: Value) -> bool:
    """Return True if two values have the same sizes, strides, dtype and lazy bits, wherever they begin."""
    return (one.shape == other.shape and one.dtype is other.dtype and (one.conj, one.neg) == (other.conj, other.neg)
            and all(a == b for n, a, b in zip(one.shape, one.stride, other.stride) if n > 1))  # fmt: skip


def released(calls: Iterable[ProgramCall]) -> dict[int, tuple[int, ...]]:
    """Return the storages whose last use is in each call, by the index of the call.

    Those of arguments, parameters and results are among them. A run does not release these.
    """
    last: dict[int, int] = {}
    for i, call in enumerate(calls):
        for value in (*used(call), *leaves(Value, call.result)):
            last[value.storage] = i
    found: dict[int, list[int]] = {}
    for storage, i in last.items():
        found.setdefault(i, []).append(storage)
    return {i: tuple(sorted(storages)) for i, storages in sorted(found.items())}


class Rewriter:
    """Builds a new program from the calls of another, one after the other.

    `keep` copies a call. `emit` adds a new call and returns its results, whose metadata comes from running it on meta. `replace`
    substitutes one value for another from then on. If the layout of an argument has changed, a copied call gets new
    metadata too. `finish` returns the program.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.calls: list[ProgramCall] = []
        self.held, self.kinds, self.tensors = dict(program.held), dict(program.kinds), dict(program.tensors)
        self.same: dict[int, Value] = {}
        self._places: list[int] = []
        values = program.values
        self._number = max(values, default=-1) + 1
        self._storage = max((value.storage for value in values.values()), default=-1) + 1

    def value(self, value: Value) -> Value:
        """Return the new value for a value of the old program."""
        return self.same.get(value.number, value)

    def mapped(self, nested: Any) -> Any:
        """Return nested arguments with their values replaced by the new ones."""
        return mapped(self.value, Value, nested)

    def replace(self, old: Any, new: Any) -> None:
        """Use the values in `new` instead of those in `old`. Both can be nested."""
        for one, other in zip(leaves(Value, old), leaves(Value, new), strict=True):
            self.same[one.number] = other

    def at(self, index: int) -> None:
        """Attribute the calls that follow to the old call with this index."""
        while len(self._places) <= index:
            self._places.append(len(self.calls))

    def keep(self, call: ProgramCall, **changes: Any) -> Any:
        """Copy a call, with changed attributes if given. Return its results."""
        if changes:
            call = call.replace(**changes)
        args, kwargs = self.mapped((call.args, call.kwargs))
        before = used(call)
        after = list(leaves(Value, (args, kwargs)))
        if all(a is b for a, b in zip(before, after)):
            self.calls.append(call)
            return call.result
        moved = [(a, b) for a, b in zip(before, after) if a is not b]
        writes = [self.value(value) for value in call.writes]
        elsewhere = {a.storage for a, b in moved if a.storage != b.storage} & {v.storage for v in leaves(Value, call.result)}
        if not elsewhere and all(a.offset == b.offset and same_layout(a, b) for a, b in moved):
            self.calls.append(call.replace(args=args, kwargs=kwargs, writes=writes))
            return call.result
        device = next((v.device for v in leaves(Value, call.result)), None)
        result = self.emit(call.op, args, kwargs, like=call, writes=writes, device=device)
        self.replace(call.result, result)
        return result

    # New values -----------------------------------------------------------------------------------------

    def new_value(self, t: Tensor, storage: int, device: Device, requires_grad: bool = False) -> Value:
        """Return a value with the layout of a tensor."""
        self._number += 1
        conj, neg = t.is_conj(), t.is_neg()
        return Value(self._number - 1, storage, t.storage_offset(), t.shape, t.stride(), t.dtype, device, conj, neg, requires_grad)

    def like(self, value: Value, dtype: DType, storage: int) -> Value:
        """Return a value with the layout of another, but another dtype and storage."""
        self._number += 1
        return Value(self._number - 1, storage, value.offset, value.shape, value.stride, dtype, value.device, value.conj, value.neg,
                     value.requires_grad)  # fmt: skip

    def new_storage(self) -> int:
        """Return the number of a new storage."""
        self._storage += 1
        return self._storage - 1

    def hold(self, name: str, tensor: Tensor, kind: str = "constant") -> Value:
        """Add a tensor to those that the program holds. If the name is taken, a number is appended."""
        wish, n = name, 1
        while name in self.held or name in self.program.tied:
            name, n = f"{wish}_{n}", n + 1
        value = self.new_value(tensor, self.new_storage(), tensor.device, tensor.requires_grad)
        self.held[name], self.kinds[name], self.tensors[name] = value, kind, tensor
        return value

    def release(self, name: str) -> None:
        """Remove a tensor from those that the program holds."""
        del self.held[name], self.kinds[name], self.tensors[name]

    def emit(self, op: Op, args: Any, kwargs: dict[str, Any], *, like: ProgramCall, writes: Iterable[Value] = (),
             device: Device | None = None) -> Any:  # fmt: skip
        """Add a call in place of `like`, and return its results. The arguments contain values of the new program.

        Results of calls without tensor arguments are on `device`, which also replaces meta devices in the arguments.
        """
        writes = tuple(writes)
        storages: dict[Any, int] = {}
        bases: dict[int, Tensor] = {}
        made: dict[int, Tensor] = {}
        known: dict[int, Value] = {}

        def tensor(value: Value) -> Tensor:
            if value.number not in made:
                if value.storage not in bases:
                    bases[value.storage] = mt.empty(_WHOLE, dtype=mt.uint8, device="meta")
                    storages[bases[value.storage].untyped_storage()] = value.storage
                t = bases[value.storage].view(value.dtype).as_strided(value.shape, value.stride, value.offset)
                t = t.conj() if value.conj else t
                made[value.number] = t = t._neg_view() if value.neg else t
                known[id(t)] = value
            return made[value.number]

        def given(argument: Any) -> Any:
            if isinstance(argument, Value):
                return tensor(argument)
            if isinstance(argument, Device):
                return mt.device("meta")
            if isinstance(argument, Ticket):
                return (0, argument.number)
            if type(argument) in (list, tuple):
                return type(argument)([given(a) for a in argument])
            return argument

        if device is None:
            device = next((v.device for v in leaves(Value, (args, kwargs))), mt.device("meta"))
        real = next((a for a in [*args, *kwargs.values()] if isinstance(a, Device) and a.type != "meta"), device)
        with mt.no_grad():
            result = op(*[given(a) for a in args], **{key: given(a) for key, a in kwargs.items()})

        def value_of(t: Tensor) -> Value:
            value = known.get(id(t))
            if value is not None and tuple(t.shape) == value.shape and t.stride() == value.stride and t.storage_offset() == value.offset:
                return value
            place = t.untyped_storage()
            if place not in storages:
                storages[place] = self.new_storage()
            return self.new_value(t, storages[place], real)

        values = mapped(value_of, Tensor, result) if result is not None else None
        if device.type != "meta":
            args, kwargs = mapped(lambda d: device if d.type == "meta" else d, Device, (tuple(args), kwargs))
        self.calls.append(like.replace(op=op, args=args, kwargs=kwargs, result=values, writes=writes))
        return values

    def inline(self, function: Callable[..., Any], arguments: Any, like: ProgramCall, device: Device) -> Any:
        """Run a function on values, add the calls that it makes, and return its results as values."""
        values: dict[int, Value] = {value.number: value for value in leaves(Value, arguments)}
        bases = {value.storage: mt.empty(_WHOLE, dtype=mt.uint8, device="meta") for value in values.values()}
        given = {}
        for number, value in values.items():
            t = bases[value.storage].view(value.dtype).as_strided(value.shape, value.stride, value.offset)
            t = t.conj() if value.conj else t
            given[number] = t._neg_view() if value.neg else t
        with mt.no_grad():
            traced = mt.program.trace(lambda tensors: function(*mapped(lambda v: tensors[v.number], Value, arguments)), given)
        inner = {v.number: values[number] for number, v in traced.arguments[0][0].items()}
        for name, v in traced.held.items():
            inner[v.number] = self.hold(name, traced.tensors[name])
        for call in traced.calls:
            args, kwargs = mapped(lambda v: inner[v.number], Value, (call.args, call.kwargs))
            results = self.emit(call.op, args, kwargs, like=like, writes=[inner[v.number] for v in call.writes], device=device)
            for one, other in zip(leaves(Value, call.result), leaves(Value, results), strict=True):
                inner[one.number] = other
        return mapped(lambda v: inner[v.number], Value, traced.output)

    def finish(self, **changes: Any) -> Program:
        """Return the program."""
        self.at(len(self.program.calls))
        reads = [(self._places[at], op, self.value(value)) for at, op, value in self.program.reads]
        there = {value.number for call in self.calls for value in leaves(Value, call.result)}
        there |= {value.number for value in [*self.program.inputs, *self.held.values()]}
        found = {"calls": self.calls, "held": self.held, "kinds": self.kinds, "tensors": self.tensors, "releases": released(self.calls),
                 "output": self.mapped(self.program.output),
                 "effects": [Effect(kind, name, self.value(value)) for kind, name, value in self.program.effects],
                 "reads": [read for read in reads if read[2].number in there]}  # fmt: skip
        return self.program.replace(**{**found, **changes})
