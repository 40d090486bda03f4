"""The temporary tensors of operators that PyTorch computes in several steps on its meta device.

This is the kernel policy ``meta``. An entry of `TABLE` is a function that takes the arguments of an operator in schema order and calls
operators that create its temporary tensors, in the order in which PyTorch creates and frees them. It runs only while memory is
counted, and its result is discarded. It must not write to its arguments or draw random numbers. None stands for one kernel.

`FORMULAS` has the same for gradient formulas, by the names of operators.

An operator without an entry that is computed by others while gradients are recorded (``recorded_as``) has their temporaries
also if no gradients are recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from metatensor._core import gradients
from metatensor._core.op import operator_flags, registry

__all__ = [
    "FORMULAS", "TABLE", "backward_kernel", "formula", "formula_of", "one_kernel", "parts", "parts_of", "statements",
    "strided_parts",
]  # fmt: skip

TABLE: dict[str, Callable[..., Any] | tuple[Callable[..., Any]] | None] = {}
FORMULAS: dict[str, Callable[..., Any] | bool] = {}
_loaded = False


def parts(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function for the operators or overloads ``names``."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            TABLE[name] = function
        return function

    return register


def strided_parts(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register like `parts`, for calls whose first argument is not contiguous. Other calls are one kernel."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            TABLE[name] = (function,)
        return function

    return register


def one_kernel(*names: str) -> None:
    """Declare that PyTorch runs the operators ``names`` as one kernel without temporaries when no gradients are recorded."""
    for name in names:
        TABLE[name] = None


def formula(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function for the gradients of ``names``: it takes the arguments of their rule by position.

    ``"take"`` is an operator or overload, ``"masked_scatter:source"`` the gradient of one of its arguments.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            FORMULAS[name] = function
        return function

    return register


def statements(*names: str) -> None:
    """Declare that the gradients of ``names`` are computed step by step, and free temporaries that they no longer need."""
    for name in names:
        FORMULAS[name] = False


def _made_whole(*args: Any) -> None:
    """Create no parts."""


def backward_kernel(*names: str) -> None:
    """Declare that PyTorch computes the gradients of the operators ``names`` in one kernel."""
    for name in names:
        FORMULAS[name] = _made_whole


def formula_of(name: str, argument: str | None, body: Callable[..., Any]) -> Callable[..., Any] | bool:
    """Return the function that creates the temporaries of a gradient formula, if one is registered.

    Otherwise return True if the formula is one expression, and False if it has statements. A function without local
    variables is an expression.
    """
    _load()
    for key in (f"{name}:{argument}", name):
        if key in FORMULAS:
            return FORMULAS[key]
    code = getattr(body, "__code__", None)
    return code is None or code.co_nlocals <= code.co_argcount + code.co_kwonlyargcount


def _load() -> None:
    global _loaded
    if not _loaded:
        _loaded = True
        for module in ("backward", "layers", "losses", "products", "reductions"):
            import_module(f"metatensor.rules.parts.{module}")


def parts_of(name: str) -> Callable[..., Any] | tuple[Callable[..., Any]] | bool:
    """Return the function that creates the temporaries of an overload, or False if it is one kernel.

    It is in a tuple if it applies only to calls whose first argument is not contiguous.
    """
    _load()
    if name in TABLE:
        return TABLE[name] or False
    through = gradients.parts_of(name)
    if through is None or name.endswith("_backward"):  # these are computed by others only for gradients of gradients
        return False
    op = registry.get(name) or registry[name.rpartition(".")[0]]
    return False if op.flags & (operator_flags.RANDOM | operator_flags.COMPOSITE) else through
