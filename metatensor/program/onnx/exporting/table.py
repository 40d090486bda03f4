"""The table of conversions: for each operator a function that adds nodes to a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import metatensor as mt
from metatensor._core.capture import ProgramCall, Ticket, Value
from metatensor._core.dispatch import bound_arguments
from metatensor._core.dtype import DType
from metatensor.program.onnx.exporting.graph import Declined, Graph, Size, Var
from metatensor.program.structure import leaves, mapped

__all__ = ["CONVERSIONS", "Declined", "arithmetic", "conversion", "convert", "operand", "pair"]

Conversion = Callable[[Graph, Any, Any], Any]
CONVERSIONS: dict[str, Conversion] = {}
"""For each operator a function ``(graph, arguments, result) -> values``.

`arguments` has the arguments by name, with a `Var` in the place of each tensor and the defaults of those that were not given.
`result` is the `Value` of the result, or a tuple of them. What is returned stands for it, and is cast to its dtype.
"""


def conversion(*names: str) -> Callable[[Conversion], Conversion]:
    """Declare the function below as the conversion of operators."""
    def declare(function: Conversion) -> Conversion:
        for name in names:
            assert name not in CONVERSIONS, name
            CONVERSIONS[name] = function
        return function

    return declare


def arguments_of(call: ProgramCall) -> dict[str, Any]:
    """Return the arguments of a call by name, with its values in the places of tensors."""
    stand_ins: dict[int, Value] = {}
    kept = []

    def tensor(value: Value) -> Any:
        t = mt.empty(value.shape, dtype=value.dtype, device="meta")
        stand_ins[id(t)] = value
        kept.append(t)
        return t

    def plain(argument: Any) -> Any:
        return mapped(lambda ticket: None, Ticket, argument)

    bound = bound_arguments(call.op, *mapped(tensor, Value, (plain(call.args), plain(call.kwargs))))
    if bound is None:
        raise Declined("no overload of the operator has these arguments")
    overload, named = bound
    found = mapped(lambda t: stand_ins.get(id(t), t), mt.Tensor, dict(named))
    found.update(zip(overload.argument_names, call.args))  # numbers are not converted, because they may be named sizes
    found.update(call.kwargs)
    found["overload"] = overload.qualname
    return found


def convert(graph: Graph, call: ProgramCall, env: dict[int, Var], extra: dict[str, Conversion] | None = None) -> None:
    """Add the nodes of a call, and put its results into `env`. Raise `Declined` if there is no conversion."""
    function = (extra or {}).get(call.op.name) or CONVERSIONS.get(call.op.name) or CONVERSIONS.get(call.op.functional.name)
    if function is None:
        raise Declined("")
    if next(leaves(Ticket, (call.args, call.kwargs)), None) is not None:
        raise Declined("it draws random numbers")
    complex_ones = [v for v in leaves(Value, (call.args, call.kwargs, call.result)) if v.dtype.is_complex]
    if complex_ones:
        raise Declined("complex numbers")
    if call.op.functional.name.startswith("as_strided") and not _in_order(call.args[0]):
        raise Declined("a view of a tensor whose elements do not lie in order")
    results = list(leaves(Value, call.result))
    if results and not call.writes and all(_is_empty(value) for value in results):  # runtimes stumble over some operators
        for value in results:
            env[value.number] = named_like(graph.raw(b"", value.dtype, value.shape), value)
        return
    named = mapped(lambda v: env[v.number], Value, arguments_of(call))
    made = function(graph, SimpleNamespace(**named), call.result)
    found = list(leaves(Var, made))
    if len(found) != len(results):
        raise Declined(f"it has {len(results)} results, and {len(found)} were made")
    for value, var in zip(results, found):
        env[value.number] = named_like(graph.cast(var, value.dtype), value)
    for target in call.writes:  # the argument itself
        env[target.number] = env[results[0].number] if results else named_like(graph.cast(found[0], target.dtype), target)


def _is_empty(value: Value) -> bool:
    return 0 in value.shape and not any(isinstance(n, Size) for n in value.shape)


def _in_order(value: Value) -> bool:
    """Return whether the elements of a value are those of its memory from the beginning on."""
    expected = 1
    for n, stride in zip(reversed(value.shape), reversed(value.stride)):
        if n != 1 and stride != expected:
            return False
        expected *= n
    return bool(value.offset == 0)


def named_like(var: Var, value: Value) -> Var:
    return Var(var, value.dtype, value.shape)


# What conversions share ----------------------------------------------------------------------------------


def operand(graph: Graph, value: Any, dtype: DType) -> Var:
    """Return an argument that is a tensor or a number in a dtype."""
    return graph.cast(value, dtype) if isinstance(value, Var) else graph.number(value, dtype)


def arithmetic(graph: Graph, function: Callable[..., Var], dtype: DType, *values: Any) -> Var:
    """Apply `function` to operands in a dtype. Booleans, for which ONNX has no arithmetic, are computed as numbers."""
    within = mt.int32 if dtype is mt.bool else dtype
    return graph.cast(function(*(operand(graph, value, within) for value in values)), dtype)


def pair(value: Any, n: int) -> list[int]:
    """Return a number, or a list of one or `n` numbers, as a list of `n` numbers."""
    items = list(value) if isinstance(value, Iterable) else [value]
    return items * n if len(items) == 1 else items
