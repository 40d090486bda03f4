"""Custom functions that define their own gradients."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import metatensor as mt
from metatensor._core.capture import is_traced
from metatensor._core.custom_functions import note_custom_function
from metatensor._core.duals import in_use, primal_of, put_tangents, set_limit, tangent_of, tangents
from metatensor._core.function_node import FunctionNode, overrides_operators
from metatensor._core.late import later
from metatensor._core.saved import save
from metatensor._core.tensor import Tensor
from metatensor._core.thread import _set_grad_enabled, is_grad_enabled
from metatensor.autograd.grad_mode import no_grad

__all__ = ["BackwardCFunction", "Function", "FunctionCtx", "InplaceFunction", "NestedIOFunction", "once_differentiable"]


class FunctionCtx:
    """The context that `Function.forward` fills for `Function.backward`. It is the ``grad_fn`` of the outputs.

    Attributes
    ----------
    needs_input_grad : tuple of bool
        For each argument, whether its gradient is needed.
    saved_tensors : tuple of Tensor or None
        The tensors that were passed to `save_for_backward`.
    """

    def save_for_backward(self, *tensors: Any) -> None:
        """Save tensors for `backward`. Only arguments and outputs of `forward` should be saved here.

        Raises
        ------
        TypeError
            If an argument is neither a Tensor nor None.
        """
        for t in tensors:
            if t is not None and not isinstance(t, Tensor):
                raise TypeError(f"save_for_backward: expected Tensors, got {type(t).__name__}")
        self.to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Save tensors for `Function.jvp`."""
        for t in tensors:
            if t is not None and not isinstance(t, Tensor):
                raise TypeError(f"save_for_forward: expected Tensors, got {type(t).__name__}")
        self.saved_for_forward = tensors

    def mark_dirty(self, *tensors: Any) -> None:
        """Declare the arguments that `forward` changed in place. They must be returned."""
        self.dirty_tensors = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Declare the outputs that have no gradient."""
        self.non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Set whether `backward` receives zeros, or None, for an output that has no gradient. Default True."""
        self.materialize_grads = bool(value)


class BackwardCFunction(FunctionNode, FunctionCtx):
    """The context and node of one call of a `Function`."""

    dirty_tensors: tuple = ()
    non_differentiable: tuple = ()
    to_save: tuple = ()
    saved_for_forward: tuple = ()
    _saved: Any
    _forward_cls: Any = None
    _at_level: Any = None  # the forward-mode level for which `jvp` runs, or None

    @property
    def saved_tensors(self) -> tuple:
        """The tensors that were passed to `save_for_backward`.

        Raises
        ------
        RuntimeError
            If an earlier backward freed the tensors, or one of them has been changed in place.
        """
        if self._at_level is not None:
            return tuple(t if t is None else primal_of(t, self._at_level) for t in self.saved_for_forward)
        if self._saved is None:
            return tuple(self.to_save)
        return tuple(saved(self) for saved in self._saved)

    def _release(self) -> None:
        self._saved = _FREED

    def _keep(self, outputs: list) -> None:
        """Save the tensors given to `save_for_backward`. Outputs are saved without history, to avoid a reference cycle."""
        self._saved = [save(t, next((i for i, o in enumerate(outputs) if o is t), None)) for t in self.to_save]
        self.to_save = ()


class _Freed:
    def __iter__(self) -> Any:
        raise RuntimeError("saved_tensors: they have been freed, because backward was run already; pass retain_graph=True the first time")

    def __bool__(self) -> bool:
        return True


_FREED = _Freed()


class _FunctionMeta(type):
    def __init__(cls, name: str, bases: tuple, namespace: dict) -> None:
        super().__init__(name, bases, namespace)
        cls._backward_cls = type(name + "Backward", (BackwardCFunction,), {"_forward_cls": cls})


_LISTS = frozenset(("to_save", "dirty_tensors", "non_differentiable"))
"""What a `forward` may have set that the outputs depend on."""


