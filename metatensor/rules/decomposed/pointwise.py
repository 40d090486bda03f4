"""Element-wise functions of one or more tensors."""

from __future__ import annotations

import math
from typing import Any

import metatensor as mt
from metatensor.rules.decompositions import decomposition, numeric


def floating(x: Any) -> Any:
    """Convert integers and bool to the default floating-point dtype."""
    return x if x.is_floating_point() or x.is_complex() else x.to(mt.get_default_dtype())


def pair(a: Any, b: Any) -> tuple[Any, Any]:
    """Convert two operands to tensors of their promoted dtype and broadcast them."""
    dtype = mt.result_type(a, b)
    device = a.device if isinstance(a, mt.Tensor) else b.device
    a, b = (x.to(dtype) if isinstance(x, mt.Tensor) else mt.full((), x, dtype=dtype, device=device) for x in (a, b))
    a, b = mt.broadcast_tensors(a, b)
    return a, b


def floats(a: Any, b: Any) -> tuple[Any, Any]:
    """Do the same as `pair`, and convert integers and bool to the default floating-point dtype."""
    a, b = pair(a, b)
    return floating(a), floating(b)


_LN2, _LN10 = math.log(2), math.log(10)
_UNARY: dict[str, Any] = {
    "reciprocal": lambda x: mt.div(mt.ones_like(floating(x)), floating(x)),
    "rsqrt": lambda x: 1 / floating(x).sqrt(),
    "square": lambda x: x * x if x.dtype is not mt.bool else x.to(mt.int64),
    "exp2": lambda x: mt.pow(2.0, floating(x)),
    "log2": lambda x: floating(x).log() / _LN2,
    "log10": lambda x: floating(x).log() / _LN10,
    "erfc": lambda x: 1 - floating(x).erf(),
    "sigmoid": lambda x: ((floating(x) * 0.5).tanh() + 1) * 0.5,
    "deg2rad": lambda x: floating(x) * (math.pi / 180),
    "rad2deg": lambda x: floating(x) * (180 / math.pi),
    "frac": lambda x: x - x.trunc(),
    "special.entr": lambda x: _entr(floating(x)),
    "special.ndtr": lambda x: ((floating(x) * math.sqrt(0.5)).erf() + 1) * 0.5,
    "special.ndtri": lambda x: (floating(x) * 2 - 1).erfinv() * math.sqrt(2),
    "sinc": lambda x: _sinc(floating(x) * math.pi),
    "angle": lambda x: _angle(floating(x)),
}
for _name, _function in _UNARY.items():
    numeric(_name, complex=not _name.startswith(("special", "frac", "erfc", "deg2rad", "rad2deg", "log")))(_function)


def _entr(x: Any) -> Any:
    return mt.where(x == 0, 0.0, mt.where(x < 0, -math.inf, -x * x.log()))


def _sinc(x: Any) -> Any:
    return mt.where(x == 0, 1.0, x.sin() / x)


def _angle(x: Any) -> Any:
    if x.is_complex():
        return mt.atan2(x.imag, x.real)
    return mt.where(x < 0, math.pi, mt.where(x.isnan(), x, mt.zeros_like(x)))


@decomposition("isfinite")
def isfinite(x: Any) -> Any:
    if x.is_complex():
        return x.real.isfinite() & x.imag.isfinite()
    return (x - x) == 0 if x.is_floating_point() else mt.ones_like(x, dtype=mt.bool)


@decomposition("isinf")
def isinf(x: Any) -> Any:
    if x.is_complex():
        return x.real.isinf() | x.imag.isinf()
    return x.abs() == math.inf if x.is_floating_point() else mt.zeros_like(x, dtype=mt.bool)


@decomposition("isposinf")
def isposinf(x: Any) -> Any:
    return x == math.inf if x.is_floating_point() else mt.zeros_like(x, dtype=mt.bool)


@decomposition("isneginf")
def isneginf(x: Any) -> Any:
    return x == -math.inf if x.is_floating_point() else mt.zeros_like(x, dtype=mt.bool)


