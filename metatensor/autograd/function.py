"""Functions with a gradient of their own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from metatensor._core.execute import mark_output
from metatensor._core.tensor import Tensor
from metatensor._core.thread import is_grad_enabled
from metatensor.autograd.grad_mode import no_grad

__all__ = ["BackwardCFunction", "Function", "FunctionCtx", "InplaceFunction", "NestedIOFunction", "once_differentiable"]


class FunctionCtx:
    """What `forward` may leave for `backward`."""

    def __init__(self, needs_input_grad):
        self.needs_input_grad = needs_input_grad
        self.saved_tensors = ()
        self._dirty = ()
        self._no_grad = ()

    def save_for_backward(self, *tensors):
        """Keep tensors (or None) for backward, as `saved_tensors`."""
        for t in tensors:
            if t is not None and not isinstance(t, Tensor):
                raise TypeError(f"save_for_backward: expected Tensors, got {type(t).__name__}")
        self.saved_tensors = tensors

    save_for_forward = save_for_backward

    def mark_dirty(self, *tensors):
        """Name the inputs that forward changed in place."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors):
        """Name the outputs through which no gradient flows."""
        self._no_grad = tensors

    def set_materialize_grads(self, value):
        """Whether backward would get zeros in place of absent gradients."""
        self.materialize_grads = bool(value)


class Function:
    """A function with a gradient of its own: subclasses define static `forward` and `backward`."""

    @staticmethod
    def forward(*args, **kwargs):
        """Compute the outputs; the first argument is the context unless `setup_context` is defined."""
        raise NotImplementedError("autograd.Function: define forward")

    @staticmethod
    def setup_context(ctx, inputs, output):
        """Fill in the context after a `forward` that takes none."""
        raise NotImplementedError("autograd.Function: define setup_context")

    @staticmethod
    def backward(ctx, *grad_outputs):
        """The gradients of the inputs; not called yet."""
        raise NotImplementedError("autograd.Function: define backward")

    @classmethod
    def apply(cls, *args, **kwargs):
        """Run forward without recording; outputs require grad where an input does."""
        recorded = is_grad_enabled() and any(isinstance(a, Tensor) and a.requires_grad for a in args)
        ctx = FunctionCtx(tuple(isinstance(a, Tensor) and a.requires_grad for a in args))
        with no_grad():
            if cls.setup_context is not Function.setup_context:
                output = cls.forward(*args, **kwargs)
                cls.setup_context(ctx, args, output)
            else:
                output = cls.forward(ctx, *args, **kwargs)
        if recorded:
            if isinstance(output, tuple):
                return tuple(_attach(o, args, ctx) for o in output)
            return _attach(output, args, ctx)
        return output


def _attach(output, inputs, ctx):
    if not isinstance(output, Tensor) or any(output is t for t in ctx._no_grad):
        return output
    if not (output.is_floating_point() or output.is_complex()):
        return output
    if any(output is t for t in inputs) and not any(output is t for t in ctx._dirty):
        output = output.view_as(output)
    return mark_output(output)


BackwardCFunction = FunctionCtx


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
        with no_grad():
            return fn(ctx, *args)

    return wrapped
