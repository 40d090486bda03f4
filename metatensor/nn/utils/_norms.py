"""Helpers of weight and spectral normalization."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import metatensor as mt
from metatensor.nn.module import Module

__all__: list[str] = []


def take_out(module: Module, message: str, is_it: Callable[[Any], bool]) -> Any:
    """Remove the first forward pre-hook for which ``is_it`` is true, call its `remove` method, and return it.

    If there is none, raise ValueError with the name of the module's class and ``message``.
    """
    hooks = module._forward_pre_hooks
    key = next((key for key, hook in hooks.items() if is_it(hook)), None)
    if key is None:
        raise ValueError(f"{type(module).__name__}: {message}")
    hooks[key].remove(module)
    return hooks.pop(key)


def norm_except_dim(v: mt.Tensor, dim: int) -> mt.Tensor:
    """Return the 2-norm over all dimensions except ``dim``, which have size 1 in the result.

    For ``dim=-1`` return the norm of the whole tensor, of shape ().
    """
    if dim == -1:
        return mt.linalg.vector_norm(v)
    others = [d for d in range(v.dim()) if d != dim % v.dim()]
    return mt.linalg.vector_norm(v, 2, others, keepdim=True) if others else v.abs()


def weight_of(v: mt.Tensor, g: mt.Tensor, dim: int) -> mt.Tensor:
    """Return ``v`` rescaled to the norms ``g``."""
    if v.dim() > 1 and dim in (0, v.dim() - 1):
        return mt._weight_norm_interface(v, g, dim)[0]
    return v * (g / norm_except_dim(v, dim))


def as_matrix(weight: mt.Tensor, dim: int) -> mt.Tensor:
    """Return a weight as a matrix whose rows are its slices along ``dim``."""
    if dim:
        weight = weight.permute(dim, *[d for d in range(weight.dim()) if d != dim])
    return weight.flatten(1)
