"""Kernels that copy tensors."""

from __future__ import annotations

from typing import Any

from metatensor.devices.array_kit.registry import kernel


@kernel("clone", "_to_copy.move", half="native")
def clone(kit: Any, out: Any, input: Any, *_: Any) -> None:
    out[...] = input


@kernel("_to_copy", half="tensors")
def to_copy(kit: Any, out: Any, input: Any, *_: Any) -> None:
    """Convert between tensor dtypes. Array dtypes are ambiguous, because a uint16 array may hold bfloat16 values."""
    kit.copy(out, input)


