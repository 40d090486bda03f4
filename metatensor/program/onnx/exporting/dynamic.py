"""Sizes with names: which numbers of a program depend on them, found by comparing traces at several sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations_with_replacement
from typing import Any

from metatensor._core.capture import ProgramCall, Value
from metatensor.program.onnx.exporting.errors import ExportError
from metatensor.program.onnx.exporting.graph import Size
from metatensor.program.program import Program

__all__ = ["axes_of", "named"]

Axes = dict[int, dict[int, str]]
"""For each input, by index, the names of its dimensions."""


def axes_of(dynamic: Mapping[Any, Any] | None, names: Sequence[str], inputs: Sequence[Value]) -> Axes:
    """Return the named dimensions of inputs. `dynamic` maps names of inputs to dicts from dimension to name, or to lists of dimensions."""
    found: Axes = {}
    for name, wanted in (dynamic or {}).items():
        if name not in names:
            raise ValueError(f"dynamic: there is no input named {name!r}; the inputs are {', '.join(map(repr, names))}")
        i = list(names).index(name)
        rank = len(inputs[i].shape)
        pairs = wanted.items() if isinstance(wanted, Mapping) else [(axis, f"{name}_{axis}") for axis in wanted]
        for axis, size in pairs:
            if not -rank <= axis < rank:
                raise ValueError(f"dynamic: input {name!r} has {rank} dimensions, and no dimension {axis}")
            found.setdefault(i, {})[axis % rank] = str(size)
    return found


def named(programs: Sequence[Program], axes: Axes) -> list[Program]:
    """Return the programs with a `Size` for each number that differs between them."""
    first = programs[0]
    for other in programs[1:]:
        _alike(first, other)
    values: list[dict[str, int]] = []
    for program in programs:
        sizes: dict[str, int] = {}
        for i, dims in axes.items():
            for axis, name in dims.items():
                n = program.inputs[i].shape[axis]
                if sizes.setdefault(name, n) != n:
                    raise ExportError(f"{first.name}: dimension {axis} of input {i} is named {name!r} and has size {n}, where another "
                                      f"dimension of that name has size {sizes[name]}")  # fmt: skip
        values.append(sizes)
    if len(programs) <= len(values[0]):
        raise ExportError(f"{first.name}: {len(values[0])} names of sizes need {len(values[0])} traces at other sizes at least, "
                          f"got {len(programs) - 1}")  # fmt: skip
    for name in values[0]:
        if len({v[name] for v in values}) < 2:
            raise ExportError(f"{first.name}: no trace has another size {name!r} than {values[0][name]}; give traces at several sizes")
    for i, inputs in enumerate(zip(*(program.inputs for program in programs))):
        for axis, sizes_of in enumerate(zip(*(value.shape for value in inputs))):
            if len(set(sizes_of)) > 1 and axis not in axes.get(i, {}):
                raise ExportError(f"{first.name}: dimension {axis} of input {i} has the sizes {sorted(set(sizes_of))} in the traces, "
                                  "and no name in dynamic")  # fmt: skip
    return _Naming(programs, values).run()


def _alike(first: Program, other: Program) -> None:
    if len(first.inputs) != len(other.inputs) or any(len(a.shape) != len(b.shape) for a, b in zip(first.inputs, other.inputs)):
        raise ExportError(f"{first.name}: the traces have other inputs")
    depends = f"{first.name}: what is called depends on the sizes"
    for one, two in zip(first.calls, other.calls):
        if one.op is not two.op:
            place = "" if one.place is None else f" at {one.place[0]}:{one.place[1]}"
            raise ExportError(f"{depends}: {one.op.name} in one trace, {two.op.name} in another{place}")
    if len(first.calls) != len(other.calls) or list(first.held) != list(other.held):
        raise ExportError(f"{depends}: the traces have {len(first.calls)} and {len(other.calls)} calls")


class _Naming:
    def __init__(self, programs: Sequence[Program], values: list[dict[str, int]]) -> None:
        self.programs, self.values = programs, values
        self.known: dict[tuple[int, ...], tuple[Any, ...] | None] = {}
        names = sorted(values[0])
        products = [(), *((n,) for n in names), *combinations_with_replacement(names, 2)]
        self.bases = [tuple(p) for p in products]
        self.made: list[dict[int, Value]] = [{} for _ in programs]

    def run(self) -> list[Program]:
        nested = self.together([[list(p.arguments), p.output, p.held, [self.call(c) for c in p.calls]] for p in self.programs])
        found = []
        for program, (arguments, output, held, calls) in zip(self.programs, nested):
            rows = [c.replace(args=args, kwargs=kwargs, result=result, writes=writes)
                    for c, (args, kwargs, result, writes) in zip(program.calls, calls)]  # fmt: skip
            found.append(program.replace(arguments=tuple(arguments), output=output, held=held, calls=rows))
        return found

    def call(self, call: ProgramCall) -> list[Any]:
        return [call.args, call.kwargs, call.result, call.writes]

    def together(self, items: Sequence[Any]) -> list[Any]:
        """Return corresponding parts of the programs with sizes in place of numbers that differ."""
        one = items[0]
        if type(one) is int:
            if any(type(item) is not int for item in items):
                return list(items)
            terms = self.terms(tuple(items)) if len(set(items)) > 1 else None
            return list(items) if len(set(items)) == 1 else [Size(n, terms) for n in items]
        if isinstance(one, Value):
            return self.value(items)
        if isinstance(one, dict) and all(isinstance(item, dict) and len(item) == len(one) for item in items):
            columns = [self.together(column) for column in zip(*(item.values() for item in items))]
            return [dict(zip(item, row)) for item, row in zip(items, zip(*columns))] if one else list(items)
        if isinstance(one, (list, tuple)) and all(isinstance(item, (list, tuple)) and len(item) == len(one) for item in items):
            rows = list(zip(*(self.together(column) for column in zip(*items)))) if one else [() for _ in items]
            return [list(row) if isinstance(one, list) else tuple(row) for row in rows]
        return list(items)

    def value(self, items: Sequence[Any]) -> list[Any]:
        if any(not isinstance(item, Value) for item in items):
            raise ExportError(f"{self.programs[0].name}: the traces differ in more than numbers")
        if all(item.number in made for item, made in zip(items, self.made)):
            return [made[item.number] for item, made in zip(items, self.made)]
        if len({len(item.shape) for item in items}) > 1:
            raise ExportError(f"{self.programs[0].name}: the number of dimensions of a value depends on the sizes")
        shapes = self.together([item.shape for item in items])
        found = []
        for item, shape, made in zip(items, shapes, self.made):
            value = Value(item.number, item.storage, item.offset, shape, item.stride, item.dtype, item.device, item.conj, item.neg,
                          item.requires_grad)  # fmt: skip
            made[item.number] = value
            found.append(value)
        return found

    def terms(self, numbers: tuple[int, ...]) -> tuple[Any, ...] | None:
        """Return products of names, with factors, whose sum is the number in every trace; None if none was found."""
        if numbers not in self.known:
            self.known[numbers] = self.fitted(numbers)
        return self.known[numbers]

    def fitted(self, numbers: tuple[int, ...]) -> tuple[Any, ...] | None:
        """Return the one expression that gives the numbers; None if there is none, or more than one."""
        found: set[tuple[Any, ...]] = set()
        for base in self.bases[1:]:
            column = [self.product(base, sizes) for sizes in self.values]
            factor, rest = divmod(numbers[0], column[0]) if column[0] else (0, 0)
            if factor and not rest and all(n == factor * c for n, c in zip(numbers, column)):
                found.add(((base, factor),))
            elif len(set(column)) > 2:  # two points prove nothing about a multiple and a constant
                step, number = next((c - column[0], n - numbers[0]) for c, n in zip(column, numbers) if c != column[0])
                factor, rest = divmod(number, step)
                constant = numbers[0] - factor * column[0]
                if factor and not rest and all(n == factor * c + constant for n, c in zip(numbers, column)):
                    found.add(((base, factor), ((), constant)))
        return found.pop() if len(found) == 1 else None

    def product(self, base: tuple[str, ...], sizes: dict[str, int]) -> int:
        found = 1
        for name in base:
            found *= sizes[name]
        return found
