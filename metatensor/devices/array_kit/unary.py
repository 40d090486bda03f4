"""Kernels of element-wise functions of one array."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from metatensor.devices.array_kit import host
from metatensor.devices.array_kit.pointwise import by_parts, elementwise, in_dtype, is_integral, is_single, unary
from metatensor.devices.array_kit.registry import kernel

elementwise({
    "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2", "log10": "log10",
    "sqrt": "sqrt", "sin": "sin", "cos": "cos", "tan": "tan", "asin": "arcsin",
    "acos": "arccos", "atan": "arctan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh",
    "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "neg": "negative", "square": "square",
    "bitwise_not": "invert",
})  # fmt: skip

unary("reciprocal", lambda xp, x: 1 / x)
unary("rsqrt", lambda xp, x: 1 / xp.sqrt(x))
unary("frac", lambda xp, x: x - xp.trunc(x))
unary("deg2rad", lambda xp, x: x * x.dtype.type(math.pi / 180))
unary("rad2deg", lambda xp, x: x * x.dtype.type(180 / math.pi))


@kernel("log1p")
def log1p(kit: Any, out: Any, input: Any) -> Any:
    """Return log(1 + x). The real part for complex x near 0 is not computed from 1 + x, which would lose digits."""
    xp, x = kit.xp, in_dtype(input, out.dtype)
    if x.dtype.kind != "c":
        return xp.log1p(x)
    real, imag = x.real, x.imag
    size = xp.hypot(real + 1, imag)
    near = (size > 0.5) & (size < 2)
    parts = xp.where(near, real, 0), xp.where(near, imag, 0)
    result = xp.empty(x.shape, x.dtype)
    result.real = xp.where(near, xp.log1p(parts[0] * (parts[0] + 2) + parts[1] * parts[1]) / 2, xp.log(size))
    result.imag = xp.arctan2(imag, real + 1)
    return result


@kernel("conj_physical")
def conj_physical(kit: Any, out: Any, input: Any) -> Any:
    return kit.xp.conjugate(input) if input.dtype.kind == "c" else input


@kernel("abs")
def absolute(kit: Any, out: Any, input: Any) -> Any:
    return input if input.dtype.kind == "b" else kit.xp.absolute(input)


@kernel("angle")
def angle(kit: Any, out: Any, input: Any) -> Any:
    xp = kit.xp
    if input.dtype.kind == "c":
        return xp.arctan2(input.imag, input.real)
    x = in_dtype(input, out.dtype)
    return xp.where(x < 0, x.dtype.type(math.pi), xp.where(x != x, x, x.dtype.type(0)))


@kernel("sign", "sgn")
def sign(kit: Any, out: Any, input: Any) -> Any:
    """Return the sign, which is 0 for NaN. The sign of a complex number is x / |x|."""
    xp = kit.xp
    if input.dtype.kind == "c":
        magnitude = xp.absolute(input)
        magnitude = xp.where(magnitude == 0, magnitude.dtype.type(1), magnitude)
        result = xp.empty(input.shape, input.dtype)
        result.real, result.imag = input.real / magnitude, input.imag / magnitude
        return result
    if input.dtype.kind == "b":
        return input
    return (input > 0).astype(out.dtype) - (input < 0).astype(out.dtype)


@kernel("signbit")
def signbit(kit: Any, out: Any, input: Any) -> Any:
    return input < 0 if is_integral(input) else kit.xp.signbit(input)


@kernel("nan_to_num")
def nan_to_num(kit: Any, out: Any, input: Any, nan: Any, posinf: Any, neginf: Any) -> Any:
    xp = kit.xp
    if is_integral(input):
        return input
    if input.dtype.kind == "c":
        result = xp.empty_like(input)
        result.real = nan_to_num(kit, result.real, input.real, nan, posinf, neginf)
        result.imag = nan_to_num(kit, result.imag, input.imag, nan, posinf, neginf)
        return result
    scalar = input.dtype.type
    limits = np.finfo(input.dtype)
    high = limits.max if posinf is None else scalar(posinf)
    low = limits.min if neginf is None else scalar(neginf)
    result = xp.where(input != input, scalar(0 if nan is None else nan), input)
    return xp.where(input == math.inf, high, xp.where(input == -math.inf, low, result))


@kernel("logical_not")
def logical_not(kit: Any, out: Any, input: Any) -> Any:
    return input == 0


# Rounding -----------------------------------------------------------------------------------


def _rounding(name: str) -> None:
    @kernel(name)
    def run(kit: Any, out: Any, input: Any) -> Any:
        return input if is_integral(input) else getattr(kit.xp, name)(input)


for _name in ("ceil", "floor", "trunc"):
    _rounding(_name)


@kernel("round")
def round_(kit: Any, out: Any, input: Any, decimals: int) -> Any:
    if is_integral(input):
        return input
    if decimals == 0:
        return kit.xp.rint(input)
    scale = input.dtype.type(10.0 ** abs(decimals))
    if decimals > 0:
        return kit.xp.rint(input * scale) / scale
    return kit.xp.rint(input / scale) * scale


# Special functions --------------------------------------------------------------------------


def _special(name: str, function: str) -> None:
    @kernel(name)
    def run(kit: Any, out: Any, input: Any) -> Any:
        return getattr(kit.special, function)(in_dtype(input, out.dtype))


@kernel("erf")
def erf(kit: Any, out: Any, input: Any) -> Any:
    if not is_single(kit, out, input):
        return kit.special.erf(in_dtype(input, out.dtype))
    by_parts(host.erf, input, out)
    return None


@kernel("erfinv")
def erfinv(kit: Any, out: Any, input: Any) -> Any:
    if not is_single(kit, out, input):
        return kit.special.erfinv(in_dtype(input, out.dtype))
    by_parts(host.erfinv, input, out)
    return None


for _name, _function in (("erfc", "erfc"), ("i0", "i0")):
    _special(_name, _function)


@kernel("lgamma")
def lgamma(kit: Any, out: Any, input: Any) -> Any:
    """Return log(|gamma(x)|), which is +inf at both infinities, as in C."""
    x = in_dtype(input, out.dtype)
    return kit.xp.where(x == -math.inf, x.dtype.type(math.inf), kit.special.gammaln(x))


@kernel("digamma")
def digamma(kit: Any, out: Any, input: Any) -> Any:
    xp = kit.xp
    x = in_dtype(input, out.dtype)
    pole = xp.where(x == 0, -xp.copysign(x.dtype.type(math.inf), x), x.dtype.type(math.nan))
    return xp.where((x <= 0) & (x == xp.floor(x)), pole, kit.special.psi(x))


def polygamma_values(kit: Any, x: Any, n: int) -> Any:
    """Return the n-th derivative of digamma, for n >= 1 by means of the Hurwitz zeta function."""
    xp = kit.xp
    if n == 0:
        return digamma(kit, x, x)
    if n == 1:
        # Use the reflection formula below 1/2: the zeta function is undefined for q <= 0.
        low = x < 0.5
        sine = xp.sin(x.dtype.type(math.pi) * x)
        direct = zeta_values(kit, x.dtype.type(2), xp.where(low, 1 - x, x))
        return xp.where(low, x.dtype.type(math.pi**2) / (sine * sine) - direct, direct)
    return (-1) ** (n + 1) * math.gamma(n + 1) * zeta_values(kit, x.dtype.type(n + 1), x)


def zeta_values(kit: Any, x: Any, q: Any) -> Any:
    """Return the Hurwitz zeta function. It is NaN for infinite ``q``, as in PyTorch."""
    return kit.xp.where((q == math.inf) & (x > 1), q.dtype.type(math.nan), kit.special.zeta(x, q))


@kernel("polygamma")
def polygamma(kit: Any, out: Any, input: Any, n: int) -> Any:
    return polygamma_values(kit, in_dtype(input, out.dtype), n)


@kernel("polygamma.n")
def polygamma_n(kit: Any, out: Any, n: int, input: Any) -> Any:
    return polygamma_values(kit, in_dtype(input, out.dtype), n)


@kernel("mvlgamma")
def mvlgamma(kit: Any, out: Any, input: Any, p: int) -> Any:
    x = in_dtype(input, out.dtype)
    total = kit.xp.full_like(x, p * (p - 1) / 4 * math.log(math.pi))
    for i in range(p):
        total = total + lgamma(kit, total, x - x.dtype.type(i / 2))
    return total


@kernel("sigmoid")
def sigmoid(kit: Any, out: Any, input: Any) -> Any:
    x = in_dtype(input, out.dtype)
    return 1 / (1 + kit.xp.exp(-x)) if x.dtype.kind == "c" else kit.special.expit(x)


@kernel("logit")
def logit(kit: Any, out: Any, input: Any, eps: float | None) -> Any:
    xp = kit.xp
    x = in_dtype(input, out.dtype)
    if eps is not None:
        x = xp.minimum(xp.maximum(x, x.dtype.type(eps)), x.dtype.type(1 - eps))
    return xp.log(x / (1 - x))


@kernel("sinc")
def sinc(kit: Any, out: Any, input: Any) -> Any:
    xp = kit.xp
    x = in_dtype(input, out.dtype)
    scaled = xp.where(x == 0, x.dtype.type(1), x) * x.dtype.type(math.pi)
    return xp.where(x == 0, x.dtype.type(1), xp.sin(scaled) / scaled)


@kernel("frexp")
def frexp(kit: Any, out: Any, input: Any) -> Any:
    return kit.xp.frexp(input)


# Classification -----------------------------------------------------------------------------


@kernel("isnan")
def isnan(kit: Any, out: Any, input: Any) -> Any:
    return input != input


@kernel("isinf")
def isinf(kit: Any, out: Any, input: Any) -> Any:
    return False if is_integral(input) else kit.xp.isinf(input)


@kernel("isfinite")
def isfinite(kit: Any, out: Any, input: Any) -> Any:
    return True if is_integral(input) else kit.xp.isfinite(input)


@kernel("isreal")
def isreal(kit: Any, out: Any, input: Any) -> Any:
    return input.imag == 0 if input.dtype.kind == "c" else True


@kernel("isposinf")
def isposinf(kit: Any, out: Any, input: Any) -> Any:
    return False if is_integral(input) else input == math.inf


@kernel("isneginf")
def isneginf(kit: Any, out: Any, input: Any) -> Any:
    return False if is_integral(input) else input == -math.inf
