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
    "sinh": "Sinh", "cosh": "Cosh", "asinh": "Asinh", "acosh": "Acosh", "atanh": "Atanh", "erf": "Erf",
    "nn.functional.softsign": "Softsign",
}  # fmt: skip
"""Operators with an equivalent in ONNX, computed in the dtype of the result."""


def _simple(kind: str) -> Callable[[Graph, Any, Any], Var]:
    return lambda g, a, result: arithmetic(g, lambda x: g.op(kind, x), result.dtype, a.input)


CONVERSIONS.update({name: _simple(kind) for name, kind in _SIMPLE.items()})


@conversion("relu", "nn.functional.relu")
def _relu(g: Graph, a: Any, result: Any) -> Var:
    if not result.dtype.is_floating_point:
        return g.op("Max", a.input, g.number(0, result.dtype))
    return g.op("Relu", a.input)


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
    if not result.dtype.is_floating_point:
        if a.decimals < 0:
            raise Declined("rounding integers with negative decimals")
        return a.input  # type: ignore[no-any-return]
    if not a.decimals:
        return g.op("Round", a.input)
    factor = g.number(10.0 ** abs(a.decimals), result.dtype)
    there, back = ("Mul", "Div") if a.decimals > 0 else ("Div", "Mul")
    return g.op(back, g.op("Round", g.op(there, a.input, factor)), factor)


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
    """For |x| < 1, compute 2t / (1 - t) with t = tanh(x / 2), which does not lose precision near 0."""
    x, one = g.cast(a.input, result.dtype), g.number(1, result.dtype)
    t = g.op("Tanh", g.op("Mul", x, g.number(0.5, x.dtype)))
    near = g.op("Div", g.op("Add", t, t), g.op("Sub", one, t))
    small = g.op("Less", g.op("Abs", x), one, dtype=mt.bool)
    return g.op("Where", small, near, g.op("Sub", g.op("Exp", x), one), dtype=x.dtype)


@conversion("log1p")
def _log1p(g: Graph, a: Any, result: Any) -> Var:
    """Compute log(u) * x / (u - 1) with u = 1 + x; the rounding error of u cancels.

    Use x where u == 1, and log(u) where log(u) is infinite.
    """
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


@conversion("positive", "alias", "detach", "_data", "clone", "contiguous", "resolve_conj", "resolve_neg", "conj", "conj_physical", "_conj",
            "real", "pin_memory", "alias_copy", "detach_copy", "_clone_strided", "_real", "_without_backward")  # fmt: skip
def _same(g: Graph, a: Any, result: Any) -> Var:
    return a.input  # type: ignore[no-any-return]


@conversion("copy_")
def _copied(g: Graph, a: Any, result: Any) -> Var:
    """Convert a write to a tensor created outside the program (requires `ignore_writes`): later nodes use the new value."""
    source = g.cast(a.src, result.dtype)
    return source if a.src.shape == result.shape else g.op("Expand", source, g.ints(result.shape))


@conversion("_set_data")
def _replaced(g: Graph, a: Any, result: Any) -> Var:
    """Convert other memory for a tensor created outside the program (requires `ignore_writes`)."""
    return a.source  # type: ignore[no-any-return]


@conversion("_neg_view")
def _negative(g: Graph, a: Any, result: Any) -> Var:
    return g.op("Neg", a.input)


@conversion("_to_copy", "to", "float", "double", "half", "bfloat16", "long", "int", "short", "char", "byte", "bool", "cpu", "cuda",
            "type_as", "type", "asarray", "as_tensor")  # fmt: skip
