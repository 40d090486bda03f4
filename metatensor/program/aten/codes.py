"""The numbers that stand for dtypes, layouts and memory formats in PyTorch's files."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor._core.dtype import DType

__all__ = ["dtype_code", "dtype_of", "layout_of", "memory_format_of"]

# In TorchScript a dtype is the number that PyTorch's C++ code gives it.
_DTYPES = dict(enumerate((
    "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex32", "complex64", "complex128", "bool", "qint8",
    "quint8", "qint32", "bfloat16", "quint4x2", "quint2x4", "bits1x8", "bits2x4", "bits4x2", "bits8", "bits16", "float8_e5m2",
    "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz", "uint16", "uint32", "uint64",
)))  # fmt: skip
_CODES = {name: code for code, name in _DTYPES.items()}
_FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")


def dtype_of(code: int) -> DType:
    """Return the dtype that a number stands for. Raise NotImplementedError if metatensor has none."""
    found = getattr(mt, _DTYPES.get(code, ""), None)
    if not isinstance(found, DType):
        raise NotImplementedError(f"there is no dtype {_DTYPES.get(code, code)} in metatensor")
    return found


def dtype_code(dtype: DType) -> int:
    """Return the number of a dtype."""
    if dtype.name not in _CODES:
        raise NotImplementedError(f"TorchScript has no number for the dtype {dtype}")
    return _CODES[dtype.name]


def layout_of(code: int) -> Any:
    """Return the layout that a number stands for. Raise NotImplementedError unless it is strided."""
    if code != 0:
        raise NotImplementedError(f"metatensor has strided tensors only, not those of layout {code}")
    return mt.strided


def memory_format_of(code: int) -> Any:
    """Return the memory format that a number stands for."""
    if not 0 <= code < len(_FORMATS):
        raise NotImplementedError(f"there is no memory format {code}")
    return getattr(mt, _FORMATS[code])
