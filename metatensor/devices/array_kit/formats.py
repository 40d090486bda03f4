"""Storage formats: how each dtype is stored, and how half dtypes are converted to dtypes that arrays compute with.

A `Format` names the array dtype that stores a metatensor dtype (``raw``) and the one used for computing (``compute``).
They differ for the half dtypes: float16, bfloat16, the float8 dtypes and complex32. A library that supports one of them
natively (NumPy with ml_dtypes) converts with ``astype``. For all other libraries the raw dtype is an unsigned integer
of the same size, and the functions of this module convert its bits, with the same results.

Values are converted through float32 and rounded to nearest, ties to even. Values out of range become infinity. In the
fnuz dtypes they become NaN. In float8_e4m3fn, which has no infinity, they become the largest value. float8_e8m0fnu
holds powers of two without a sign: magnitudes round to nearest, ties up, and zero becomes the smallest value. PyTorch
does the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

__all__ = ["Format", "formats"]

ORDINARY = {
    "bool": "?", "uint8": "u1", "int8": "i1", "int16": "i2", "int32": "i4", "int64": "i8",
    "uint16": "u2", "uint32": "u4", "uint64": "u8",
    "float32": "f4", "float64": "f8", "complex64": "c8", "complex128": "c16",
}
# These dtypes have no arithmetic. They are copied as integers.
OPAQUE = {
    "qint8": "i1", "quint8": "u1", "qint32": "i4", "quint4x2": "u1", "quint2x4": "u1",
    "bits1x8": "u1", "bits2x4": "u1", "bits4x2": "u1", "bits8": "u1", "bits16": "u2",
    **{f"uint{n}": "u1" for n in range(1, 8)}, **{f"int{n}": "i1" for n in range(1, 8)},
    "float4_e2m1fn_x2": "u1",
}
# Number of mantissa bits, exponent bias, and the convention for infinity and NaN.
FLOAT8 = {
    "float8_e5m2": (2, 15, "ieee"),
    "float8_e4m3fn": (3, 7, "fn"),
    "float8_e5m2fnuz": (2, 16, "fnuz"),
    "float8_e4m3fnuz": (3, 8, "fnuz"),
}


@dataclass(frozen=True)
class Format:
    """One dtype in one array library. ``decode`` and ``encode`` are None if ``raw`` equals ``compute``."""

    name: str
    raw: Any
    compute: Any
    decode: Callable[[Any, Any], Any] | None = None
    """``decode(xp, raw_array)`` returns a new array of the compute dtype."""
    encode: Callable[[Any, Any], Any] | None = None
    """``encode(xp, array)`` converts an array of the compute dtype to a new array of the raw dtype."""
    opaque: bool = False

    @property
    def half(self) -> bool:
        return self.decode is not None


def formats(own: Mapping[str, Any] | None = None) -> dict[str, Format]:
    """Return the formats of all dtypes. ``own`` gives the library's own array dtypes for half dtypes, by name."""
    table = {name: Format(name, np.dtype(code), np.dtype(code)) for name, code in ORDINARY.items()}
    table |= {name: Format(name, np.dtype(code), np.dtype(code), opaque=True) for name, code in OPAQUE.items()}
    single = np.dtype("f4")
    table["float16"] = Format("float16", np.dtype("f2"), single, _cast(single), _cast(np.dtype("f2")))
    table["bfloat16"] = Format("bfloat16", np.dtype("u2"), single, _decode_bfloat16, _encode_bfloat16)
    for name in (*FLOAT8, "float8_e8m0fnu"):
        table[name] = Format(name, np.dtype("u1"), single, _decoder(name), _fit(name, _encoder(name)))
    table["complex32"] = Format("complex32", np.dtype("u4"), np.dtype("c8"), _decode_complex32, _encode_complex32)
    for name, dtype in (own or {}).items():
        raw = np.dtype(dtype)
        if raw.itemsize != table[name].raw.itemsize:
            raise ValueError(f"{name} has {table[name].raw.itemsize} bytes an element, but {raw} has {raw.itemsize}")
        half = table[name].half
        compute = single if half else raw
        table[name] = Format(name, raw, compute, _cast(single) if half else None, _fit(name, _cast(raw)) if half else None)
    return table


