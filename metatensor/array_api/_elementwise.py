"""Element-wise functions under the standard's names. They convert their operands to one dtype first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import metatensor as mt
from metatensor.array_api._dtypes import array, pair

_Function = Callable[..., Any]
__all__ = [
    "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and", "bitwise_invert",
    "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "ceil", "clip", "conj", "copysign", "cos",
    "cosh", "divide", "equal", "exp", "expm1", "floor", "floor_divide", "greater", "greater_equal", "hypot", "imag",
    "isfinite", "isinf", "isnan", "less", "less_equal", "log", "log10", "log1p", "log2", "logaddexp", "logical_and",
    "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "multiply", "negative", "nextafter", "not_equal",
    "positive", "pow", "real", "reciprocal", "remainder", "round", "sign", "signbit", "sin", "sinh", "sqrt", "square",
    "subtract", "tan", "tanh", "trunc",
]  # fmt: skip


def _named(function: _Function, name: str, doc: str) -> _Function:
    function.__name__ = function.__qualname__ = name
    function.__module__ = "metatensor.array_api"
    function.__doc__ = doc
    return function


def _unary(name: str, op: _Function, doc: str) -> _Function:
    def function(x: Any, /) -> Any:
        return op(array(x))

    return _named(function, name, doc)


def _binary(name: str, op: _Function, doc: str) -> _Function:
    def function(x1: Any, x2: Any, /) -> Any:
        return op(*pair(x1, x2))

    return _named(function, name, f"{doc} One operand may be a Python number.")


def _imag(x: Any) -> Any:
    return mt.imag(x) if x.dtype.is_complex else mt.zeros_like(x)


def _sign(x: Any) -> Any:
    if x.dtype.is_complex:
        return mt.sgn(x)
    # `mt.sign` follows PyTorch and returns 0 for NaN, but the standard requires NaN.
    return mt.where(mt.isnan(x), x, mt.sign(x)) if x.dtype.is_floating_point else mt.sign(x)


def _by_parts(op: _Function) -> _Function:
    """Return a function that applies `op` separately to the real and imaginary parts of complex tensors."""
    return lambda x: mt.complex(op(x.real), op(x.imag)) if x.dtype.is_complex else op(x)


def _integers_alone(op: _Function) -> _Function:
    """Return a function that applies `op`, but returns a copy of integer and bool tensors."""
    return lambda x: op(x) if x.dtype.is_floating_point or x.dtype.is_complex else x.clone()


def clip(x: Any, /, min: Any = None, max: Any = None) -> Any:
    """Return `x` with each element limited to the range from `min` to `max`.

    Parameters
    ----------
    x : Tensor
    min, max : number or Tensor, optional
        Bounds that broadcast with `x`. None means no bound.

    Returns
    -------
    Tensor
        Dtype of `x`. An element is NaN if `x` or one of its bounds is NaN.
    """
    out = array(x)
    for bound, op in ((min, mt.maximum), (max, mt.minimum)):
        if bound is not None:
            out = op(out, bound.to(x.dtype) if isinstance(bound, mt.Tensor) else x.new_full((), bound))
    return out.clone() if out is x else out


abs = _unary(
    "abs", mt.abs, "Return the absolute value of each element. For complex numbers it is the magnitude, a real number."
)
acos = _unary("acos", mt.acos, "Return the inverse cosine of each element, in radians.")
acosh = _unary("acosh", mt.acosh, "Return the inverse hyperbolic cosine of each element.")
asin = _unary("asin", mt.asin, "Return the inverse sine of each element, in radians.")
asinh = _unary("asinh", mt.asinh, "Return the inverse hyperbolic sine of each element.")
atan = _unary("atan", mt.atan, "Return the inverse tangent of each element, in radians.")
atanh = _unary("atanh", mt.atanh, "Return the inverse hyperbolic tangent of each element.")
bitwise_invert = _unary(
    "bitwise_invert", mt.bitwise_not, "Return each integer with its bits inverted, or the logical negation of each bool."
)
ceil = _unary("ceil", _integers_alone(mt.ceil), "Return each element rounded up to an integer, in the dtype of `x`.")
conj = _unary("conj", mt.conj_physical, "Return the complex conjugate of each element.")
cos = _unary("cos", mt.cos, "Return the cosine of each element, given in radians.")
cosh = _unary("cosh", mt.cosh, "Return the hyperbolic cosine of each element.")
exp = _unary("exp", mt.exp, "Return e to the power of each element.")
expm1 = _unary("expm1", mt.expm1, "Return exp(x) - 1 without loss of precision for small x.")
floor = _unary(
    "floor", _integers_alone(mt.floor), "Return each element rounded down to an integer, in the dtype of `x`."
)
imag = _unary("imag", _imag, "Return the imaginary part of each element, in the real dtype of the same precision.")
isfinite = _unary("isfinite", mt.isfinite, "Return whether each element is neither infinite nor NaN.")
isinf = _unary("isinf", mt.isinf, "Return whether each element is infinite.")
isnan = _unary("isnan", mt.isnan, "Return whether each element is NaN.")
log = _unary("log", mt.log, "Return the natural logarithm of each element.")
log10 = _unary("log10", mt.log10, "Return the logarithm of each element to base 10.")
log1p = _unary("log1p", mt.log1p, "Return log(1 + x) without loss of precision for small x.")
log2 = _unary("log2", mt.log2, "Return the logarithm of each element to base 2.")
logical_not = _unary("logical_not", mt.logical_not, "Return whether each element is zero or False.")
negative = _unary("negative", mt.neg, "Return each element with the opposite sign.")
positive = _unary("positive", mt.clone, "Return a copy of `x`.")
real = _unary("real", mt.real, "Return the real part of each element, in the real dtype of the same precision.")
reciprocal = _unary("reciprocal", mt.reciprocal, "Return 1 / x for each element.")
round = _unary(
    "round",
    _integers_alone(_by_parts(mt.round)),
    "Return each element rounded to the nearest integer, in the dtype of `x`. Ties go to the even integer."
)
sign = _unary("sign", _sign, "Return -1, 0 or 1 for each element. The sign of a complex number is x / abs(x), and that "
                             "of NaN is NaN.")
signbit = _unary("signbit", mt.signbit, "Return whether the sign bit of each element is set. It is set for -0.0.")
sin = _unary("sin", mt.sin, "Return the sine of each element, given in radians.")
sinh = _unary("sinh", mt.sinh, "Return the hyperbolic sine of each element.")
sqrt = _unary("sqrt", mt.sqrt, "Return the square root of each element.")
square = _unary("square", mt.square, "Return the square of each element.")
tan = _unary("tan", mt.tan, "Return the tangent of each element, given in radians.")
tanh = _unary("tanh", mt.tanh, "Return the hyperbolic tangent of each element.")
trunc = _unary("trunc", _integers_alone(mt.trunc), "Return each element rounded towards zero, in the dtype of `x`.")

add = _binary("add", mt.add, "Return x1 + x2.")
atan2 = _binary("atan2", mt.atan2, "Return the angle of the point (x2, x1) in radians, between -pi and pi.")
bitwise_and = _binary("bitwise_and", mt.bitwise_and, "Return the bits that are set in both x1 and x2.")
bitwise_left_shift = _binary("bitwise_left_shift", mt.bitwise_left_shift, "Return x1 with its bits shifted left by x2.")
bitwise_or = _binary("bitwise_or", mt.bitwise_or, "Return the bits that are set in x1 or x2.")
bitwise_right_shift = _binary(
    "bitwise_right_shift", mt.bitwise_right_shift, "Return x1 with its bits shifted right by x2."
)
bitwise_xor = _binary("bitwise_xor", mt.bitwise_xor, "Return the bits that are set in exactly one of x1 and x2.")
copysign = _binary("copysign", mt.copysign, "Return the magnitude of x1 with the sign of x2.")
divide = _binary("divide", mt.div, "Return x1 / x2 as a floating-point or complex number.")
equal = _binary("equal", mt.eq, "Return whether x1 == x2.")
floor_divide = _binary("floor_divide", mt.floor_divide, "Return x1 / x2, rounded down.")
greater = _binary("greater", mt.gt, "Return whether x1 > x2.")
greater_equal = _binary("greater_equal", mt.ge, "Return whether x1 >= x2.")
hypot = _binary("hypot", mt.hypot, "Return sqrt(x1**2 + x2**2) without intermediate overflow.")
less = _binary("less", mt.lt, "Return whether x1 < x2.")
less_equal = _binary("less_equal", mt.le, "Return whether x1 <= x2.")
logaddexp = _binary("logaddexp", mt.logaddexp, "Return log(exp(x1) + exp(x2)) without intermediate overflow.")
logical_and = _binary("logical_and", mt.logical_and, "Return whether both x1 and x2 are true.")
logical_or = _binary("logical_or", mt.logical_or, "Return whether x1 or x2 is true.")
logical_xor = _binary("logical_xor", mt.logical_xor, "Return whether exactly one of x1 and x2 is true.")
maximum = _binary("maximum", mt.maximum, "Return the larger of x1 and x2, or NaN if one of them is NaN.")
minimum = _binary("minimum", mt.minimum, "Return the smaller of x1 and x2, or NaN if one of them is NaN.")
multiply = _binary("multiply", mt.mul, "Return x1 * x2.")
nextafter = _binary("nextafter", mt.nextafter, "Return the representable number next to x1 in the direction of x2.")
not_equal = _binary("not_equal", mt.ne, "Return whether x1 != x2.")
pow = _binary("pow", mt.pow, "Return x1 to the power of x2.")
remainder = _binary("remainder", mt.remainder, "Return the remainder of x1 / x2, with the sign of x2.")
subtract = _binary("subtract", mt.sub, "Return x1 - x2.")
