"""Utilities beside tensors and modules; each module is loaded when it is first named."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor._core.lazy import attributes

__all__ = ["get_cpp_backtrace", "rename_privateuse1_backend", "set_module", "swap_tensors"]

__getattr__, __dir__ = attributes(
    __name__,
    (
        "_contextlib", "_device", "_python_dispatch", "_pytree", "_triton", "backend_registration", "benchmark", "checkpoint",
        "collect_env", "cpp_extension", "deterministic", "dlpack", "flop_counter", "hooks", "mobile_optimizer", "model_zoo",
        "module_tracker", "tensorboard", "weak",
    ),
    {"data": "metatensor.data", "rename_privateuse1_backend": f"{__name__}.backend_registration:rename_privateuse1_backend"},
)  # fmt: skip


def set_module(obj: Any, mod: str) -> None:
    """Say that ``obj`` belongs to the module called ``mod``."""
    obj.__module__ = mod


def swap_tensors(t1: mt.Tensor, t2: mt.Tensor) -> None:
    """Exchange what two tensors are, data, class and Python attributes, so that all references to one see the other.

    RuntimeError where one of them has views or is one, in a graph, for these would not see it.
    """
    if t1 is t2:
        return
    one, other = t1.detach(), t2.detach()
    flags = t1.requires_grad, t2.requires_grad
    t1.requires_grad_(False).data, t2.requires_grad_(False).data = other, one
    t1.requires_grad_(flags[1])
    t2.requires_grad_(flags[0])
    t1.grad, t2.grad = t2.grad, t1.grad
    t1.__dict__, t2.__dict__ = t2.__dict__, t1.__dict__
    if type(t1) is not type(t2):
        t1.__class__, t2.__class__ = type(t2), type(t1)


def get_cpp_backtrace(frames_to_skip: int = 0, maximum_number_of_frames: int = 64) -> str:
    """An empty str: there are no C++ frames."""
    return ""