class Function(metaclass=_FunctionMeta):
    """Base class of functions that define their own gradients.

    A subclass defines `forward` and `backward` as static methods and is called through `apply`.

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
    >>> x = mt.ones(3, device="cpu", requires_grad=True)
    >>> Double.apply(x).sum().backward()
    >>> x.grad
    tensor([2., 2., 2.])
    """

    generate_vmap_rule = False
    _title: str | None = None  # what errors call the class, if not by its name

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the outputs. The first argument is the context, unless the subclass defines `setup_context`."""
        raise NotImplementedError("autograd.Function: the class has no forward; define forward(ctx, *args)")

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Fill the context from the inputs and outputs of a `forward` that does not take it."""
        raise NotImplementedError("autograd.Function: define setup_context")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Return the gradient of each argument of `forward`, or None for an argument without a gradient."""
        raise NotImplementedError(f"{type(ctx).__name__}: the autograd.Function has no backward; define backward(ctx, *grads)")

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """Return the tangents of the outputs, given the tangents of the arguments."""
        raise NotImplementedError("autograd.Function: define jvp to use the function in forward mode")

    @staticmethod
    def vmap(info: Any, in_dims: tuple, *args: Any) -> Any:
        """Compute the function for a batch. Return the outputs and the positions of their batch dimensions.

        `info` has the attributes `batch_size` and `randomness`. `in_dims` holds the batch dimension of each argument,
        or None if all members of the batch share the argument.
        """
        raise NotImplementedError("autograd.Function: define vmap, or set generate_vmap_rule = True, to use the function under vmap")

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Call `forward` without recording it. Gradients of the outputs are then computed by `backward`."""
        if overrides_operators(args):
            made = later("batched_apply")(cls, args, kwargs)
            if made is not NotImplemented:
                return made
        levels = sorted({level for a in args if isinstance(a, Tensor) for level in tangents(a)}) if in_use() else []
        ctx = cls._backward_cls()
        grad = is_grad_enabled()
        recorded = ctx._link(args) and grad
        limit = set_limit(0) if levels else None
        _set_grad_enabled(False)
        try:
            if cls.setup_context is not Function.setup_context:
                output = cls.forward(*args, **kwargs)
                cls.setup_context(ctx, args, output)
            else:
                output = cls.forward(ctx, *args, **kwargs)
        finally:
            _set_grad_enabled(grad)
            if levels:
                set_limit(limit)
        traced = grad and is_traced()
        if not levels and not traced:
            if not recorded:
                return output
            if isinstance(output, Tensor) and _LISTS.isdisjoint(vars(ctx)):  # most functions: nothing to save, nothing special
                return ctx._one_output(output, args)
        outputs = list(output) if isinstance(output, tuple) else [output]
        for t in ctx.non_differentiable:
            if not isinstance(t, Tensor):
                raise RuntimeError(f"{cls.__name__}: mark_non_differentiable was given {type(t).__name__}, not a Tensor")
        if not recorded:
            outputs = [_output(o, args, ctx) for o in outputs]
            if traced:
                _note(cls, ctx, args, outputs, outputs)
            _push(cls, ctx, args, outputs, list(outputs), levels)
            return tuple(outputs) if isinstance(output, tuple) else outputs[0]
        for t in ctx.dirty_tensors:
            if isinstance(t, Tensor) and t.requires_grad and t.is_leaf:
                raise RuntimeError(f"{cls.__name__}: mark_dirty was given a leaf that requires grad, which cannot be changed in place; "
                                   "pass a clone() to the function")  # fmt: skip
            if not any(o is t for o in outputs):
                raise RuntimeError(f"{cls.__name__}: mark_dirty was given a tensor that forward does not return")
        made = [_output(o, args, ctx) for o in outputs]
        if traced:
            _note(cls, ctx, args, made, outputs)
        if levels:
            _push(cls, ctx, args, made, outputs, levels)
        targets = [m if isinstance(m, Tensor) and _has_gradient(m, o, ctx) else None for m, o in zip(made, outputs, strict=True)]
        if any(t is not None for t in targets):
            ctx._set_outputs(targets, [any(o is t for t in ctx.dirty_tensors) for o in outputs])
        ctx._keep(made)
        ctx.dirty_tensors = ctx.non_differentiable = ()
        return tuple(made) if isinstance(output, tuple) else made[0]


