"""Functions that PyTorch offers both here and in its top-level module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import metatensor as mt
from metatensor import (
    atleast_1d,
    atleast_2d,
    atleast_3d,
    block_diag,
    broadcast_shapes,
    broadcast_tensors,
    cartesian_prod,
    cdist,
    chain_matmul,
    einsum,
    istft,
    lu,
    meshgrid,
    norm,
    split,
    stft,
    tensordot,
    unique,
    unique_consecutive,
    unravel_index,
)  # fmt: skip

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_shapes", "broadcast_tensors",
    "cartesian_prod", "cdist", "chain_matmul", "cond", "einsum", "istft", "lu", "meshgrid", "norm", "split", "stft",
    "tensordot", "unique", "unique_consecutive", "unravel_index", "while_loop",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "vmap":
        return mt.func.vmap  # type: ignore[attr-defined]
    raise AttributeError(f"module 'torch.functional' has no attribute {name!r} (metatensor stands in the place of PyTorch)")


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any = ()) -> Any:
    """Return ``true_fn(*operands)`` if `pred` is true, else ``false_fn(*operands)``.

    `pred` is a bool or a tensor with one element.
    """
    return true_fn(*operands) if pred else false_fn(*operands)


def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Any) -> Any:
    """Call ``carried_inputs = body_fn(*carried_inputs)`` while ``cond_fn(*carried_inputs)`` is true.

    Return the last inputs.
    """
    while cond_fn(*carried_inputs):
        carried_inputs = body_fn(*carried_inputs)
    return carried_inputs
