"""Functions with gradients of their own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from metatensor.autograd import Function, _Context

__all__ = ["BackwardCFunction", "Function", "FunctionCtx", "InplaceFunction", "NestedIOFunction", "once_differentiable"]

FunctionCtx = BackwardCFunction = _Context


class InplaceFunction(Function):
    """A function that may work in place."""

    def __init__(self, inplace: bool = False) -> None:
        self.inplace = inplace


class NestedIOFunction(Function):
    """A function of nests of tensors."""


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator for ``backward``: its result has no gradient."""

    @functools.wraps(fn)
    def wrapped(ctx: Any, *args: Any) -> Any:
        import metatensor as mt

        with mt.no_grad():
            return fn(ctx, *args)

    return wrapped