def _note(cls: Any, ctx: Any, args: tuple, made: list, outputs: list) -> None:
    """Note the outputs in the trace that is running, so that its program does not lose their gradients silently."""
    inputs = [a for a in args if isinstance(a, Tensor) and (a.is_floating_point() or a.is_complex())]
    noted = [(m, any(o is t for t in ctx.dirty_tensors)) for m, o in zip(made, outputs, strict=True)
             if isinstance(m, Tensor) and _has_gradient(m, o, ctx)]  # fmt: skip
    if inputs and noted:
        note_custom_function([m for m, _ in noted], inputs, cls._title or cls.__name__, [changed for _, changed in noted])


def _push(cls: Any, ctx: Any, args: tuple, made: list, outputs: list, levels: list) -> None:
    """Attach the tangents that `jvp` computes to the outputs, from the outermost level to the innermost."""
    for level in levels:
        given = [tangent_of(a, level) if isinstance(a, Tensor) else None for a in args]
        if ctx.materialize_grads:
            given = [_zeros_for(a) if t is None else t for a, t in zip(args, given, strict=True)]
        ctx._at_level, limit = level, set_limit(level)
        try:
            found = cls.jvp(ctx, *given)
        finally:
            ctx._at_level = None
            set_limit(limit)
        found = found if isinstance(found, tuple) else (found,)
        if len(found) != len(made):
            raise RuntimeError(f"{cls.__name__}: jvp returned {len(found)} tangents for {len(made)} outputs")
        for i, (target, tangent) in enumerate(zip(made, found, strict=True)):
            if tangent is None or not isinstance(target, Tensor) or not _has_gradient(target, outputs[i], ctx):
                continue
            if not isinstance(tangent, Tensor):
                raise TypeError(f"{cls.__name__}: jvp returned {type(tangent).__name__} as tangent {i}, not a Tensor or None")
            if tangent.shape != target.shape:
                raise RuntimeError(f"{cls.__name__}: jvp returned a tangent of shape {list(tangent.shape)} for an output of shape "
                                   f"{list(target.shape)}")
            put_tangents(target, {level: tangent})


def _zeros_for(value: Any) -> Any:
    """Return a zero tangent, or None for a value that cannot have a tangent."""
    if not isinstance(value, Tensor) or not (value.is_floating_point() or value.is_complex()):
        return None
    return mt.zeros_like(primal_of(value, 0)).detach()


def _has_gradient(made: Any, output: Any, ctx: Any) -> bool:
    return (made.is_floating_point() or made.is_complex()) and not any(output is t for t in ctx.non_differentiable)


def _output(output: Any, inputs: tuple, ctx: Any) -> Any:
    """Return an output that can get its own node. An argument that was returned unchanged is replaced by a view."""
    if not isinstance(output, Tensor) or any(output is t for t in ctx.dirty_tensors):
        return output
    if any(output is t for t in inputs):
        with no_grad():
            return output.view_as(output)
    return output


class InplaceFunction(Function):
    """A function with an attribute `inplace`, which states whether it works in place.

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
    """Decorate a ``backward`` that cannot be differentiated. Differentiating its results raises RuntimeError."""

    @functools.wraps(fn)
    def wrapped(ctx: Any, *args: Any) -> Any:
        with no_grad():
            outputs = fn(ctx, *args)
        if not is_grad_enabled() or not any(isinstance(a, Tensor) and a.requires_grad for a in args):
            return outputs
        many = isinstance(outputs, tuple)
        made = [o if not isinstance(o, Tensor) else _Once.apply(o.detach(), *args) for o in (outputs if many else (outputs,))]
        return tuple(made) if many else made[0]

    return wrapped


class _Once(Function):
    """An identity whose backward raises."""

    generate_vmap_rule = True

    @staticmethod
    def forward(ctx: Any, value: Any, *_: Any) -> Any:
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise RuntimeError("once_differentiable: the gradient of this function was computed by a backward that cannot be differentiated")
