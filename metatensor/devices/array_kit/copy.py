"""Conversion of values between dtypes, and storing them: one rule for copies, casts and kernel results."""

from __future__ import annotations

from typing import Any

import numpy as np

from metatensor.devices.array_kit.formats import Format

__all__ = ["cast", "convert_into", "store"]

# A C cast of a negative or large float to one of these is undefined; by way of int64 it wraps around, as in PyTorch.
_NARROW_UNSIGNED = frozenset(np.dtype(code) for code in ("u1", "u2", "u4"))


def cast(array: Any, dtype: Any) -> Any:
    """``array`` in another dtype, neither of them a half kind stored as bits; ``array`` itself if it has it.

    Fractions are cut off, complex to real drops the imaginary part, and anything but zero (NaN too) is true.
    """
    source = array.dtype
    if source == dtype:
        return array
    if source.kind == "c" and dtype.kind not in "cb":
        array = array.real
        source = array.dtype
    if source.kind == "f" and dtype in _NARROW_UNSIGNED:
        array = array.astype(np.int64)
    return array.astype(dtype)


def store(xp: Any, out: Any, format: Format, value: Any) -> None:
    """Write ``value`` (an array of a computing dtype, or a number) into ``out``, an array as it is stored.

    Shapes must broadcast; that they are equal is for the caller to check.
    """
    if not hasattr(value, "dtype"):
        value = xp.asarray(value)
    if format.encode is not None and value.dtype != format.raw:
        # Rounding once: a float64 goes through float32, as in PyTorch.
        out[...] = format.encode(xp, cast(value, format.compute))
    elif value.dtype == format.raw:
        out[...] = value
    else:
        out[...] = cast(value, format.raw)


def convert_into(xp: Any, out: Any, out_format: Format, source: Any, source_format: Format) -> None:
    """Copy ``source`` into ``out``, arrays of one shape as they are stored, from one dtype to another.

    Opaque dtypes (quantised and bit kinds) only copy to themselves: RuntimeError otherwise.
    """
    if source_format is out_format:
        out[...] = source
        return
    if source_format.opaque or out_format.opaque:
        raise RuntimeError(f"copy: cannot convert {source_format.name} to {out_format.name}")
    if source_format.decode is not None:
        source = source_format.decode(xp, source)
    store(xp, out, out_format, source)
