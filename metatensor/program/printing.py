"""Programs as text: Python source that runs, and a listing to read."""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Iterator
from functools import cache
from operator import index
from typing import Any

import metatensor as mt
from metatensor._core.capture import ProgramCall, Ticket, Value
from metatensor._core.device import Device
from metatensor._core.dtype import DType
from metatensor._core.formats import LayoutTag, MemoryFormatTag
from metatensor._core.op import Op
from metatensor.program.argument_names import names_of_positional
from metatensor.program.program import Program
from metatensor.program.running import uncounted_writes
from metatensor.program.sizes.expressions import MATH, RealSize, Size, python
from metatensor.program.structure import leaves

__all__ = ["arguments_of", "code", "names_of", "text"]

_RESERVED = ("forward", "mt", "op", "tensors", "ticket", "Tickets", "ValueError", "float", "int", "max", "min", "round", *MATH)
"""Names that the source uses itself."""


def names_of(program: Program) -> dict[int, str]:
    """Return a Python name for each value, by number: inputs are named after the arguments, parameters after their paths."""
    found: dict[int, str] = {}
    taken = {*_RESERVED, *keyword.kwlist, *getattr(program, "sizes", ())}

    def name(value: Value, wish: str) -> None:
        if value.number in found:
            return
        wish = re.sub(r"\W", "_", wish).strip("_") or "value"
        wish = f"p_{wish}" if wish[0].isdigit() else wish
        made, n = wish, 1
        while made in taken:
            made, n = f"{wish}_{n}", n + 1
        taken.add(made)
        found[value.number] = made

    args, kwargs = program.arguments
    for wish, argument in zip(names_of_positional(program), args):
        for value in leaves(Value, argument):
            name(value, wish)
    for key, argument in kwargs.items():
        for value in leaves(Value, argument):
            name(value, str(key))
    for path, value in program.held.items():
        name(value, path)
    for call in program.calls:
        for value in leaves(Value, call.result):
            name(value, f"v{value.number}")
    return found


# Python source -------------------------------------------------------------------------------------------


@cache
def _public(op: Op) -> str | None:
    """Return the name of an operator as a function, such as ``mt.nn.functional.relu``, or None if it is not public."""
    found: Any = mt
    for part in op.name.split("."):
        found = getattr(found, part, None)
    return f"mt.{op.name}" if found is op and not any(part.startswith("_") for part in op.name.split(".")) else None


class _Writer:
    def __init__(self, program: Program) -> None:
        self.program, self.names = program, names_of(program)
        self.tickets = False
        self.devices: dict[Device, str] = {}

    def value(self, argument: Any) -> str:
        """Return an argument as an expression."""
        if isinstance(argument, Value):
            return self.names[argument.number]
        if isinstance(argument, (list, tuple)):
            inner = ", ".join(self.value(a) for a in argument)
            if isinstance(argument, list):
                return f"[{inner}]"
            return f"({inner},)" if len(argument) == 1 else f"({inner})"
        if isinstance(argument, (Size, RealSize)):
            return python(argument.expression)
        if isinstance(argument, Ticket):
            self.tickets = True
            return f"ticket({argument.number})"
        if isinstance(argument, Device):
            return self.devices.get(argument) or f'mt.device("{argument}")'
        if isinstance(argument, DType):
            return f"mt.{argument.name}"
        if isinstance(argument, float) and not math.isfinite(argument):
            return f'float("{argument}")'
        if isinstance(argument, float):  # also NumPy's
            return repr(float(argument))
        if isinstance(argument, (bool, int, complex, str, bytes, type(None))):
            return repr(argument)
        if isinstance(argument, dict):
            return "{" + ", ".join(f"{self.value(key)}: {self.value(item)}" for key, item in argument.items()) + "}"
        if isinstance(argument, (MemoryFormatTag, LayoutTag)):
            return "mt." + repr(argument).rpartition(".")[2]
        if hasattr(argument, "__index__"):
            return repr(index(argument))
        shown = repr(argument)
        raise TypeError(f"{self.program.name}: there is no source for an argument of class {type(argument).__name__}: {shown[:80]}")

    def call(self, call: ProgramCall) -> str:
        """Return a call as an expression."""
        public = _public(call.op)
        arguments = [self.value(a) for a in call.args] + [f"{key}={self.value(a)}" for key, a in call.kwargs.items()]
        if public is None:
            public = f'op("{call.op.name}")'
        return f"{public}({', '.join(arguments)})"

    def target(self, result: Any) -> str:
        if isinstance(result, Value):
            return self.names[result.number]
        if result is None or not result:
            return "_"
        inner = ", ".join(self.target(r) for r in result)
        return f"({inner},)" if len(result) == 1 else f"({inner})"

    def output(self, output: Any) -> str:
        """Return the result as an expression. Objects with tensors become dicts; other objects become their class names."""
        if isinstance(output, dict):
            return "{" + ", ".join(f"{self.output(key)}: {self.output(item)}" for key, item in output.items()) + "}"
        if isinstance(output, (list, tuple)):
            inner = ", ".join(self.output(item) for item in output)
            return f"[{inner}]" if isinstance(output, list) else f"({inner},)" if len(output) == 1 else f"({inner})"
        try:
            return self.value(output)
        except TypeError:
            if next(leaves(Value, output), None) is None:
                return repr(f"<{type(output).__name__}>")
        return "{" + ", ".join(f"{key!r}: {self.output(item)}" for key, item in vars(output).items()) + "}"


