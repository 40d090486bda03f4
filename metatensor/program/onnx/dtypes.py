"""Conversion between ONNX element types and dtypes, with the table of the checkpoint reader."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor._core.dtype import DType
from metatensor.checkpoint.onnx import STRING, TYPES

__all__ = ["SMALL", "STRING", "dtype_of", "element_type", "held_dtype", "onnx_package", "type_name"]

_DTYPES: dict[int, DType] = {number: getattr(mt, name) for number, (_, _, name) in TYPES.items() if name is not None}
_NUMBERS = {dtype: number for number, dtype in _DTYPES.items()}

SMALL: dict[int, DType] = {21: mt.uint8, 22: mt.int8, 23: mt.float8_e4m3fn, 25: mt.uint8, 26: mt.int8}
"""Types of elements smaller than a byte, and dtypes that represent all their values. Imported tensors have one element per byte."""


def dtype_of(element_type: int) -> DType:
    """Return the dtype that a number of ``TensorProto.DataType`` stands for. Raise `TypeError` if there is none."""
    found = _DTYPES.get(element_type)
    if found is None:
        raise TypeError(f"ONNX: there is no dtype for tensors of type {type_name(element_type)}")
    return found


def element_type(dtype: DType) -> int:
    """Return the number of a dtype in ``TensorProto.DataType``. Raise `TypeError` if ONNX has no such type."""
    found = _NUMBERS.get(dtype)
    if found is None:
        raise TypeError(f"ONNX has no tensors of dtype {dtype.name}")
    return found


def type_name(element_type: int) -> str:
    """Return the name that ONNX has for the number of a type, for messages."""
    return "STRING" if element_type == STRING else TYPES[element_type][0] if element_type in TYPES else f"number {element_type}"


def held_dtype(element_type: int) -> DType:
    """Return the dtype that represents the values of a type, which may be smaller than a byte. Raise `ValueError` if there is none."""
    found = SMALL.get(element_type) or _DTYPES.get(element_type)
    if found is None:
        raise ValueError(f"tensors of the ONNX type {type_name(element_type)} have no dtype here")
    return found


def onnx_package() -> Any:
    """Import and return the ``onnx`` package. Raise `ImportError` if it is not installed."""
    try:
        import onnx
    except ImportError as error:
        raise ImportError("ONNX models need the onnx package: pip install 'metatensor-device[onnx]'") from error
    return onnx
