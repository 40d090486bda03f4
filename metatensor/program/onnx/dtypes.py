"""The element types of ONNX and the dtypes that they are here."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.checkpoint.onnx import STRING, TYPES

__all__ = ["NAMES", "SMALL", "STRING", "dtype_of", "kind_of", "onnx_package"]

NAMES: dict[int, str] = {kind: name for kind, (name, _, _) in TYPES.items()} | {STRING: "STRING"}
"""Names of the element types by number."""

SMALL: dict[int, str] = {21: "uint8", 22: "int8", 23: "float8_e4m3fn", 25: "uint8", 26: "int8"}
"""Element types smaller than a byte, and the dtypes that have all their values. A tensor has one element per byte."""

_KINDS = {dtype: kind for kind, (_, _, dtype) in TYPES.items() if dtype is not None}


def dtype_of(kind: int) -> mt.dtype:
    """Return the dtype that holds the elements of an ONNX element type.

    Raises
    ------
    ValueError
        If the type is not known, or is that of strings.
    """
    name = SMALL.get(kind) or (TYPES[kind][2] if kind in TYPES else None)
    if name is None:
        raise ValueError(f"tensors of the ONNX type {NAMES.get(kind, kind)} have no dtype here")
    found: mt.dtype = getattr(mt, name)
    return found


def kind_of(dtype: mt.dtype) -> int:
    """Return the number of the ONNX element type of a dtype.

    Raises
    ------
    ValueError
        If ONNX has no such type.
    """
    kind = _KINDS.get(dtype.name)
    if kind is None:
        raise ValueError(f"ONNX has no element type for {dtype}")
    return kind


def onnx_package() -> Any:
    """Import and return the ``onnx`` package.

    Raises
    ------
    ImportError
        If it is not installed.
    """
    try:
        import onnx
    except ImportError as error:
        raise ImportError("ONNX models need the onnx package: pip install 'metatensor-device[onnx]'") from error
    return onnx