def code(program: Program) -> str:
    """Return the source of a function that is equivalent to a program. See `Program.code`."""
    writer = _Writer(program)
    lines, names, uncounted = [], writer.names, uncounted_writes(program)
    for path, value in program.held.items():
        lines.append(f"{names[value.number]} = tensors[{path!r}]")
    for value in [*program.inputs, *program.held.values()]:  # as in a run, tensors are created where these are
        writer.devices.setdefault(value.device, f"{names[value.number]}.device")
    module, grad = 0, None
    trains = any(call.backward for call in program.calls)
    kept = {value.storage for value in [*program.inputs, *program.outputs, *program.held.values(), *(e.value for e in program.effects)]}
    by_storage: dict[int, list[str]] = {}
    for value in program.values.values():
        by_storage.setdefault(value.storage, []).append(names[value.number])
    body: list[tuple[bool, str]] = []
    for i, call in enumerate(program.calls):
        if call.module != module:
            module = call.module
            body.append((call.grad and not trains, f"# {program.modules[module]}" if program.modules[module] else "#"))
        if i in uncounted:  # autograd does not see this write
            line = f"{names[call.args[0].number]}.data.copy_({writer.value(call.args[1])})"
        else:
            line = f"{writer.target(call.result)} = {writer.call(call)}"
        body.append((call.grad and not trains, line))
        dead = sorted(name for s in program.releases.get(i, ()) if s not in kept for name in by_storage.get(s, ()))
        if dead and i != len(program.calls) - 1:
            body.append((call.grad and not trains, f"del {', '.join(dead)}"))
    for wanted, line in body:
        if wanted is not grad and not line.startswith("#"):
            grad = wanted
            if not wanted:
                lines.append("with mt.no_grad():")
        lines.append(line if grad is not False else "    " + line)
    lines += [f"tensors[{name!r}].grad = {names[value.number]}" if kind == "grad" else f"tensors[{name!r}] = {names[value.number]}"
              for kind, name, value in program.effects]  # fmt: skip
    if writer.tickets:
        lines = ["ticket = Tickets()", *lines, "ticket.finish()"]
    parameters = ", ".join(["tensors", *dict.fromkeys(names[value.number] for value in program.inputs)])
    head = ["import metatensor as mt"]
    if any('op("' in line for line in lines):
        head.append("from metatensor.library import get_op as op")
    if writer.tickets:
        head.append("from metatensor.program import Tickets")
    lines.append(f"return {writer.output(program.output)}")
    traced = [] if program.default_dtype is None else [f"@mt.program.as_traced({writer.value(program.default_dtype)})"]
    return "\n".join([*head, "", "", *traced, f"def forward({parameters}):", *(f"    {line}" for line in lines), ""])


# A listing -----------------------------------------------------------------------------------------------


def _type(value: Value) -> str:
    device = "" if value.device.type == "meta" else f" {value.device}"
    return f"{value.dtype.name}[{', '.join(map(str, value.shape))}]{device}"


def arguments_of(program: Program) -> Iterator[list[str]]:
    """Yield for each call its arguments as text: values by their names in `names_of`, keyword arguments as ``name=value``."""
    writer = _Writer(program)
    for call in program.calls:
        yield _arguments(writer, call)


def _arguments(writer: _Writer, call: ProgramCall) -> list[str]:
    return [_short(writer, a) for a in call.args] + [f"{key}={_short(writer, a)}" for key, a in call.kwargs.items()]


def text(program: Program) -> str:
    """Return a listing: inputs, parameters, calls with the shapes of their results, and the output."""
    writer = _Writer(program)
    names = writer.names
    held = f"{len(program.held)} parameters, buffers and constants"
    lines = [f"{program.name}: {len(program.inputs)} inputs, {held}, {len(program.calls)} calls"]
    lines += [f"  {names[value.number]}: {_type(value)}" for value in program.inputs]
    lines += [f"  {names[value.number]}: {_type(value)} = {program.kinds[path]} {path}" for path, value in program.held.items()]
    module = 0
    for call in program.calls:
        if call.module != module:
            module = call.module
            lines.append(f"  # {program.modules[module]}")
        results = ", ".join(f"{names[v.number]}: {_type(v)}" for v in leaves(Value, call.result)) or "()"
        lines.append(f"  {results} = {call.op.name}({', '.join(_arguments(writer, call))})")
    lines += [f"  {effect.name}{'.grad' if effect.kind == 'grad' else ''} <- {names[effect.value.number]}" for effect in program.effects]
    return "\n".join([*lines, f"  return {_short(writer, program.output)}"])


def _short(writer: _Writer, argument: Any) -> str:
    try:
        return writer.output(argument) if not isinstance(argument, (Ticket, Device, DType)) else writer.value(argument)
    except TypeError:
        return f"<{type(argument).__name__}>"