def _converted(g: Graph, a: Any, result: Any) -> Var:
    """Conversion to another dtype. Floating-point numbers are truncated to integers."""
    found = getattr(a, "input", None)
    if not isinstance(found, Var):
        raise Declined("an argument that is not a tensor")
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
    """Return the floor of x / y.

    For floats, (x - x mod y) / y is an integer except for rounding error, so it is rounded.
    """
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

    def is_negative(v: Var) -> Var:
        """Return whether v is negative or -0.0. The reciprocal of -0.0 is -inf."""
        signed = g.op("Where", g.op("Equal", v, zero, dtype=mt.bool), g.op("Reciprocal", v), v, dtype=v.dtype)
        return g.op("Less", signed, zero, dtype=mt.bool)

    angle = g.op("Where", g.op("Equal", y, zero, dtype=mt.bool), y, g.op("Atan", g.op("Div", y, x)), dtype=x.dtype)
    behind = g.op("Where", is_negative(y), g.op("Sub", angle, pi), g.op("Add", angle, pi), dtype=x.dtype)
    return g.op("Where", is_negative(x), behind, angle, dtype=x.dtype)


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
    left, bits = "left" in a.overload, 8 * result.dtype.itemsize

    def combine(x: Var, y: Var) -> Var:
        """Shift in two steps, so that a power of two does not overflow. Counts that are negative or too large shift everything out."""
        count, zero, most = g.cast(y, mt.int64), g.number(0, mt.int64), g.number(bits - 1, mt.int64)
        outside = g.op("Or", g.op("Less", count, zero, dtype=mt.bool), g.op("Greater", count, most, dtype=mt.bool))
        count = g.op("Where", outside, most, count, dtype=mt.int64)
        half = g.op("Div", count, g.number(2, mt.int64))
        for part in (half, g.op("Sub", count, half)):
            factor = g.cast(g.op("Pow", g.number(2, mt.int64), part), x.dtype)
            x = g.op("Mul", x, factor) if left else floor_divided(g, x, factor)
        return g.op("Where", outside, g.number(0, x.dtype), x, dtype=x.dtype) if left else x

    return arithmetic(g, combine, result.dtype, a.input, a.other)


# Selection ------------------------------------------------------------------------------------------------


@conversion("where")
def _where(g: Graph, a: Any, result: Any) -> Any:
    if isinstance(result, (tuple, list)):
        raise Declined("the number of results depends on values")
    return chosen(g, g.cast(a.condition, mt.bool), operand(g, a.input, result.dtype), operand(g, a.other, result.dtype))


def chosen(g: Graph, condition: Var, x: Var, y: Var) -> Var:
    """Return `x` where a condition holds, and `y` elsewhere. Runtimes lack Where for booleans."""
    if x.dtype is mt.bool:
        return g.op("Or", g.op("And", condition, x), g.op("And", g.op("Not", condition), y))
    return g.op("Where", condition, x, y, dtype=x.dtype)


@conversion("_where")
def _where_method(g: Graph, a: Any, result: Any) -> Var:
    return _where(g, a, result)  # type: ignore[no-any-return]


@conversion("masked_fill")
def _masked_fill(g: Graph, a: Any, result: Any) -> Var:
    return chosen(g, g.cast(a.mask, mt.bool), operand(g, a.value, result.dtype), g.cast(a.input, result.dtype))


@conversion("clamp", "clamp_min", "clamp_max", "nn.functional.hardtanh", "nn.functional.relu6")
def _clamp(g: Graph, a: Any, result: Any) -> Var:
    names = ("min_val", "max_val") if hasattr(a, "min_val") else ("min", "max")
    low, high = (getattr(a, name, None) for name in names)
    if a.overload.endswith("relu6"):
        low, high = 0.0, 6.0
    # For a missing bound, Clip uses the greatest finite number, which would change infinity.
    one_sided = result.dtype.is_floating_point and (low is None or high is None)
    if isinstance(low, Var) or isinstance(high, Var) or one_sided:
        def combine(x: Var) -> Var:
            x = x if low is None else g.op("Max", x, operand(g, low, x.dtype))
            return x if high is None else g.op("Min", x, operand(g, high, x.dtype))

        return arithmetic(g, combine, result.dtype, a.input)
    ends = lambda x: [None if end is None else g.number(end, x.dtype) for end in (low, high)]
    return arithmetic(g, lambda x: g.op("Clip", x, *ends(x)), result.dtype, a.input)
