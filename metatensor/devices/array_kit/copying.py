"""Copies, and bytes from the host."""

from __future__ import annotations

from typing import Any

from metatensor.devices.array_kit.registry import kernel


@kernel("clone", "_to_copy.move", half="native")
def clone(kit: Any, out: Any, input: Any, *_: Any) -> None:
    out[...] = input


@kernel("_to_copy", half="tensors")
def to_copy(kit: Any, out: Any, input: Any, *_: Any) -> None:
    """By dtypes, not by arrays: an array of uint16 may hold bfloat16, and one of uint8 what are no numbers."""
    kit.copy(out, input)


