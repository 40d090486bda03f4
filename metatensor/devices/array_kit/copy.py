"""Conversion of values between dtypes, and storing them: one rule for copies, casts and kernel results."""

from __future__ import annotations

from typing import Any

import numpy as np

from metatensor.devices.array_kit.formats import Format

__all__ = ["cast", "convert_into", "store"]

# A C cast of a negative or large float to one of these is undefined; by way of int64 it wraps around, as in PyTorch.
_NARROW_UNSIGNED = frozenset(np.dtype(code) for code in ("u1", "u2", "u4"))
# So does one to these in NumPy; elsewhere it may stop at the ends of the range.
_NARROW = _NARROW_UNSIGNED | {np.dtype("i1"), np.dtype("i2")}


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
    if _by_int64(array, dtype):
        array = array.astype(np.int64)
    return array.astype(dtype)


def _by_int64(array: Any, dtype: Any) -> bool:
    return array.dtype.kind == "f" and dtype in (_NARROW_UNSIGNED if isinstance(array, (np.ndarray, np.generic)) else _NARROW)


def store(xp: Any, out: Any, format: Format, value: Any, raw: bool = False) -> None:
    """Write ``value`` (an array of a computing dtype, or a number) into ``out``, an array as it is stored.

    With ``raw`` a value of the stored dtype is stored as it is, also where that dtype only holds bits. Shapes must
    broadcast; that they are equal is for the caller to check.
    """
    if not hasattr(value, "dtype"):
        value = xp.asarray(value)
    if value.dtype == format.raw and (raw or format.encode is None or format.raw.kind not in "iu"):
        out[...] = value
    elif format.encode is not None:
        # Rounding once: a float64 goes through float32, as in PyTorch.
        value = cast(value, format.compute)
        out[...] = value if format.raw.char == "e" else format.encode(xp, value)
    elif value.dtype.kind == "c" or _by_int64(value, format.raw):
        out[...] = cast(value, format.raw)
    else:
        out[...] = value  # converted as it is written


def convert_into(
    xp: Any, out: Any, out_format: Format, source: Any, source_format: Format, conj: bool = False, neg: bool = False
) -> None:
    """Copy ``source`` into ``out``, arrays of one shape as they are stored, from one dtype to another.

    With ``conj`` or ``neg`` the values are conjugated or negated on the way. Opaque dtypes (quantised and bit kinds)
    only copy to themselves: RuntimeError otherwise.
    """
    if source_format is out_format and not (conj or neg):
        out[...] = source
        return
    if source_format.opaque or out_format.opaque:
        raise RuntimeError(f"copy: cannot convert {source_format.name} to {out_format.name}")
    if source_format.decode is not None and (source_format.raw.char != "e" or out_format.raw.kind != "f" or conj or neg):
        source = source_format.decode(xp, source)
    if conj:
        source = xp.conj(source)
    if neg:
        source = xp.negative(source)
    store(xp, out, out_format, source)
