"""Element types of ONNX and dtypes: both directions of the table that the reader of checkpoints has."""

from __future__ import annotations

import metatensor as mt
from metatensor._core.dtype import DType
from metatensor.checkpoint.onnx import STRING, TYPES

__all__ = ["dtype_of", "element_type", "type_name"]

_DTYPES: dict[int, DType] = {number: getattr(mt, name) for number, (_, _, name) in TYPES.items() if name is not None}
_NUMBERS = {dtype: number for number, dtype in _DTYPES.items()}


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
