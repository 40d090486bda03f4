"""Gradients: the backward pass, gradient modes, custom functions, and hooks on the graph."""

from __future__ import annotations

import metatensor as mt
from metatensor._core.lazy import attributes
from metatensor.autograd.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled

TYPE_CHECKING = False  # not from typing, which takes long to import
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from metatensor.autograd.function import Function

__all__ = ["Function", "Variable", "backward", "detect_anomaly", "enable_grad", "grad", "grad_mode", "gradcheck", "gradgradcheck",
           "inference_mode", "no_grad", "set_detect_anomaly", "set_grad_enabled"]  # fmt: skip

__getattr__, __dir__ = attributes(
    __name__, ("anomaly_mode", "forward_ad", "function", "functional", "grad_mode", "graph", "profiler", "variable"),
    {"Function": f"{__name__}.function:Function", "backward": f"{__name__}._backward:backward",
     "grad": f"{__name__}._backward:grad", "gradcheck": f"{__name__}._gradcheck:gradcheck",
     "gradgradcheck": f"{__name__}._gradcheck:gradgradcheck", "detect_anomaly": f"{__name__}.anomaly_mode:detect_anomaly",
     "set_detect_anomaly": f"{__name__}.anomaly_mode:set_detect_anomaly"},
)  # fmt: skip


class _Engine:
    """What PyTorch's code calls of its engine."""

    @staticmethod
    def queue_callback(function: Callable[[], Any]) -> None:
        """Call a function at the end of the running backward pass. Raise RuntimeError if there is none."""
        from metatensor._core.engine import queue_callback

        queue_callback(function)


class _VariableType(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, mt.Tensor)


class Variable(metaclass=_VariableType):
    """A legacy name for `Tensor`.

    ``Variable(t)`` returns ``t.detach()`` with `requires_grad` set. Every Tensor is an instance of Variable.

    Parameters
    ----------
    data : Tensor
        The tensor to detach. The result shares its storage.
    requires_grad : bool
        Whether the result requires grad. Default False.
    volatile : bool, optional
        Ignored.

    Raises
    ------
    TypeError
        If `data` is not a Tensor.
    """

    _execution_engine = _Engine()

    def __new__(cls, data: mt.Tensor, requires_grad: bool = False, volatile: bool | None = None) -> Any:
        if not isinstance(data, mt.Tensor):
            raise TypeError(f"Variable: expected a Tensor, got {type(data).__name__}")
        return data.detach().requires_grad_(requires_grad)
