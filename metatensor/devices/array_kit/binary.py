"""Kernels of element-wise arithmetic with two operands."""

from __future__ import annotations

from typing import Any

import numpy as np

from metatensor.devices.array_kit.pointwise import binary, elementwise, in_dtype, is_integral
from metatensor.devices.array_kit.registry import kernel
from metatensor.devices.array_kit.scan import complex_logaddexp

elementwise({
    "mul": "multiply", "maximum": "maximum", "minimum": "minimum", "fmax": "fmax", "fmin": "fmin",
    "atan2": "arctan2", "hypot": "hypot", "copysign": "copysign", "logaddexp2": "logaddexp2",
    "gcd": "gcd", "lcm": "lcm", "float_power": "power",
})  # fmt: skip


def _scaled(value: Any, alpha: Any, dtype: Any) -> Any:
    value = in_dtype(value, dtype)
    return value if alpha == 1 else value * in_dtype(alpha, dtype)


@kernel("add", ufunc="add", rest=(1,))
def add(kit: Any, out: Any, input: Any, other: Any, alpha: Any) -> None:
    kit.xp.add(in_dtype(input, out.dtype), _scaled(other, alpha, out.dtype), out=out)


@kernel("sub", ufunc="subtract", rest=(1,))
def sub(kit: Any, out: Any, input: Any, other: Any, alpha: Any) -> None:
    kit.xp.subtract(in_dtype(input, out.dtype), _scaled(other, alpha, out.dtype), out=out)


@kernel("rsub")
def rsub(kit: Any, out: Any, input: Any, other: Any, alpha: Any) -> None:
    kit.xp.subtract(in_dtype(other, out.dtype), _scaled(input, alpha, out.dtype), out=out)


# Division -----------------------------------------------------------------------------------


def _check_divisor(kit: Any, divisor: Any) -> None:
    """Raise RuntimeError for an integer divisor of 0. Only the host checks this: other devices would have to synchronize."""
    if kit.on_host and is_integral(divisor) and not np.all(divisor):
        raise RuntimeError("ZeroDivisionError: integer division or modulo by zero")


@kernel("div")
def div(kit: Any, out: Any, input: Any, other: Any, rounding_mode: str | None) -> Any:
    xp = kit.xp
    a, b = in_dtype(input, out.dtype), in_dtype(other, out.dtype)
    if rounding_mode is None:
        xp.divide(a, b, out=out)
        return None
    if rounding_mode == "floor":
        return floor_divide(kit, out, a, b)
    if not is_integral(a):
        return xp.trunc(a / b)
    _check_divisor(kit, b)
    quotient = xp.floor_divide(a, b)
    inexact = quotient * b != a
    return quotient + (inexact & ((a < 0) != (b < 0))).astype(out.dtype)


@kernel("floor_divide")
def floor_divide(kit: Any, out: Any, input: Any, other: Any) -> Any:
    a, b = in_dtype(input, out.dtype), in_dtype(other, out.dtype)
    _check_divisor(kit, b)
    return kit.xp.floor_divide(a, b)


@kernel("remainder")
def remainder(kit: Any, out: Any, input: Any, other: Any) -> Any:
    a, b = in_dtype(input, out.dtype), in_dtype(other, out.dtype)
    _check_divisor(kit, b)
    return kit.xp.remainder(a, b)


@kernel("fmod")
def fmod(kit: Any, out: Any, input: Any, other: Any) -> Any:
    a, b = in_dtype(input, out.dtype), in_dtype(other, out.dtype)
    _check_divisor(kit, b)
    return kit.xp.fmod(a, b)


# Powers -------------------------------------------------------------------------------------


