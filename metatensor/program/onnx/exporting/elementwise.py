"""Conversions of element-wise operators: arithmetic, functions, comparisons, logic, selection."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import metatensor as mt
from metatensor._core.dtype import DType
from metatensor.program.onnx.exporting.graph import Graph, Var
from metatensor.program.onnx.exporting.table import CONVERSIONS, Declined, arithmetic, conversion, operand

__all__: list[str] = []

_SIMPLE = {
    "abs": "Abs", "neg": "Neg", "sign": "Sign", "sgn": "Sign", "sqrt": "Sqrt", "reciprocal": "Reciprocal", "exp": "Exp", "log": "Log",
    "sigmoid": "Sigmoid", "tanh": "Tanh", "sin": "Sin", "cos": "Cos", "tan": "Tan", "asin": "Asin", "acos": "Acos", "atan": "Atan",
    "sinh": "Sinh", "cosh": "Cosh", "asinh": "Asinh", "acosh": "Acosh", "atanh": "Atanh", "erf": "Erf", "relu": "Relu",
    "nn.functional.relu": "Relu", "nn.functional.softsign": "Softsign",
}  # fmt: skip
"""Operators of which ONNX has the same, computed in the dtype of the result."""


def _simple(kind: str) -> Callable[[Graph, Any, Any], Var]:
    return lambda g, a, result: arithmetic(g, lambda x: g.op(kind, x), result.dtype, a.input)


CONVERSIONS.update({name: _simple(kind) for name, kind in _SIMPLE.items()})


@conversion("ceil", "floor")
def _rounded(g: Graph, a: Any, result: Any) -> Var:
    if not result.dtype.is_floating_point:
        return a.input  # type: ignore[no-any-return]
    return g.op("Ceil" if a.overload.startswith("ceil") else "Floor", a.input)


def truncated(g: Graph, x: Var) -> Var:
    """Return a value rounded towards zero."""
    if not x.dtype.is_floating_point:
        return x
    return g.op("Where", g.op("Less", x, g.number(0, x.dtype), dtype=mt.bool), g.op("Ceil", x), g.op("Floor", x), dtype=x.dtype)


@conversion("trunc")
def _trunc(g: Graph, a: Any, result: Any) -> Var:
    return truncated(g, a.input)


@conversion("round")
def _round(g: Graph, a: Any, result: Any) -> Var:
    if a.decimals:
        raise Declined("decimals")
    return g.op("Round", a.input) if result.dtype.is_floating_point else a.input


@conversion("square")
def _square(g: Graph, a: Any, result: Any) -> Var:
    return arithmetic(g, lambda x: g.op("Mul", x, x), result.dtype, a.input)


@conversion("rsqrt")
def _rsqrt(g: Graph, a: Any, result: Any) -> Var:
    return g.op("Reciprocal", g.op("Sqrt", g.cast(a.input, result.dtype)))


@conversion("exp2")
def _exp2(g: Graph, a: Any, result: Any) -> Var:
    return g.op("Pow", g.number(2, result.dtype), g.cast(a.input, result.dtype))


@conversion("log2", "log10")
def _log(g: Graph, a: Any, result: Any) -> Var:
    base = math.log(2 if a.overload.startswith("log2") else 10)
    return g.op("Mul", g.op("Log", g.cast(a.input, result.dtype)), g.number(1 / base, result.dtype))


@conversion("expm1")
def _expm1(g: Graph, a: Any, result: Any) -> Var:
    """Near zero 2t / (1 - t) with the tangent t of x / 2, which keeps small numbers."""
    x, one = g.cast(a.input, result.dtype), g.number(1, result.dtype)
    t = g.op("Tanh", g.op("Mul", x, g.number(0.5, x.dtype)))
    near = g.op("Div", g.op("Add", t, t), g.op("Sub", one, t))
    small = g.op("Less", g.op("Abs", x), one, dtype=mt.bool)
    return g.op("Where", small, near, g.op("Sub", g.op("Exp", x), one), dtype=x.dtype)


@conversion("log1p")
def _log1p(g: Graph, a: Any, result: Any) -> Var:
    """log(u) * x / (u - 1) with u = 1 + x, where the errors of u cancel; x where u is 1, and log(u) where it is infinite."""
    x, one = g.cast(a.input, result.dtype), g.number(1, result.dtype)
    u = g.op("Add", x, one)
    log = g.op("Log", u)
    corrected = g.op("Div", g.op("Mul", log, x), g.op("Sub", u, one))
    infinite = g.op("IsInf", log, dtype=mt.bool)
    corrected = g.op("Where", infinite, log, corrected, dtype=x.dtype)
    return g.op("Where", g.op("Equal", u, one, dtype=mt.bool), x, corrected, dtype=x.dtype)


@conversion("isnan")
def _isnan(g: Graph, a: Any, result: Any) -> Var:
    x = a.input if a.input.dtype.is_floating_point else g.cast(a.input, mt.float32)
    return g.op("IsNaN", x, dtype=mt.bool)


@conversion("isinf")
def _isinf(g: Graph, a: Any, result: Any) -> Var:
    x = a.input if a.input.dtype in (mt.float32, mt.float64) else g.cast(a.input, mt.float32)
    return g.op("IsInf", x, dtype=mt.bool)


@conversion("positive", "alias", "detach", "clone", "contiguous", "resolve_conj", "resolve_neg", "conj", "conj_physical", "_conj", "real",
            "pin_memory", "alias_copy", "detach_copy", "_clone_strided", "_real", "sum_to_size.same")  # fmt: skip
def _same(g: Graph, a: Any, result: Any) -> Var:
    return a.input  # type: ignore[no-any-return]


@conversion("_neg_view")
def _negative(g: Graph, a: Any, result: Any) -> Var:
    return g.op("Neg", a.input)


@conversion("_to_copy", "to", "float", "double", "half", "bfloat16", "long", "int", "short", "char", "byte", "bool", "cpu", "cuda", "type_as",
            "type", "to.dtype", "asarray", "as_tensor")  # fmt: skip
def _converted(g: Graph, a: Any, result: Any) -> Var:
    """Another dtype. Floating-point numbers become integers towards zero."""
    found = getattr(a, "input", None)
    if not isinstance(found, Var):
        raise Declined("an argument that is no tensor")
    return g.cast(found, result.dtype)


# Two operands ---------------------------------------------------------------------------------------------


def _binary(kind: str, for_bool: str | None = None) -> Callable[[Graph, Any, Any], Var]:
    def make(g: Graph, a: Any, result: Any) -> Var:
        if result.dtype is mt.bool and for_bool:
            return g.op(for_bool, operand(g, a.input, mt.bool), operand(g, a.other, mt.bool))
        return arithmetic(g, lambda x, y: g.op(kind, x, y), result.dtype, a.input, a.other)

    return make


CONVERSIONS.update({"mul": _binary("Mul", "And"), "maximum": _binary("Max", "Or"), "minimum": _binary("Min", "And")})


def _added(kind: str, swapped: bool = False) -> Callable[[Graph, Any, Any], Var]:
    def make(g: Graph, a: Any, result: Any) -> Var:
        def combine(x: Var, y: Var) -> Var:
            x, y = (y, x) if swapped else (x, y)
            return g.op(kind, x, y if a.alpha == 1 else g.op("Mul", y, g.number(a.alpha, y.dtype)))

        return arithmetic(g, combine, result.dtype, a.input, a.other)

    return make


CONVERSIONS.update({"add": _added("Add"), "sub": _added("Sub"), "rsub": _added("Sub", True)})


@conversion("div")
def _div(g: Graph, a: Any, result: Any) -> Var:
    if a.rounding_mode is None:
        return arithmetic(g, lambda x, y: g.op("Div", x, y), result.dtype, a.input, a.other)
    if a.rounding_mode == "floor":
        return _floor_divide(g, a, result)
    return arithmetic(g, lambda x, y: truncated(g, g.op("Div", x, y)), result.dtype, a.input, a.other)


@conversion("floor_divide")
def _floor_divide(g: Graph, a: Any, result: Any) -> Var:
    return arithmetic(g, lambda x, y: floor_divided(g, x, y), result.dtype, a.input, a.other)


def floor_divided(g: Graph, x: Var, y: Var) -> Var:
    """Return the quotient rounded down, exact for floating-point numbers too: (x - x mod y) / y has no fraction but by rounding."""
    zero, one = g.number(0, x.dtype), g.number(1, x.dtype)
    left = g.op("Mod", x, y, fmod=1)
    apart = _apart(g, left, y, zero)
    if not x.dtype.is_floating_point:
        quotient = g.op("Div", x, y)
        return g.op("Where", apart, g.op("Sub", quotient, one), quotient, dtype=x.dtype)
    quotient = g.op("Div", g.op("Sub", x, left), y)
    quotient = g.op("Round", g.op("Where", apart, g.op("Sub", quotient, one), quotient, dtype=x.dtype))
    return g.op("Where", g.op("Equal", y, zero, dtype=mt.bool), g.op("Div", x, y), quotient, dtype=x.dtype)


def _apart(g: Graph, left: Var, y: Var, zero: Var) -> Var:
    """Return whether there is a remainder whose sign is not that of the divisor."""
    signs = g.op("Xor", g.op("Less", left, zero, dtype=mt.bool), g.op("Less", y, zero, dtype=mt.bool))
    return g.op("And", signs, g.op("Not", g.op("Equal", left, zero, dtype=mt.bool)))


@conversion("remainder")
def _remainder(g: Graph, a: Any, result: Any) -> Var:
    def combine(x: Var, y: Var) -> Var:
        if not x.dtype.is_floating_point:
            return g.op("Mod", x, y)
        left = g.op("Mod", x, y, fmod=1)
        return g.op("Where", _apart(g, left, y, g.number(0, x.dtype)), g.op("Add", left, y), left, dtype=x.dtype)

    return arithmetic(g, combine, result.dtype, a.input, a.other)


@conversion("fmod")
def _fmod(g: Graph, a: Any, result: Any) -> Var:
    return arithmetic(g, lambda x, y: g.op("Mod", x, y, fmod=1), result.dtype, a.input, a.other)


@conversion("pow", "float_power")
def _pow(g: Graph, a: Any, result: Any) -> Var:
    exponent = a.exponent
    if isinstance(exponent, (int, float)) and isinstance(a.input, Var):
        if exponent == 2:
            return arithmetic(g, lambda x: g.op("Mul", x, x), result.dtype, a.input)
        if exponent == 0.5 and result.dtype.is_floating_point:
            return g.op("Sqrt", g.cast(a.input, result.dtype))
    return arithmetic(g, lambda x, y: g.op("Pow", x, y), result.dtype, a.input, exponent)


@conversion("atan2")
def _atan2(g: Graph, a: Any, result: Any) -> Var:
    y, x = g.cast(a.input, result.dtype), g.cast(a.other, result.dtype)
    zero, pi = g.number(0, x.dtype), g.number(math.pi, x.dtype)
    below = g.op("Less", y, zero, dtype=mt.bool)
    half = g.op("Mul", g.op("Sign", y), g.number(math.pi / 2, x.dtype))
    angle = g.op("Atan", g.op("Div", y, x))
    behind = g.op("Where", below, g.op("Sub", angle, pi), g.op("Add", angle, pi), dtype=x.dtype)
    found = g.op("Where", g.op("Less", x, zero, dtype=mt.bool), behind, angle, dtype=x.dtype)
    return g.op("Where", g.op("Equal", x, zero, dtype=mt.bool), half, found, dtype=x.dtype)


# Comparisons and logic ------------------------------------------------------------------------------------


def _common(a: Any) -> DType:
    """Return the dtype in which two operands are compared."""
    def stand_in(value: Any) -> Any:
        if not isinstance(value, Var):
            return value
        shape = (1,) * len(value.shape or ())
        return mt.empty(shape, dtype=value.dtype, device="meta")

    return mt.result_type(stand_in(a.input), stand_in(a.other))


def _comparison(kind: str, negated: bool = False) -> Callable[[Graph, Any, Any], Var]:
    def make(g: Graph, a: Any, result: Any) -> Var:
        dtype = _common(a)
        if dtype is mt.bool:
            dtype = mt.int32
        elif dtype in (mt.int8, mt.int16, mt.uint8, mt.uint16):
            dtype = mt.int32
        found = g.op(kind, operand(g, a.input, dtype), operand(g, a.other, dtype), dtype=mt.bool)
        return g.op("Not", found) if negated else found

    return make


CONVERSIONS.update({
    "eq": _comparison("Equal"), "ne": _comparison("Equal", True), "lt": _comparison("Less"), "le": _comparison("LessOrEqual"),
    "gt": _comparison("Greater"), "ge": _comparison("GreaterOrEqual"),
})  # fmt: skip


def _logic(kind: str) -> Callable[[Graph, Any, Any], Var]:
    return lambda g, a, result: g.op(kind, operand(g, a.input, mt.bool), operand(g, a.other, mt.bool))


CONVERSIONS.update({"logical_and": _logic("And"), "logical_or": _logic("Or"), "logical_xor": _logic("Xor")})


@conversion("logical_not")
def _logical_not(g: Graph, a: Any, result: Any) -> Var:
    return g.op("Not", g.cast(a.input, mt.bool))


@conversion("bitwise_not")
def _bitwise_not(g: Graph, a: Any, result: Any) -> Var:
    return g.op("Not" if result.dtype is mt.bool else "BitwiseNot", a.input)


def _bits(kind: str) -> Callable[[Graph, Any, Any], Var]:
    def make(g: Graph, a: Any, result: Any) -> Var:
        name = kind if result.dtype is mt.bool else f"Bitwise{kind}"
        return g.op(name, operand(g, a.input, result.dtype), operand(g, a.other, result.dtype))

    return make


CONVERSIONS.update({"bitwise_and": _bits("And"), "bitwise_or": _bits("Or"), "bitwise_xor": _bits("Xor")})


@conversion("bitwise_left_shift", "bitwise_right_shift")
def _shift(g: Graph, a: Any, result: Any) -> Var:
    def combine(x: Var, y: Var) -> Var:
        factor = g.cast(g.op("Pow", g.number(2, mt.int64), g.cast(y, mt.int64)), x.dtype)
        return g.op("Mul", x, factor) if "left" in a.overload else floor_divided(g, x, factor)

    return arithmetic(g, combine, result.dtype, a.input, a.other)


# Selection ------------------------------------------------------------------------------------------------


@conversion("where")
def _where(g: Graph, a: Any, result: Any) -> Any:
    if isinstance(result, (tuple, list)):
        raise Declined("the number of results depends on values")
    condition = g.cast(a.condition, mt.bool)
    return g.op("Where", condition, operand(g, a.input, result.dtype), operand(g, a.other, result.dtype), dtype=result.dtype)


@conversion("_where")
def _where_method(g: Graph, a: Any, result: Any) -> Var:
    return _where(g, a, result)  # type: ignore[no-any-return]


@conversion("masked_fill")
def _masked_fill(g: Graph, a: Any, result: Any) -> Var:
    return g.op("Where", g.cast(a.mask, mt.bool), operand(g, a.value, result.dtype), g.cast(a.input, result.dtype), dtype=result.dtype)


@conversion("clamp", "clamp_min", "clamp_max", "nn.functional.hardtanh", "nn.functional.relu6")
def _clamp(g: Graph, a: Any, result: Any) -> Var:
    names = ("min_val", "max_val") if hasattr(a, "min_val") else ("min", "max")
    low, high = (getattr(a, name, None) for name in names)
    if a.overload.endswith("relu6"):
        low, high = 0.0, 6.0
    if isinstance(low, Var) or isinstance(high, Var):
        def combine(x: Var) -> Var:
            x = x if low is None else g.op("Max", x, operand(g, low, x.dtype))
            return x if high is None else g.op("Min", x, operand(g, high, x.dtype))

        return arithmetic(g, combine, result.dtype, a.input)
    ends = lambda x: [None if end is None else g.number(end, x.dtype) for end in (low, high)]
    return arithmetic(g, lambda x: g.op("Clip", x, *ends(x)), result.dtype, a.input)