@decomposition("isreal")
def isreal(x: Any) -> Any:
    return x.imag == 0 if x.is_complex() else mt.ones_like(x, dtype=mt.bool)


@decomposition("signbit")
def signbit(x: Any) -> Any:
    """Distinguish -0.0 from 0.0 by the sign of the reciprocal."""
    return (x < 0) | ((x == 0) & (x.reciprocal() < 0)) if x.is_floating_point() else x < 0


@decomposition("conj_physical")
def conj_physical(x: Any) -> Any:
    return mt.complex(x.real, -x.imag) if x.is_complex() else x


@decomposition("sgn")
def sgn(x: Any) -> Any:
    return mt.where(x == 0, 0, x / x.abs()) if x.is_complex() else x.sign()


@decomposition("rsub")
def rsub(x: Any, other: Any, alpha: Any) -> Any:
    return mt.sub(other, x, alpha=alpha) if isinstance(other, mt.Tensor) else mt.sub(mt.full((), other, dtype=mt.result_type(x, other),
                                                                                            device=x.device), x, alpha=alpha)  # fmt: skip


@decomposition("floor_divide")
def floor_divide(a: Any, b: Any) -> Any:
    return mt.div(a, b, rounding_mode="floor")


@decomposition("float_power")
def float_power(a: Any, b: Any) -> Any:
    dtype = mt.complex128 if mt.result_type(a, b).is_complex else mt.float64
    a, b = (x.to(dtype) if isinstance(x, mt.Tensor) else x for x in (a, b))
    return mt.pow(a, b)


@decomposition("max.other")
def max_other(a: Any, b: Any) -> Any:
    return mt.maximum(a, b)


@decomposition("min.other")
def min_other(a: Any, b: Any) -> Any:
    return mt.minimum(a, b)


@decomposition("fmax")
def fmax(a: Any, b: Any) -> Any:
    a, b = pair(a, b)
    return mt.where(a.isnan(), b, mt.where(b.isnan(), a, mt.maximum(a, b)))


@decomposition("fmin")
def fmin(a: Any, b: Any) -> Any:
    a, b = pair(a, b)
    return mt.where(a.isnan(), b, mt.where(b.isnan(), a, mt.minimum(a, b)))


@decomposition("copysign")
def copysign(a: Any, b: Any) -> Any:
    a, b = floats(a, b)
    return mt.where(b.signbit(), -a.abs(), a.abs())


@numeric("hypot")
def hypot(a: Any, b: Any) -> Any:
    """Divide by the larger magnitude, so that the squares do not overflow."""
    a, b = (x.abs() for x in pair(a, b))
    big, small = mt.maximum(a, b), mt.minimum(a, b)
    ratio = mt.where(big == 0, 0.0, small / big)
    return mt.where(a.isinf() | b.isinf(), math.inf, big * (ratio * ratio + 1).sqrt())


@numeric("logaddexp")
def logaddexp(a: Any, b: Any) -> Any:
    a, b = pair(a, b)
    big = mt.maximum(a, b)
    return mt.where((a == b) & a.isinf(), a, big + (-(a - b).abs()).exp().log1p())


@numeric("logaddexp2")
def logaddexp2(a: Any, b: Any) -> Any:
    return mt.logaddexp(a * _LN2, b * _LN2) / _LN2


@numeric("xlogy")
def xlogy(a: Any, b: Any) -> Any:
    a, b = floats(a, b)
    return mt.where(b.isnan(), math.nan, mt.where(a == 0, 0.0, a * b.log()))


@numeric("special.xlog1py")
def xlog1py(a: Any, b: Any) -> Any:
    a, b = floats(a, b)
    return mt.where(b.isnan(), math.nan, mt.where(a == 0, 0.0, a * b.log1p()))


@numeric("ldexp", complex=True)
def ldexp(a: Any, b: Any) -> Any:
    return floating(a) * mt.pow(2.0, b)


