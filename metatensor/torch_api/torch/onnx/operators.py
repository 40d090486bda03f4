"""Shapes as tensors, so that an exporter sees them."""

from __future__ import annotations

from typing import Any

import metatensor as mt

__all__ = ["reshape_from_tensor_shape", "shape_as_tensor"]


def shape_as_tensor(x: Any) -> Any:
    """The shape as an int64 tensor."""
    return mt.tensor(tuple(x.shape), dtype=mt.int64, device="cpu")


def reshape_from_tensor_shape(x: Any, shape: Any) -> Any:
    """The tensor in the shape that another one holds."""
    return x.reshape(shape.tolist())
