"""Operators that keep shapes visible to the ONNX exporter."""

from __future__ import annotations

from typing import Any

import metatensor as mt

__all__ = ["reshape_from_tensor_shape", "shape_as_tensor"]


def shape_as_tensor(x: Any) -> Any:
    """Return the shape of a tensor as an int64 tensor on cpu."""
    return mt.tensor(tuple(x.shape), dtype=mt.int64, device="cpu")


def reshape_from_tensor_shape(x: Any, shape: Any) -> Any:
    """Return `x` reshaped to the sizes that a tensor holds."""
    return x.reshape(shape.tolist())
