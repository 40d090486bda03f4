"""Functions of each element: PyTorch-like operators on operands of one dtype, under the standard's names."""

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
    # NaN has no sign to PyTorch's `sign`, which makes it 0.
    return mt.where(mt.isnan(x), x, mt.sign(x)) if x.dtype.is_floating_point else mt.sign(x)


def _by_parts(op: _Function) -> _Function:
    """`op`, of the real and the imaginary part where there are two."""
    return lambda x: mt.complex(op(x.real), op(x.imag)) if x.dtype.is_complex else op(x)


def _integers_alone(op: _Function) -> _Function:
    """`op`, which leaves whole numbers and truth values as they are."""
    return lambda x: op(x) if x.dtype.is_floating_point or x.dtype.is_complex else x.clone()


def clip(x: Any, /, min: Any = None, max: Any = None) -> Any:
    """The elements of `x`, at least `min` and at most `max`: numbers or tensors that broadcast, None for no bound.

    The dtype is that of `x`. NaN in `x` or a bound gives NaN.
    """
    out = array(x)
    for bound, op in ((min, mt.maximum), (max, mt.minimum)):
        if bound is not None:
            out = op(out, bound.to(x.dtype) if isinstance(bound, mt.Tensor) else x.new_full((), bound))
    return out.clone() if out is x else out


abs = _unary("abs", mt.abs, "The absolute value; of complex numbers the magnitude, which is real.")
acos = _unary("acos", mt.acos, "The inverse cosine, in radians.")
acosh = _unary("acosh", mt.acosh, "The inverse hyperbolic cosine.")
asin = _unary("asin", mt.asin, "The inverse sine, in radians.")
asinh = _unary("asinh", mt.asinh, "The inverse hyperbolic sine.")
atan = _unary("atan", mt.atan, "The inverse tangent, in radians.")
atanh = _unary("atanh", mt.atanh, "The inverse hyperbolic tangent.")
bitwise_invert = _unary("bitwise_invert", mt.bitwise_not, "All bits inverted; of truth values the opposite.")
ceil = _unary("ceil", _integers_alone(mt.ceil), "The smallest whole number not below the element.")
conj = _unary("conj", mt.conj_physical, "The complex conjugate.")
cos = _unary("cos", mt.cos, "The cosine of radians.")
cosh = _unary("cosh", mt.cosh, "The hyperbolic cosine.")
exp = _unary("exp", mt.exp, "The exponential function.")
expm1 = _unary("expm1", mt.expm1, "exp(x) - 1, exact for small x.")
floor = _unary("floor", _integers_alone(mt.floor), "The greatest whole number not above the element.")
imag = _unary("imag", _imag, "The imaginary part: a real dtype of the same precision.")
isfinite = _unary("isfinite", mt.isfinite, "Whether the element is neither infinite nor NaN.")
isinf = _unary("isinf", mt.isinf, "Whether the element is infinite.")
isnan = _unary("isnan", mt.isnan, "Whether the element is NaN.")
log = _unary("log", mt.log, "The natural logarithm.")
log10 = _unary("log10", mt.log10, "The logarithm to base 10.")
log1p = _unary("log1p", mt.log1p, "log(1 + x), exact for small x.")
log2 = _unary("log2", mt.log2, "The logarithm to base 2.")
logical_not = _unary("logical_not", mt.logical_not, "Whether the element is zero or false.")
negative = _unary("negative", mt.neg, "The element with the opposite sign.")
positive = _unary("positive", mt.clone, "The element itself, in a new tensor.")
real = _unary("real", mt.real, "The real part: a real dtype of the same precision.")
reciprocal = _unary("reciprocal", mt.reciprocal, "1 / x.")
round = _unary("round", _integers_alone(_by_parts(mt.round)), "The nearest whole number, of two the even one.")
sign = _unary("sign", _sign, "-1, 0 or 1; x / abs(x) for complex numbers; NaN for NaN.")
signbit = _unary("signbit", mt.signbit, "Whether the sign is set, also that of -0.0.")
sin = _unary("sin", mt.sin, "The sine of radians.")
sinh = _unary("sinh", mt.sinh, "The hyperbolic sine.")
sqrt = _unary("sqrt", mt.sqrt, "The square root.")
square = _unary("square", mt.square, "The element times itself.")
tan = _unary("tan", mt.tan, "The tangent of radians.")
tanh = _unary("tanh", mt.tanh, "The hyperbolic tangent.")
trunc = _unary("trunc", _integers_alone(mt.trunc), "The nearest whole number towards zero.")

add = _binary("add", mt.add, "x1 + x2.")
atan2 = _binary("atan2", mt.atan2, "The angle of the point (x2, x1), in radians.")
bitwise_and = _binary("bitwise_and", mt.bitwise_and, "The bits that are set in both.")
bitwise_left_shift = _binary("bitwise_left_shift", mt.bitwise_left_shift, "The bits of x1, moved up by x2 places.")
bitwise_or = _binary("bitwise_or", mt.bitwise_or, "The bits that are set in either.")
bitwise_right_shift = _binary("bitwise_right_shift", mt.bitwise_right_shift, "The bits of x1, moved down by x2 places.")
bitwise_xor = _binary("bitwise_xor", mt.bitwise_xor, "The bits that are set in one of the two.")
copysign = _binary("copysign", mt.copysign, "The magnitude of x1 with the sign of x2.")
divide = _binary("divide", mt.div, "x1 / x2, a floating-point number.")
equal = _binary("equal", mt.eq, "Whether x1 == x2.")
floor_divide = _binary("floor_divide", mt.floor_divide, "x1 / x2, rounded down.")
greater = _binary("greater", mt.gt, "Whether x1 > x2.")
greater_equal = _binary("greater_equal", mt.ge, "Whether x1 >= x2.")
hypot = _binary("hypot", mt.hypot, "sqrt(x1**2 + x2**2), without overflow on the way.")
less = _binary("less", mt.lt, "Whether x1 < x2.")
less_equal = _binary("less_equal", mt.le, "Whether x1 <= x2.")
logaddexp = _binary("logaddexp", mt.logaddexp, "log(exp(x1) + exp(x2)), without overflow on the way.")
logical_and = _binary("logical_and", mt.logical_and, "Whether both are true.")
logical_or = _binary("logical_or", mt.logical_or, "Whether at least one is true.")
logical_xor = _binary("logical_xor", mt.logical_xor, "Whether exactly one is true.")
maximum = _binary("maximum", mt.maximum, "The greater of the two; NaN where one is.")
minimum = _binary("minimum", mt.minimum, "The smaller of the two; NaN where one is.")
multiply = _binary("multiply", mt.mul, "x1 * x2.")
nextafter = _binary("nextafter", mt.nextafter, "The number next to x1, towards x2.")
not_equal = _binary("not_equal", mt.ne, "Whether x1 != x2.")
pow = _binary("pow", mt.pow, "x1 to the power of x2.")
remainder = _binary("remainder", mt.remainder, "What is left of x1 after division by x2, with the sign of x2.")
subtract = _binary("subtract", mt.sub, "x1 - x2.")