@kernel("pow")
def pow_(kit: Any, out: Any, input: Any, exponent: Any) -> Any:
    xp = kit.xp
    base, power = in_dtype(input, out.dtype), in_dtype(exponent, out.dtype)
    if out.dtype.kind == "b":
        return base | ~power
    if out.dtype.kind != "i":
        return xp.power(base, power)
    # An integer to a negative power is 0, except if the base is 1 or -1.
    negative = power < 0
    odd = (power & 1).astype(bool)
    small = xp.where(base == 1, 1, xp.where(base == -1, xp.where(odd, -1, 1), 0)).astype(out.dtype)
    return xp.where(negative, small, xp.power(base, xp.where(negative, in_dtype(0, out.dtype), power)))


binary("ldexp", lambda xp, x, y: x * xp.exp2(y))


@kernel("xlogy")
def xlogy(kit: Any, out: Any, input: Any, other: Any) -> Any:
    return kit.special.xlogy(in_dtype(input, out.dtype), in_dtype(other, out.dtype))


@kernel("logaddexp")
def logaddexp(kit: Any, out: Any, input: Any, other: Any) -> Any:
    xp = kit.xp
    a, b = in_dtype(input, out.dtype), in_dtype(other, out.dtype)
    if out.dtype.kind != "c":
        return xp.logaddexp(a, b)
    return complex_logaddexp(xp, a, b)


# Other functions ----------------------------------------------------------------------------


@kernel("heaviside")
def heaviside(kit: Any, out: Any, input: Any, values: Any) -> Any:
    return kit.xp.where(input == 0, values, (input > 0).astype(out.dtype))


@kernel("nextafter", half="native")
def nextafter(kit: Any, out: Any, input: Any, other: Any) -> Any:
    """Compute in the stored dtype, because the next float32 number would be rounded back to the same half value."""
    xp = kit.xp
    if out.dtype.kind != "u" and input.dtype == other.dtype == out.dtype:
        return xp.nextafter(input, other)
    decode = kit.formats["bfloat16"].decode
    # If the array library has no bfloat16, its bits are stored in unsigned integers.
    values = [decode(xp, value) if value.dtype.kind == "u" else value for value in (input, other)]
    if out.dtype.kind != "u":
        return xp.nextafter(*[in_dtype(value, out.dtype) for value in values])
    a, b = values
    bits = xp.broadcast_to(input, out.shape).astype(np.int32)
    up = (b > a) == (a >= 0)
    step = xp.where(a == 0, xp.where(b > 0, 1, 0x8001), bits + xp.where(up, 1, -1))
    result = xp.where(a == b, xp.broadcast_to(other, out.shape), step.astype(np.uint16))
    return xp.where((a != a) | (b != b), np.uint16(0x7FC0), result)


@kernel("igamma")
def igamma(kit: Any, out: Any, input: Any, other: Any) -> Any:
    return _gamma_part(kit, out, input, other, "gammainc", 0)


@kernel("igammac")
def igammac(kit: Any, out: Any, input: Any, other: Any) -> Any:
    return _gamma_part(kit, out, input, other, "gammaincc", 1)


def _gamma_part(kit: Any, out: Any, input: Any, other: Any, function: str, at_zero: int) -> Any:
    """Apply a regularized gamma function. As in PyTorch, one argument may be NaN if the other determines the result."""
    a, x = in_dtype(input, out.dtype), in_dtype(other, out.dtype)
    result, low, high = getattr(kit.special, function)(a, x), out.dtype.type(at_zero), out.dtype.type(1 - at_zero)
    result = kit.xp.where(kit.xp.isnan(a) & (x == np.inf), high, result)
    return kit.xp.where((kit.xp.isnan(a) & (x == 0)) | ((a == np.inf) & kit.xp.isnan(x)), low, result)


@kernel("complex")
def complex_(kit: Any, out: Any, real: Any, imag: Any) -> None:
    out.real = real
    out.imag = imag


@kernel("polar")
def polar(kit: Any, out: Any, abs: Any, angle: Any) -> None:
    out.real = abs * kit.xp.cos(angle)
    out.imag = abs * kit.xp.sin(angle)
