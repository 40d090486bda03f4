"""`decompose`: replacing operators by simpler ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any

import metatensor as mt
from metatensor._core.capture import ProgramCall, Value
from metatensor._core.dispatch import bound_arguments
from metatensor._core.op import Op, operator_flags, registry
from metatensor._core.tensor import Tensor
from metatensor.program.passes.rewriting import Rewriter, random, same_layout
from metatensor.program.program import Program
from metatensor.program.structure import leaves, mapped
from metatensor.rules.decompositions import decompositions

__all__ = ["decompose", "decomposed"]

_SEVERAL = re.compile(r"\bint\[([2-9])\]\??\s+(\w+)")
"""Arguments that can be one number for several dimensions."""
_DEPTH = 12
"""Maximum depth of nested decompositions."""


def decompose(program: Program, operators: Collection[str] | Callable[[str], bool], *, strict: bool = True) -> Program:
    """Return the program with all other operators decomposed into the chosen ones.

    The decompositions of the library and of custom operators are applied until only chosen operators are left. In-place and
    ``out=`` calls are decomposed too, if their functional form has a decomposition; call `functionalize` first if only
    functional operators are wanted. A device uses the same decompositions for operators without a kernel, so their results
    are identical bit for bit; others can differ by rounding.

    Parameters
    ----------
    program : Program
        A program.
    operators : collection of str, or callable
        Names of the operators that may remain, or a function that returns True for them. Operators that only make views and
        copies of bytes (``"view"``, ``"copy_"``) have to be among them too.
    strict : bool
        Whether to raise an error if an operator remains that was not chosen. Default True.

    Raises
    ------
    ValueError
        If operators remain that have no decomposition. The message lists them.

    Examples
    --------
    >>> import metatensor as mt
    >>> program = mt.program.trace(mt.nn.functional.hardtanh, mt.empty(3, device="meta"))
    >>> [call.op.name for call in mt.program.decompose(program, {"clamp"}).calls]
    ['clamp']
    """
    chosen = operators if callable(operators) else frozenset(operators).__contains__
    remaining: set[str] = set()
    for _ in range(_DEPTH):
        made, remaining, progress = Rewriter(program), set(), False
        for i, call in enumerate(program.calls):
            made.at(i)
            if chosen(call.op.name):
                made.keep(call)
            elif decomposed(made, call):
                progress = True
            else:
                remaining.add(call.op.name)
                made.keep(call)
        if not progress:
            break
        program = made.finish()
        remaining = {call.op.name for call in program.calls if not chosen(call.op.name)}
    if remaining and strict:
        raise ValueError(f"decompose: {program.name} has calls of operators without a decomposition to the chosen ones: "
                         f"{', '.join(sorted(remaining))}")  # fmt: skip
    return program


def _laid_out(made: Rewriter, old: Value, new: Value, call: ProgramCall) -> Value:
    """Return a copy of a value with the layout of another."""
    op = registry["empty_strided"]
    target = made.emit(op, (old.shape, old.stride), {"dtype": old.dtype, "device": old.device}, like=call, device=old.device)
    made.emit(registry["copy_"], (target, new), {}, like=call, writes=(target,))
    return target  # type: ignore[no-any-return]


def decomposed(made: Rewriter, call: ProgramCall, laid_out: Callable[[Rewriter, Value, Value, ProgramCall], Value] = _laid_out) -> bool:
    """Add the decomposition of a call. Return False if there is none. `laid_out` gives a result its old layout."""
    if random(call) or call.op.flags & (operator_flags.HOST | operator_flags.VIEW) or "out" in call.kwargs:
        return False
    args, kwargs = made.mapped((call.args, call.kwargs))
    inplace = call.op.variant == 1
    mutates = call.writes and not inplace
    if mutates:
        return False
    op: Op = call.op.functional
    body = _body(op, args, kwargs)
    if body is None:
        return False
    function, given = body
    results = list(leaves(Value, call.result))
    if not results:
        return False
    count, held = len(made.calls), set(made.held)
    try:
        outputs = list(leaves(Value, made.inline(function, given, call, results[0].device)))
    except (RuntimeError, NotImplementedError, TypeError, ValueError):  # the decomposition needs values, or another dtype
        outputs = []
    if len(outputs) != len(results) or any(a.shape != b.shape or a.dtype is not b.dtype for a, b in zip(outputs, results)):
        del made.calls[count:]
        for name in made.held.keys() - held:
            made.release(name)
        return False
    if inplace:
        target = made.value(call.writes[0])
        made.emit(registry["copy_"], (target, outputs[0]), {}, like=call, writes=(target,))
        return True
    for old, new in zip(results, outputs):
        if not same_layout(old, new):  # later calls may depend on the layout
            new = laid_out(made, old, new, call)
        made.replace(old, new)
    return True


def _body(op: Op, args: Any, kwargs: dict[str, Any]) -> tuple[Callable[..., Any], list[Any]] | None:
    """Return the decomposition of the overload that a call uses, and its arguments in the order of the schema."""
    stand_ins: dict[int, Value] = {}

    def tensor(value: Value) -> Tensor:
        t = mt.empty(value.shape, dtype=value.dtype, device="meta")
        stand_ins[id(t)] = value
        kept.append(t)
        return t

    kept: list[Tensor] = []
    bound = bound_arguments(op, *mapped(tensor, Value, (tuple(args), kwargs)))
    if bound is None:
        return None
    overload, named = bound
    function = decompositions().get(overload.qualname)
    if function is None:
        return None
    for n, name in _SEVERAL.findall(overload.text):
        given = named.get(name)
        if isinstance(given, int):  # kernels get one number for each dimension
            named[name] = (given,) * int(n)
        elif isinstance(given, (list, tuple)) and len(given) == 1:
            named[name] = tuple(given) * int(n)
    return function, mapped(lambda t: stand_ins[id(t)], Tensor, list(named.values()))