def _fit(name: str, encode: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Wrap ``encode`` to clamp values that the format cannot hold, in the formats for which PyTorch does so."""
    if name == "float8_e4m3fn":
        largest = np.float32(448.0)
        return lambda xp, array: encode(xp, xp.clip(array, -largest, largest))
    if name == "float8_e8m0fnu":
        smallest = np.float32(2.0**-127)
        return lambda xp, array: encode(xp, xp.maximum(xp.abs(array), smallest))
    return encode


def _cast(dtype: Any) -> Callable[[Any, Any], Any]:
    return lambda xp, array: array.astype(dtype)


def _bits(array: Any, dtype: str) -> Any:
    """Reinterpret the memory as another dtype of the same size. 0-d arrays and all strides are supported."""
    return array.view(np.dtype(dtype))


def _decode_bfloat16(xp: Any, raw: Any) -> Any:
    return _bits(xp.left_shift(raw.astype(np.uint32), np.uint32(16)), "f4")


def _encode_bfloat16(xp: Any, array: Any) -> Any:
    bits = _bits(xp.ascontiguousarray(array), "u4").reshape(array.shape)
    # Adding half a unit, minus one if the kept part is even, rounds ties to even.
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return xp.where(xp.isnan(array), np.uint32(0x7FC0), rounded).astype(np.uint16)


def _decode_complex32(xp: Any, raw: Any) -> Any:
    halves = _bits(xp.ascontiguousarray(raw).reshape(-1), "f2")
    return _bits(halves.astype(np.float32), "c8").reshape(raw.shape)


def _encode_complex32(xp: Any, array: Any) -> Any:
    parts = _bits(xp.ascontiguousarray(array).reshape(-1), "f4")
    return _bits(parts.astype(np.float16), "u4").reshape(array.shape)


@cache
def _values(name: str) -> np.ndarray:
    """Return the 256 values of an 8-bit float dtype as float32, computed from its definition."""
    codes = np.arange(256)
    if name == "float8_e8m0fnu":
        # Use ldexp in float64: the smallest value, 2**-127, is subnormal in float32 but exact.
        return np.where(codes == 255, np.nan, np.ldexp(1.0, np.minimum(codes, 254) - 127)).astype(np.float32)
    mantissa_bits, bias, kind = FLOAT8[name]
    magnitude = codes & 0x7F
    exponent, mantissa = magnitude >> mantissa_bits, magnitude & ((1 << mantissa_bits) - 1)
    fraction = mantissa / (1 << mantissa_bits)
    value = np.where(exponent == 0, np.ldexp(fraction, 1 - bias), np.ldexp(1 + fraction, exponent - bias))
    if kind == "ieee":
        top = exponent == (0x7F >> mantissa_bits)
        value = np.where(top, np.where(mantissa == 0, np.inf, np.nan), value)
    elif kind == "fn":
        value = np.where(magnitude == 0x7F, np.nan, value)
    value = np.where(codes & 0x80, -value, value)
    if kind == "fnuz":
        value[0x80] = np.nan  # the code of negative zero in other formats
    return value.astype(np.float32)


@cache
def _bounds(name: str) -> np.ndarray:
    """Return float32 thresholds. The code of a magnitude is the number of thresholds that it reaches.

    Each threshold is the midpoint between two neighbouring values. If a tie rounds down (to the even code), the
    threshold is the next float above the midpoint.
    """
    # A value one step above the largest finite one stands for overflow.
    magnitudes: Any = _values(name)[: 255 if name == "float8_e8m0fnu" else 128].astype(np.float64)
    values = magnitudes[np.isfinite(magnitudes)]
    after = values[-1] * 2 if name == "float8_e8m0fnu" else 2 * values[-1] - values[-2]
    middles = ((values + np.append(values[1:], after)) / 2).astype(np.float32)
    even = np.arange(len(middles)) % 2 == 0
    if name == "float8_e8m0fnu":
        # Ties round up. Between the smallest value, 2**-127, which is subnormal in float32, and the next one, 2**-126,
        # everything above the smallest value rounds up.
        middles[0], even = values[0], np.arange(len(middles)) == 0
    return np.where(even, np.nextafter(middles, np.float32(np.inf)), middles).astype(np.float32)


def _decoder(name: str) -> Callable[[Any, Any], Any]:
    return lambda xp, raw: _on(xp, _values(name))[raw]


def _encoder(name: str) -> Callable[[Any, Any], Any]:
    def encode(xp: Any, array: Any) -> Any:
        array = xp.asarray(array)
        magnitude = xp.abs(array)
        code = xp.searchsorted(_on(xp, _bounds(name)), magnitude, side="right").astype(np.uint8)
        if name == "float8_e8m0fnu":
            return xp.where(xp.isnan(array), np.uint8(255), code)
        kind = FLOAT8[name][2]
        negative = xp.signbit(array)
        if kind == "fnuz":
            overflow = xp.isnan(array) | (code >= np.uint8(0x80))
            signed = xp.where(negative & (code > 0), code | np.uint8(0x80), code)
            return xp.where(overflow, np.uint8(0x80), signed)
        code = xp.where(xp.isnan(array), np.uint8(0x7F if kind == "fn" else 0x7E), code)
        return xp.where(negative, code | np.uint8(0x80), code)

    return encode


def _on(xp: Any, table: np.ndarray) -> Any:
    """Move a constant table to the array library's device. The tables are small and never change."""
    if xp is np:
        return table
    return xp.asarray(table)
