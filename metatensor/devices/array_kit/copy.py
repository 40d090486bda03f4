"""Conversion between dtypes. Copies, casts and the storing of kernel results all use these functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from metatensor.devices.array_kit.formats import Format

__all__ = ["cast", "convert_into", "store"]

# C does not define casts of negative or large floats to these dtypes. Through int64 they wrap around, as in PyTorch.
_NARROW_UNSIGNED = frozenset(np.dtype(code) for code in ("u1", "u2", "u4"))
# NumPy's casts to these dtypes wrap around too. Those of other libraries may saturate.
_NARROW = _NARROW_UNSIGNED | {np.dtype("i1"), np.dtype("i2")}


def cast(array: Any, dtype: Any) -> Any:
    """Convert ``array`` to ``dtype``. Return ``array`` itself if it already has that dtype.

    Neither dtype may be a half dtype that is stored as bits. Fractions are truncated. A cast from complex to real
    discards the imaginary part. Every nonzero value, NaN included, becomes True.
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
    """Write ``value`` (an array of a computing dtype, or a number) to ``out``, an array of the stored dtype.

    With ``raw``, a value of the stored dtype is copied unchanged even if that dtype only holds bits. The shape of
    ``value`` must broadcast to that of ``out``. Callers that need equal shapes check them.
    """
    if not hasattr(value, "dtype"):
        value = xp.asarray(value)
    if value.dtype == format.raw and (raw or format.encode is None or format.raw.kind not in "iu"):
        out[...] = value
    elif format.encode is not None:
        # Round once: a float64 value goes through float32, as in PyTorch.
        value = cast(value, format.compute)
        out[...] = value if format.raw.char == "e" else format.encode(xp, value)
    elif value.dtype.kind == "c" or _by_int64(value, format.raw):
        out[...] = cast(value, format.raw)
    else:
        out[...] = value  # the assignment converts


def convert_into(
    xp: Any, out: Any, out_format: Format, source: Any, source_format: Format, conj: bool = False, neg: bool = False
) -> None:
    """Copy ``source`` to ``out``, converting between their formats. Both hold stored values and have the same shape.

    With ``conj`` or ``neg`` the values are conjugated or negated. Opaque dtypes (quantized and bit dtypes) can only be
    copied to the same dtype. Any other copy of them raises RuntimeError.
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
