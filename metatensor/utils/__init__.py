"""Utilities. Submodules are loaded on first access."""

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
    """Set ``obj.__module__`` to `mod`."""
    obj.__module__ = mod


def swap_tensors(t1: mt.Tensor, t2: mt.Tensor) -> None:
    """Exchange the contents of two tensors: data, class, gradient and Python attributes.

    Every reference to `t1` then sees the former contents of `t2`, and vice versa. Views keep their data. Raise
    RuntimeError if one of the tensors is the result of an operator that recorded gradients.

    Examples
    --------
    >>> import metatensor as mt
    >>> a, b = mt.empty(2, device="meta"), mt.empty(3, 4, device="meta")
    >>> mt.utils.swap_tensors(a, b)
    >>> a.shape
    metatensor.Size([3, 4])
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
    """Return an empty string, because there are no C++ frames."""
    return ""