@decomposition("heaviside")
def heaviside(x: Any, values: Any) -> Any:
    x, values = mt.broadcast_tensors(x, values)
    return mt.where(x == 0, values, (x > 0).to(x.dtype))


@numeric("lerp", complex=True)
def lerp(start: Any, end: Any, weight: Any) -> Any:
    """Interpolate from the nearer end, so that the results at both ends are exact."""
    near = abs(weight) < 0.5
    steps = end - start
    if not isinstance(weight, mt.Tensor):
        return start + weight * steps if near else end - steps * (1 - weight)
    return mt.where(near, start + weight * steps, end - steps * (1 - weight))


@decomposition("logical_and")
def logical_and(a: Any, b: Any) -> Any:
    return (a != 0) & (b != 0)


@decomposition("logical_or")
def logical_or(a: Any, b: Any) -> Any:
    return (a != 0) | (b != 0)


@decomposition("logical_xor")
def logical_xor(a: Any, b: Any) -> Any:
    return (a != 0) ^ (b != 0)


@decomposition("isclose")
def isclose(a: Any, b: Any, rtol: float, atol: float, equal_nan: bool) -> Any:
    near = a == b
    if a.is_floating_point() or a.is_complex():
        near = near | (((a - b).abs() <= atol + (rtol * b).abs()) & (a - b).isfinite() & b.isfinite())
        return near | (a.isnan() & b.isnan()) if equal_nan else near
    return near | ((a.to(mt.float64) - b.to(mt.float64)).abs() <= atol + (rtol * b.to(mt.float64)).abs())


@decomposition("allclose")
def allclose(a: Any, b: Any, rtol: float, atol: float, equal_nan: bool) -> Any:
    return bool(mt.isclose(a, b, rtol, atol, equal_nan).all().item())


@decomposition("equal")
def equal(a: Any, b: Any) -> Any:
    return a.shape == b.shape and bool((a == b).all().item())


@decomposition("is_nonzero")
def is_nonzero(x: Any) -> Any:
    return bool(x.item())


@decomposition("clamp")
def clamp(x: Any, low: Any, high: Any) -> Any:
    for bound, choose in ((low, mt.maximum), (high, mt.minimum)):
        if bound is not None:
            x = choose(*pair(x, bound))
    return x


@decomposition("clamp_min")
def clamp_min(x: Any, low: Any) -> Any:
    return mt.maximum(*pair(x, low))


@decomposition("clamp_max")
def clamp_max(x: Any, high: Any) -> Any:
    return mt.minimum(*pair(x, high))


@decomposition("nan_to_num")
def nan_to_num(x: Any, nan: Any, posinf: Any, neginf: Any) -> Any:
    if x.is_complex():
        return mt.complex(*(mt.nan_to_num(part, nan, posinf, neginf) for part in (x.real, x.imag)))
    if not x.is_floating_point():
        return x
    ends = mt.finfo(x.dtype)
    x = mt.where(x.isnan(), 0.0 if nan is None else nan, x)
    x = mt.where(x == math.inf, ends.max if posinf is None else posinf, x)
    return mt.where(x == -math.inf, ends.min if neginf is None else neginf, x)


@decomposition("masked_fill")
def masked_fill(x: Any, mask: Any, value: Any) -> Any:
    if not isinstance(value, mt.Tensor):
        value = mt.full((), value, dtype=x.dtype, device=x.device)
    return mt.where(mask, value.to(x.dtype), x)


@numeric("addcmul", complex=True)
def addcmul(x: Any, a: Any, b: Any, value: Any) -> Any:
    return x + (a * b) * value


@numeric("addcdiv", complex=True)
def addcdiv(x: Any, a: Any, b: Any, value: Any) -> Any:
    return x + (a * value) / b


@numeric("logit")
def logit(x: Any, eps: Any) -> Any:
    x = floating(x)
    x = x if eps is None else x.clamp(eps, 1 - eps)
    return (x / (1 - x)).log()


@decomposition("polar")
def polar(radius: Any, angle: Any) -> Any:
    return mt.complex(radius * angle.cos(), radius * angle.sin())
