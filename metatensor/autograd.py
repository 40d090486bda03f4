"""The forward half of autograd: `Function` runs, gradients are not computed yet."""

from metatensor._core.execute import mark_output
from metatensor._core.tensor import Tensor
from metatensor._core.thread import is_grad_enabled
from metatensor._grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = ["Function", "backward", "enable_grad", "grad", "inference_mode", "no_grad", "set_grad_enabled"]


class _Context:
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
        ctx = _Context(tuple(isinstance(a, Tensor) and a.requires_grad for a in args))
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


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, inputs=None):
    """Not there yet: raises NotImplementedError, or RuntimeError where nothing requires grad."""
    for t in (tensors,) if isinstance(tensors, Tensor) else tensors:
        t.backward()


def grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, allow_unused=None):
    """Not there yet: raises NotImplementedError."""
    raise NotImplementedError("autograd.grad: metatensor does not compute gradients yet")
