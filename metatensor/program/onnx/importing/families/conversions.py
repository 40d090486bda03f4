"""Conversions between element types."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor._core.tensor import Tensor
from metatensor.program.onnx.dtypes import SMALL, held_dtype, type_name
from metatensor.program.onnx.importing.operators import Node, operator
from metatensor.program.onnx.importing.values import OnnxError, Small, element_kind

__all__ = ["BITS", "cast"]

BITS = {21: 4, 22: 4, 23: 4, 25: 2, 26: 2}
"""Bits of the types smaller than a byte."""
_FLOAT4 = 23
_FLOAT8 = {17: 448.0, 18: 240.0, 19: 57344.0, 20: 57344.0}
"""Greatest values of the 8-bit types."""


def cast(value: Any, kind: int, saturate: bool = True, rounding: str = "up") -> Tensor | Small:
    """Convert the elements of a tensor to an ONNX element type.

    Parameters
    ----------
    value : Tensor or Small
        The tensor.
    kind : int
        The number of the type.
    saturate : bool
        Whether numbers that are too large become the greatest value of an 8-bit floating-point type, instead of NaN or infinity.
    rounding : {"up", "down", "nearest"}
        How powers of two are rounded to ``FLOAT8E8M0``.
    """
    x = value.tensor if isinstance(value, Small) else value
    if isinstance(value, Small) and value.kind == kind:
        return value
    if isinstance(value, Small) and value.kind == _FLOAT4:
        x = x.to(mt.float32)
    if kind == _FLOAT4:
        return Small(to_float4(x.to(mt.float32)), kind)
    if kind in SMALL:
        return Small(_small_integers(x, kind), kind)
    dtype = held_dtype(kind)
    if kind in _FLOAT8:
        return _to_float8(x, dtype, kind, saturate)
    if kind == 24:
        return _to_power(x, saturate, rounding)
    if x.dtype.itemsize == 1 and x.dtype.is_floating_point and not dtype.is_floating_point:
        x = x.to(mt.float32)
    return x.to(dtype)


def _small_integers(x: Tensor, kind: int) -> Tensor:
    """Keep the lowest bits, as casts between integers do."""
    bits = BITS[kind]
    whole = x.to(mt.float32).to(mt.int32) if x.is_floating_point() else x.to(mt.int32)
    kept = mt.bitwise_and(whole, (1 << bits) - 1)
    if SMALL[kind] is mt.int8:
        half = 1 << bits - 1
        kept = mt.bitwise_xor(kept, half) - half
    return kept.to(held_dtype(kind))


def to_float4(x: Tensor) -> Tensor:
    """Round magnitudes to 0, 0.5, 1, 1.5, 2, 3, 4 or 6, ties to the even mantissa. Larger magnitudes become 6, and NaN becomes -0."""
    size = mt.clamp(mt.abs(x), max=6.0)
    step = mt.where(size < 2, 0.5, mt.where(size < 4, 1.0, 2.0))
    rounded = mt.round(size / step) * step
    return mt.where(mt.isnan(x), -0.0, mt.copysign(rounded, x)).to(mt.float8_e4m3fn)


def _to_float8(x: Tensor, dtype: mt.dtype, kind: int, saturate: bool) -> Tensor:
    if not x.is_floating_point():
        x = x.to(mt.float32)
    if x.dtype is mt.float64 or x.dtype.itemsize == 1:
        x = x.to(mt.float32)
    greatest = _FLOAT8[kind]
    if saturate:
        return mt.where(mt.isnan(x), x, mt.clamp(x, -greatest, greatest)).to(dtype)
    # magnitudes from half a step above the greatest value on, which would be rounded up
    step = greatest / (14 if kind == 17 else 15 if kind == 18 else 7) / 2
    beyond = mt.abs(x) > greatest + step if kind == 17 else mt.abs(x) >= greatest + step
    special = mt.copysign(mt.full_like(x, float("inf" if kind == 19 else "nan")), x)
    return mt.where(beyond, special, mt.clamp(x, -greatest, greatest)).to(dtype)


def _to_power(x: Tensor, saturate: bool, rounding: str) -> Tensor:
    """Convert to the type that has only powers of two."""
    x = x.to(mt.float32)
    bits = x.view(mt.int32)
    exponent = mt.bitwise_and(mt.bitwise_right_shift(bits, 23), 0xFF)
    mantissa = mt.bitwise_and(bits, 0x7FFFFF)
    if rounding == "up":
        more = (mantissa > 0) & ((exponent > 0) | (mantissa > 0x400000))
    elif rounding == "down":
        more = mt.zeros_like(mantissa, dtype=mt.bool)
    elif rounding == "nearest":
        more = (mantissa >= 0x400000) & ((exponent > 0) | (mantissa > 0x400000))
    else:
        raise OnnxError(f"round_mode must be up, down or nearest, got {rounding!r}")
    limit = 0xFE if saturate else 0xFF
    made = mt.where(exponent == 0xFF, exponent, mt.clamp(exponent + more.to(mt.int32), max=limit))
    infinite = (exponent == 0xFF) & (mantissa == 0)
    if saturate:
        made = mt.where(infinite, 0xFE, made)
    return made.to(mt.uint8).view(mt.float8_e8m0fnu)


@operator("Cast", small=True)
def _cast(node: Node, x: Any) -> Any:
    kind = node.need("to")
    if isinstance(kind, str):  # before version 6
        kind = next((number for number in range(1, 64) if type_name(number) == kind.upper()), 0)
    return cast(x, kind, bool(node.get("saturate", 1)), node.get("round_mode", "up"))


@operator("CastLike", small=True)
def _cast_like(node: Node, x: Any, like: Any) -> Any:
    return cast(x, element_kind(like), bool(node.get("saturate", 1)), node.get("round_mode", "up"))


@operator("BitCast", small=True)
def _bit_cast(node: Node, x: Any) -> Any:
    kind = node.need("to")
    tensor = x.tensor if isinstance(x, Small) else x
    if isinstance(x, Small) or kind in SMALL:
        if not isinstance(x, Small) or BITS.get(kind) != BITS[x.kind] or _FLOAT4 in (kind, x.kind):
            raise NotImplementedError("BitCast between these types is not supported")
        return cast(x, kind)
    dtype = held_dtype(kind)
    if dtype is mt.bool or tensor.dtype is mt.bool:
        return tensor.view(mt.uint8) if dtype is mt.uint8 else tensor.view(mt.uint8).to(mt.bool)
    return tensor.view(dtype)


@operator("Identity", host=True)
def _identity(node: Node, x: Any) -> Any:
    return x


@operator("Constant", host=True)
def _constant(node: Node) -> Any:
    for name in ("value", "sparse_value"):
        if node.get(name) is not None:
            return node.get(name)
    for name, dtype in (("value_int", mt.int64), ("value_ints", mt.int64), ("value_float", mt.float32), ("value_floats", mt.float32)):
        if node.get(name) is not None:
            found = node.step.weak.get(name)
            if found is None:
                found = node.step.weak[name] = node.known(node.get(name), dtype)
            return found
    if node.get("value_string") is not None or node.get("value_strings") is not None:
        raise NotImplementedError("constants of strings are not supported")
    raise OnnxError("it has no value")


