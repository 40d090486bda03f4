"""Gradients: the switches of recording and `Function`. There is no backward pass yet."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor._core.lazy import attributes
from metatensor.autograd.function import Function
from metatensor.autograd.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = ["Function", "Variable", "backward", "detect_anomaly", "enable_grad", "grad", "grad_mode", "gradcheck", "gradgradcheck",
           "inference_mode", "no_grad", "set_detect_anomaly", "set_grad_enabled"]  # fmt: skip

__getattr__, __dir__ = attributes(
    __name__, ("anomaly_mode", "forward_ad", "function", "functional", "grad_mode", "graph", "profiler", "variable"),
    {"detect_anomaly": f"{__name__}.anomaly_mode:detect_anomaly", "set_detect_anomaly": f"{__name__}.anomaly_mode:set_detect_anomaly"},
)  # fmt: skip


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, inputs=None):
    """Not there yet: raises NotImplementedError, or RuntimeError where nothing requires grad."""
    for t in (tensors,) if isinstance(tensors, mt.Tensor) else tensors:
        t.backward()


def grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, only_inputs=True, allow_unused=None,
         is_grads_batched=False, materialize_grads=False):  # fmt: skip
    """Not there yet: raises NotImplementedError."""
    raise NotImplementedError("autograd.grad: metatensor does not compute gradients yet")


class _VariableType(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, mt.Tensor)


class Variable(metaclass=_VariableType):
    """Another name for Tensor: ``Variable(t)`` is ``t`` detached, with ``requires_grad`` as it says."""

    def __new__(cls, data: mt.Tensor, requires_grad: bool = False, volatile: bool | None = None) -> Any:
        if not isinstance(data, mt.Tensor):
            raise TypeError(f"Variable: expected a Tensor, got {type(data).__name__}")
        return data.detach().requires_grad_(requires_grad)


def gradcheck(*_: Any, **__: Any) -> bool:
    """NotImplementedError: there are no gradients to check yet."""
    raise NotImplementedError("torch.autograd.gradcheck: metatensor does not compute gradients yet")


def gradgradcheck(*_: Any, **__: Any) -> bool:
    """NotImplementedError: there are no gradients to check yet."""
    raise NotImplementedError("torch.autograd.gradgradcheck: metatensor does not compute gradients yet")
