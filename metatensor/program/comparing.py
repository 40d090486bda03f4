"""What differs between two programs, by operator and shape."""

from __future__ import annotations

import difflib
from typing import Any, NamedTuple

from metatensor._core.capture import ProgramCall, Ticket, Value
from metatensor._core.device import Device
from metatensor.program.program import Program
from metatensor.program.structure import leaves

__all__ = ["Change", "alike", "diff", "equal"]


class Change(NamedTuple):
    """One difference between two programs."""

    kind: str
    """``"removed"``, ``"added"``, or ``"parameter"`` for a parameter, buffer or constant that differs."""
    before: str | None
    after: str | None
    module: str = ""
    """Path of the module that made the call."""

    def __str__(self) -> str:
        sign = {"removed": "-", "added": "+"}.get(self.kind, "~")
        return f"{sign} {self.before if self.after is None else self.after if self.before is None else f'{self.before} -> {self.after}'}"


def _shape(value: Value) -> str:
    return f"{value.dtype.name}[{', '.join(map(str, value.shape))}]"


def _text(argument: Any) -> str:
    if isinstance(argument, Value):
        return _shape(argument)
    if isinstance(argument, Ticket):
        return "ticket"
    if isinstance(argument, (list, tuple)):
        return f"[{', '.join(map(_text, argument))}]"
    return repr(argument)


def line(call: ProgramCall) -> str:
    """Return a call with the shapes of its arguments and results, without the names of values."""
    given = [_text(a) for a in call.args] + [f"{key}={_text(a)}" for key, a in call.kwargs.items()]
    results = ", ".join(_shape(v) for v in leaves(Value, call.result)) or "()"
    return f"{call.op.name}({', '.join(given)}) -> {results}"


def diff(before: Program, after: Program) -> list[Change]:
    """Return what changed between two programs: parameters by name, and calls by operator and shapes.

    Examples
    --------
    >>> import metatensor as mt
    >>> x = mt.empty(2, 3, device="meta")
    >>> a, b = mt.program.trace(lambda x: x.exp(), x), mt.program.trace(lambda x: x.exp().relu(), x)
    >>> [str(change) for change in mt.program.diff(a, b)]
    ['+ relu(float32[2, 3]) -> float32[2, 3]']
    """
    found = []
    for name in dict.fromkeys([*before.held, *after.held]):
        old, new = before.held.get(name), after.held.get(name)
        texts = [None if value is None else f"{name}: {_shape(value)}" for value in (old, new)]
        if texts[0] != texts[1]:
            found.append(Change("parameter", texts[0], texts[1]))
    start, old_lines, new_lines = _unlike(*[[line(call) for call in program.calls] for program in (before, after)])
    modules = [[program.modules[call.module] for call in program.calls[start:]] for program in (before, after)]
    for kind, i, j, k, m in difflib.SequenceMatcher(None, old_lines, new_lines, autojunk=False).get_opcodes():
        if kind != "equal":
            found += [Change("removed", text, None, path) for text, path in zip(old_lines[i:j], modules[0][i:j])]
            found += [Change("added", None, text, path) for text, path in zip(new_lines[k:m], modules[1][k:m])]
    return found


def _unlike(before: list[str], after: list[str]) -> tuple[int, list[str], list[str]]:
    """Strip the lines that both lists begin and end with, so that long programs are compared quickly.

    The first item returned is the number of lines stripped from the beginning.
    """
    start, count = 0, min(len(before), len(after))
    while start < count and before[start] == after[start]:
        start += 1
    end = 0
    while end < count - start and before[-1 - end] == after[-1 - end]:
        end += 1
    return start, before[start : len(before) - end], after[start : len(after) - end]


def equal(a: Program, b: Program) -> bool:
    """Return True if two programs have the same calls on the same values, however these are numbered.

    Names, kinds and layouts of parameters, buffers and constants are compared; their data is not.

    Examples
    --------
    >>> import metatensor as mt
    >>> x = mt.empty(3, device="meta")
    >>> a, b = mt.program.trace(lambda x: x * 2, x), mt.program.trace(lambda x: x * 2.0, x)
    >>> mt.program.equal(a, a), mt.program.equal(a, b)
    (True, False)
    """
    return alike(a, b)


def alike(a: Program, b: Program, anywhere: bool = False) -> bool:
    """Return what `equal` returns. With `anywhere`, devices, random numbers, grad modes and strides of dimensions of size 1 may differ."""
    pairs: dict[tuple[str, int], int] = {}

    def paired(kind: str, one: int, other: int) -> bool:
        """Pair two numbers, neither of which may have another partner."""
        return pairs.setdefault((kind, one), other) == other and pairs.setdefault((f"{kind} back", other), one) == one

    def strides(value: Value) -> Any:
        return [s for n, s in zip(value.shape, value.stride) if n != 1] if anywhere else value.stride

    def same(x: Any, y: Any) -> bool:
        if isinstance(x, Value) or isinstance(y, Value):
            return (isinstance(x, Value) and isinstance(y, Value) and paired("value", x.number, y.number)
                    and paired("storage", x.storage, y.storage) and x.shape == y.shape and strides(x) == strides(y)
                    and x.offset == y.offset and x.dtype is y.dtype and (anywhere or x.device == y.device)
                    and (x.conj, x.neg) == (y.conj, y.neg))  # fmt: skip
        if isinstance(x, dict) and isinstance(y, dict):
            return x.keys() == y.keys() and all(same(item, y[key]) for key, item in x.items())
        if isinstance(x, (list, tuple)) and isinstance(y, (list, tuple)):
            return len(x) == len(y) and all(same(one, other) for one, other in zip(x, y))
        if isinstance(x, float) and isinstance(y, float):  # NaN is NaN, and 0.0 is not -0.0
            return repr(float(x)) == repr(float(y))
        if anywhere and isinstance(x, Ticket) and isinstance(y, Ticket):
            return True
        return type(x) is type(y) and (anywhere and isinstance(x, Device) or bool(x == y))

    if a.held.keys() != b.held.keys() or a.kinds != b.kinds or a.tied != b.tied or a.arguments[1].keys() != b.arguments[1].keys():
        return False
    if len(a.calls) != len(b.calls) or len(a.effects) != len(b.effects):
        return False
    if not same([a.held[name] for name in a.held], [b.held[name] for name in a.held]) or not same(a.inputs, b.inputs):
        return False
    for x, y in zip(a.calls, b.calls):
        if x.op is not y.op or (x.grad != y.grad and not anywhere) or not same(
            [x.args, x.kwargs, x.result, x.writes], [y.args, y.kwargs, y.result, y.writes]):
            return False
    return same(a.outputs, b.outputs) and same([tuple(e) for e in a.effects], [tuple(e) for e in b.effects])
