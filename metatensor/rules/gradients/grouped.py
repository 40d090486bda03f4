"""Gradients of grouped matrix products, which are grouped products themselves."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor._core.gradients import ops

__all__ = []


def first(grad: Any, mat2: Any, offs: Any, input_layout: Any) -> Any:
    """Return the gradient of the left factor, column-major if the factor is."""
    return _product(grad, mat2.mT, offs, input_layout)


def second(grad: Any, input: Any, offs: Any, mat2_layout: Any) -> Any:
    """Return the gradient of the right factor, column-major if the factor is."""
    return _product(input.mT, grad, offs, mat2_layout)


def _product(left: Any, right: Any, offs: Any, layout: Any) -> Any:
    left, right = _aligned(left), _aligned(right)
    if layout.strides[-1] == 1:
        return ops._grouped_mm(left, right, offs)
    return ops._grouped_mm(right.mT, left.mT, offs).mT


def _aligned(t: Any) -> Any:
    """Return a tensor with strides that a grouped product accepts: rows or columns that begin at multiples of 16 bytes."""
    inner, outer = sorted((t.stride(-1), t.stride(-2)))
    sizes = t.shape[-1] if t.stride(-1) == 1 else t.shape[-2]
    if inner == 1 and outer >= sizes and not outer * t.itemsize % 16:
        return t
    width = t.shape[-1]
    lacking = -width % (16 // t.itemsize)
    return mt.nn.functional.pad(t, (0, lacking))[..., :width] if lacking else t.clone(memory_format=mt.contiguous_format)
