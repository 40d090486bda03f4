"""Calls to operators of PyTorch's dispatcher, by the names that files written by PyTorch use.

`find` returns a function that takes the arguments of the dispatcher's signature. Where metatensor has the operator, it chooses
the overload that fits the arguments and calls it. `composites` has the operators that metatensor has under another
name or with other arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import metatensor as mt
from metatensor._core.device import Device
from metatensor._core.dtype import DType
from metatensor.overloads import packet
from metatensor.program.aten.codes import dtype_of, layout_of, memory_format_of
from metatensor.program.aten.composites import COMPOSITES

__all__ = ["call", "find"]

_NO = object()
_REDUCTIONS = ("none", "mean", "sum")
# Arguments that choose between implementations of PyTorch and change no result.
_IGNORED = frozenset(("non_blocking", "pin_memory", "implicit"))


def find(namespace: str, name: str, overload: str | None = None) -> Callable[..., Any] | None:
    """Return a function that calls an operator, or None if there is no such operator in metatensor.

    Parameters
    ----------
    namespace, name : str
        The operator, such as "aten" and "add".
    overload : str, optional
        The overload, such as "Tensor". Without it, the one that fits the arguments is chosen in each call.
    """
    if namespace == "aten" and name in COMPOSITES:
        return COMPOSITES[name]
    try:
        found = packet(namespace, name)
    except AttributeError:
        return None
    return partial(call, found, overload)


def call(found: Any, overload: str | None, /, *args: Any, **kwargs: Any) -> Any:
    """Call an operator, with the overload that fits the arguments unless one is given.

    Parameters
    ----------
    found : OpOverloadPacket
        The operator.
    overload : str or None
        The overload.
    *args, **kwargs
        Arguments of the dispatcher's signature. Dtypes, layouts and memory formats may be numbers.

    Raises
    ------
    NotImplementedError
        If no overload takes the arguments.
    """
    names = found.overloads()
    if overload is not None and overload in names:
        names = [overload, *(name for name in names if name != overload)]
    textual = any("str reduction" in overload.text for overload in found._op.overloads)
    numbers = None
    for name in names:
        try:
            target = getattr(found, name)
        except ValueError:  # a signature with "..."
            continue
        fitted = _bound(target._schema, args, kwargs, textual)
        if fitted is not None and fitted[2]:
            numbers = numbers or (target, fitted)  # a number in place of a tensor: used if nothing fits better
        elif fitted is not None:
            return _run(found, target, *fitted[:2])
    if numbers is not None:
        return _run(found, numbers[0], *numbers[1][:2])
    kinds = ", ".join([_kind(a) for a in args] + [f"{key}={_kind(a)}" for key, a in kwargs.items()])
    raise NotImplementedError(f"{found.namespace}::{found.__name__}: no overload in metatensor takes ({kinds})")


def _run(found: Any, target: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    result = target(*args, **kwargs)
    returns = target._schema.returns
    if len(returns) == 1 and returns[0].type == "Tensor[]" and type(result) is tuple:
        return list(result)
    return result


def _kind(value: Any) -> str:
    if isinstance(value, mt.Tensor):
        return f"{value.dtype.name}[{', '.join(map(str, value.shape))}]"
    if isinstance(value, list):
        return f"list of {_kind(value[0])}" if value else "empty list"
    return repr(value)[:40] if value is None or isinstance(value, (bool, int, float)) else type(value).__name__


def _bound(
    schema: Any, args: tuple[Any, ...], kwargs: dict[str, Any], textual: bool
) -> tuple[list[Any], dict[str, Any], bool] | None:
    """Return arguments converted to a signature's types, and whether a number was given for a tensor. None if they do not fit.

    If `textual`, metatensor's operator takes a reduction as a string, where the dispatcher has a number.
    """
    places = [a for a in schema.arguments if not a.kwarg_only]
    if len(args) > len(places):
        return None
    known = {a.name: a for a in schema.arguments}
    passed: list[Any] = []
    numbers = False
    for argument, value in zip(places, args):
        fitted = _fitted(argument, value, textual)
        if fitted is _NO:
            return None
        numbers = numbers or argument.type.startswith("Tensor") and isinstance(value, (bool, int, float, complex))
        passed.append(fitted)
    named: dict[str, Any] = {}
    for key, value in kwargs.items():
        if key not in known:
            if key in _IGNORED or value is None:
                continue
            return None
        if known[key] in places[: len(args)]:
            return None
        fitted = _fitted(known[key], value, textual)
        if fitted is _NO:
            return None
        if key == "pin_memory" and not value:
            continue
        numbers = numbers or known[key].type.startswith("Tensor") and isinstance(value, (bool, int, float, complex))
        named[key] = fitted
    given = {a.name for a in places[: len(args)]} | set(named)
    if any(a.name not in given and not a.has_default_value() for a in schema.arguments):
        return None
    return passed, named, numbers


def _fitted(argument: Any, value: Any, textual: bool) -> Any:
    """Return a value as an argument of a signature, or `_NO`."""
    kind = argument.type
    if textual and argument.name == "reduction" and kind == "int" and type(value) is int:
        return _REDUCTIONS[value] if 0 <= value < 3 else _NO
    return _as(kind, argument.N, value)


def _as(kind: str, count: int | None, value: Any) -> Any:
    optional = kind.endswith("?")
    if optional:
        kind = kind[:-1]
    if value is None:
        return None if optional else _NO
    base, bracket, _ = kind.partition("[")
    if bracket:
        if isinstance(value, (list, tuple)):
            parts = [_as(base, None, part) for part in value]
            return _NO if any(part is _NO for part in parts) else parts
        return [value] * count if count and base in ("int", "float") and type(value) in (int, float) else _NO
    convert = _KINDS.get(base)
    return convert(value) if convert is not None else value


def _tensor(value: Any) -> Any:
    return value if isinstance(value, (mt.Tensor, bool, int, float, complex)) else _NO


def _number(value: Any) -> Any:
    return value if isinstance(value, (bool, int, float, complex)) else _NO


def _int(value: Any) -> Any:
    return int(value) if isinstance(value, (bool, int)) else _NO


def _float(value: Any) -> Any:
    return float(value) if isinstance(value, (bool, int, float)) else _NO


def _bool(value: Any) -> Any:
    return value if isinstance(value, bool) else _NO


def _str(value: Any) -> Any:
    return value if isinstance(value, str) else _NO


def _dtype(value: Any) -> Any:
    return value if isinstance(value, DType) else dtype_of(value) if type(value) is int else _NO


def _layout(value: Any) -> Any:
    return layout_of(value) if type(value) is int else _NO if isinstance(value, (mt.Tensor, list, float, str)) else value


def _format(value: Any) -> Any:
    return memory_format_of(value) if type(value) is int else _NO if isinstance(value, (mt.Tensor, list, float, str)) else value


def _device(value: Any) -> Any:
    return value if isinstance(value, Device) else mt.device(value) if isinstance(value, str) else _NO


_KINDS: dict[str, Callable[[Any], Any]] = {
    "Tensor": _tensor, "Scalar": _number, "int": _int, "SymInt": _int, "float": _float, "bool": _bool, "str": _str, "ScalarType": _dtype,
    "Layout": _layout, "MemoryFormat": _format, "Device": _device,
}  # fmt: skip
