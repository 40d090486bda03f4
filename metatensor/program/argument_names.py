"""Names of the positional arguments of programs: those of the parameters of the callable."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any

import metatensor as mt

if TYPE_CHECKING:
    from metatensor.program.program import Program

__all__ = ["by_position", "label", "names_of_positional", "parameters_of"]


def parameters_of(fn: Any) -> list[str]:
    """Return the names of the parameters of a callable that take positional arguments.

    For a module they are those of ``forward``, or of its attribute ``__signature__`` if it has one.
    """
    if isinstance(fn, mt.nn.Module) and "__signature__" not in vars(fn):
        fn = fn.forward
    function = getattr(fn, "__func__", fn)
    if type(function) is FunctionType and not vars(function):  # what `inspect.signature` would return, but much faster
        taken = function.__code__.co_varnames[: function.__code__.co_argcount]
        return list(taken if function is fn else taken[1:])
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return []
    return [one.name for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]


def names_of_positional(program: Program) -> list[str]:
    """Return a name for each positional argument of a program: that of its parameter, or ``x`` with its position."""
    known = program.names
    return [known[i] if i < len(known) else f"x{i}" for i in range(len(program.arguments[0]))]


def by_position(program: Program, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """Return the arguments of a call, with positional arguments that were passed by name moved to their positions."""
    wanted, named = program.arguments
    if len(args) >= len(wanted) or not kwargs:
        return args, kwargs
    names, made, rest = names_of_positional(program), list(args), dict(kwargs)
    for name in names[len(args) :]:
        if name not in rest or name in named:
            break
        made.append(rest.pop(name))
    return tuple(made), rest


def label(names: Sequence[str], i: int) -> str:
    """Return how messages call the positional argument `i`."""
    return f"argument {names[i]!r}" if i < len(names) else f"argument {i}"
