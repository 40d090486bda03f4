"""Custom autograd functions."""

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
    """The context that `Function.forward` fills for `Function.backward`.

    Parameters
    ----------
    needs_input_grad : tuple of bool
        For each input, whether it requires grad.
    """

    def __init__(self, needs_input_grad):
        self.needs_input_grad = needs_input_grad
        self.saved_tensors = ()
        self._dirty = ()
        self._no_grad = ()

    def save_for_backward(self, *tensors):
        """Store `tensors` as `saved_tensors`. Each is a Tensor or None.

        Raises
        ------
        TypeError
            If any other object is given.
        """
        for t in tensors:
            if t is not None and not isinstance(t, Tensor):
                raise TypeError(f"save_for_backward: expected Tensors, got {type(t).__name__}")
        self.saved_tensors = tensors

    save_for_forward = save_for_backward

    def mark_dirty(self, *tensors):
        """Declare the inputs that `forward` modified in place."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors):
        """Declare the outputs that do not require grad."""
        self._no_grad = tensors

    def set_materialize_grads(self, value):
        """Set whether `backward` receives zeros for undefined gradients. It has no effect without a backward pass."""
        self.materialize_grads = bool(value)


class Function:
    """Base class of custom autograd functions.

    A subclass defines `forward` and `backward` as static methods and is called through `apply`. There is no backward
    pass yet, so `backward` is never called.

    Examples
    --------
    >>> import metatensor as mt
    >>> class Double(mt.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         return grad * 2
    >>> x = mt.empty(3, device="meta", requires_grad=True)
    >>> Double.apply(x).requires_grad
    True
    """

    @staticmethod
    def forward(*args, **kwargs):
        """Compute the outputs. The first argument is the context, unless the subclass defines `setup_context`."""
        raise NotImplementedError("autograd.Function: define forward")

    @staticmethod
    def setup_context(ctx, inputs, output):
        """Fill the context from the inputs and outputs of a `forward` that does not take it."""
        raise NotImplementedError("autograd.Function: define setup_context")

    @staticmethod
    def backward(ctx, *grad_outputs):
        """Return the gradients of the inputs. It is never called: there is no backward pass yet."""
        raise NotImplementedError("autograd.Function: define backward")

    @classmethod
    def apply(cls, *args, **kwargs):
        """Call `forward` with gradients disabled and return its result.

        If gradients are enabled and any positional argument is a tensor that requires grad, every floating-point or
        complex output requires grad too, except those passed to `FunctionCtx.mark_non_differentiable`.
        """
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
    """A function with an attribute that says whether it works in place.

    Parameters
    ----------
    inplace : bool
        Stored as the attribute `inplace`. Default False.
    """

    def __init__(self, inplace: bool = False) -> None:
        self.inplace = inplace


class NestedIOFunction(Function):
    """A function whose arguments are nested containers of tensors. It adds nothing to `Function`."""


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a ``backward`` so that it runs with gradients disabled and its result cannot be differentiated."""

    @functools.wraps(fn)
    def wrapped(ctx: Any, *args: Any) -> Any:
        with no_grad():
            return fn(ctx, *args)

    return wrapped
