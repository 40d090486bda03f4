"""Element-wise arithmetic of two operands, each a tensor or a Python number.

Operands broadcast to a common shape and are promoted to a common dtype.
"""
from cpython.object cimport PyObject
from metatensor._core.device cimport META, Device
from metatensor._core.dtype cimport C128, F16, F32, F64, DType, by_code, number_kind, to_complex
from metatensor._core.op cimport (
    ELEMENTWISE, EXACT_OUT, FUNCTION_ONLY, INPLACE, INT_TO_FLOAT, IN_PLACE, OUT, PROMOTE, REAL_ONLY, Call, alias_op, arg,
    define, is_none, op_name, set_slot, tensor_arg,
)
from metatensor._core.slots cimport type_set
from metatensor._core.tensor cimport (
    S_ADD, S_DIV, S_FLOORDIV, S_IADD, S_IDIV, S_IFLOORDIV, S_IMOD, S_IMUL, S_IPOW, S_ISUB, S_MOD, S_MUL, S_POW,
    S_RSUB, S_SUB, Tensor,
)
from metatensor._core.types cimport KIND_BOOL, KIND_COMPLEX, KIND_FLOAT, KIND_INT
from metatensor.ops.operands cimport exact_out
from metatensor.ops.pointwise cimport (
    NO_BOOLS, NO_COMPLEX, NO_FLOATS, NO_INTS, Operands, binary, elementwise_like, elementwise_result, fail, half_number,
    no_operands, number, of_numbers, operand, operand_arg, promoted, refuse, ruled, unary,
)
from metatensor._core.gradient_parts import conj, numbered, share, times, unknown
from metatensor._core.sharding import sharding
from metatensor._core.gradients import gradient, ops, recorded_as

cdef long BOTH = INPLACE | OUT
cdef long INTS = NO_BOOLS | NO_FLOATS | NO_COMPLEX
cdef long FLOATS = INT_TO_FLOAT | NO_BOOLS | NO_INTS | NO_COMPLEX
cdef object _one = 1


# Meta kernels with rules of their own -----------------------------------------------------

cdef int _check_alpha(Call* c, DType d) except -1:
    """Check that alpha's category (bool, integer, floating-point, complex) is not higher than that of the result
    dtype."""
    cdef int kind = number_kind(arg(c, 2))
    if kind == KIND_BOOL and d.kind != KIND_BOOL:
        fail(c, "alpha can be a bool only if the result is bool")
    if kind > KIND_INT and d.kind <= KIND_INT:
        fail(c, f"alpha must be an integer for a result of dtype {d.name}, got {arg(c, 2)}")
    if kind == KIND_COMPLEX and d.kind != KIND_COMPLEX:
        fail(c, f"alpha must be real for a result of dtype {d.name}, got {arg(c, 2)}")
    return 0


cdef object scaled(Call* c):
    """Call `binary` for an op with an alpha, and check alpha unless it is 1."""
    cdef object result
    if c.args[2] == <PyObject*>_one:
        return binary(c)
    result = binary(c)
    _check_alpha(c, (<Tensor>result).dtype)
    return result


cdef inline bint _is_bool(PyObject* p) noexcept:
    if isinstance(<object>p, Tensor):
        return (<Tensor>p).dtype.kind == KIND_BOOL
    return number_kind(<object>p) == KIND_BOOL


cdef object subtract(Call* c):
    """Call `scaled` after checking that neither operand is bool."""
    if _is_bool(c.args[0]) or _is_bool(c.args[1]):
        fail(c, "subtraction with a bool operand is not supported; use logical_xor() or logical_not()")
    return scaled(c)


cdef object subtract_reversed(Call* c):
    """Call `subtract` with the operands exchanged, so that the strides of `other` take precedence in the result."""
    cdef PyObject* input = c.args[0]
    cdef object result
    if not isinstance(<object>c.args[1], Tensor):
        return subtract(c)
    c.args[0], c.args[1] = c.args[1], input
    try:
        result = subtract(c)
    finally:
        c.args[1] = c.args[0]
        c.args[0] = input
    return result


cdef object divide(Call* c):
    """Compute the result of a division. Without a rounding mode, integers are converted to the default float dtype."""
    cdef Operands o
    cdef DType d
    if is_none(c, 2):
        return binary(c)
    if arg(c, 2) != "floor" and arg(c, 2) != "trunc":
        fail(c, f"rounding_mode must be None, 'trunc' or 'floor', got {arg(c, 2)!r}")
    no_operands(&o)
    operand_arg(&o, c, 0)
    operand_arg(&o, c, 1)
    if o.n == 0:
        of_numbers(c)
    d = promoted(c, &o)
    if d.kind == KIND_BOOL or d.kind >= KIND_COMPLEX:
        refuse(c, d)
    return elementwise_result(c, &o, d)


cdef object modulo(Call* c):
    if c.device != <PyObject*>META:
        half_number(c, 1)
    return binary(c)


cdef object power(Call* c):
    """Compute the result of a power. If the exponent is a number, the layout depends only on the base."""
    cdef Operands o
    cdef DType d
    cdef Tensor base
    if isinstance(arg(c, 1), Tensor):
        return binary(c) if isinstance(arg(c, 0), Tensor) else power_of_number(c)
    if not isinstance(arg(c, 0), Tensor):
        return binary(c)
    base = tensor_arg(c, 0)
    if base.dtype.kind == KIND_FLOAT and number_kind(<object>c.args[1]) <= KIND_FLOAT:
        return unary(c)
    no_operands(&o)
    operand(&o, base)
    number(&o, arg(c, 1))
    d = promoted(c, &o)
    if d.kind != KIND_BOOL:     # x ** True is x
        d = ruled(c, d)
    if d.kind == KIND_INT and arg(c, 1) < 0:
        fail(c, f"integers to the negative power {arg(c, 1)} are not integers; convert to a float dtype first")
    return elementwise_like(base, d, <Device>c.device)


cdef object power_of_number(Call* c):
    """Compute the result of a power whose base is a number. The layout depends only on the exponent."""
    cdef Operands o
    no_operands(&o)
    operand_arg(&o, c, 0)
    operand(&o, tensor_arg(c, 1))
    return elementwise_like(tensor_arg(c, 1), ruled(c, promoted(c, &o)), <Device>c.device)


cdef object float_power(Call* c):
    """Return a float64 result, or complex128 if an operand is complex."""
    cdef Operands o
    cdef DType d
    no_operands(&o)
    operand_arg(&o, c, 0)
    operand_arg(&o, c, 1)
    if o.n == 0:
        raise TypeError(f"{op_name(c)}(): one of 'input' and 'exponent' must be a Tensor")
    d = by_code(C128 if promoted(c, &o).kind == KIND_COMPLEX else F64)
    o.common = d.code
    if c.variant == IN_PLACE and tensor_arg(c, 0).dtype is not d:
        fail(c, f"the {d.name} result cannot be stored in place in a {tensor_arg(c, 0).dtype.name} tensor")
    if o.n == 1:
        return elementwise_like(<Tensor>o.first, d, <Device>c.device)
    return elementwise_result(c, &o, d)


cdef object same_dtypes(Call* c):
    """Call `binary` after checking that both tensors have the same dtype."""
    if tensor_arg(c, 0).dtype is not tensor_arg(c, 1).dtype:
        fail(c, f"expected tensors of the same dtype, got {tensor_arg(c, 0).dtype.name} and "
                f"{tensor_arg(c, 1).dtype.name}")
    return binary(c)


cdef object ldexp(Call* c):
    """Call `binary`. If the operands' dtypes differ, `out=` must have the result's dtype, because the kernel writes
    directly to it."""
    cdef Tensor result = binary(c)
    if tensor_arg(c, 0).dtype is not tensor_arg(c, 1).dtype:
        exact_out(c, result.dtype)
    return result


cdef object from_parts(Call* c):
    """Return a complex result for two real tensors of the same dtype."""
    cdef Operands o
    cdef Tensor a = tensor_arg(c, 0), b = tensor_arg(c, 1)
    if a.dtype.code != F32 and a.dtype.code != F64 and a.dtype.code != F16:
        fail(c, f"expected float16, float32 or float64 tensors, got {a.dtype.name}")
    if b.dtype is not a.dtype:
        fail(c, f"expected tensors of the same dtype, got {a.dtype.name} and {b.dtype.name}")
    no_operands(&o)
    operand(&o, a)
    operand(&o, b)
    return elementwise_result(c, &o, to_complex(a.dtype))


# Parts of gradients -------------------------------------------------------------------------------

def _power_base(grad, input, exponent):
    """Gradient of ``input ** exponent`` for the base: ``exponent * input ** (exponent - 1)``, 0 where the exponent is 0."""
    if isinstance(exponent, Tensor):
        slope = exponent * input ** (exponent - 1)
        slope = grad * conj(slope)
        return ops.where(exponent == 0, ops.zeros((), dtype=slope.dtype, device=slope.device), slope)
    if exponent == 0:
        return ops.zeros_like(grad)
    return grad * conj(exponent * input ** (exponent - 1))


def _power_exponent(grad, input, exponent, result):
    """Gradient for the exponent: ``result * log(input)``, 0 where 0 is raised to a power that is not negative."""
    if isinstance(input, Tensor):
        zero = (input == 0) & ((exponent.real >= 0) if exponent.is_complex() else (exponent >= 0))
        return grad * conj(ops.where(zero, ops.zeros((), dtype=result.dtype, device=result.device), result * input.log()))
    if input == 0:
        return grad * ops.where((exponent.real if exponent.is_complex() else exponent) >= 0, 0.0, conj(result * -_INFINITY))
    return grad * conj(result * _log(input))


_INFINITY = float("inf")


def _log(x):
    import cmath
    import math
    return cmath.log(x) if isinstance(x, complex) or x < 0 else math.log(x)


def _over_squares(a, b):
    """Return ``a / (a**2 + b**2)``, 0 where both are 0."""
    squares = a * a + b * b
    return (a / squares).masked_fill(squares == 0, 0)


def _signed(grad, input, result):
    ratio = (result / input).masked_fill(input == 0, 0)
    return grad * ratio


def _power_name(input, exponent):
    return "PowBackward0" if not isinstance(exponent, Tensor) else "PowBackward1" if isinstance(input, Tensor) else "PowBackward2"


_LN_TWO = 0.6931471805599453

# The basic operations ---------------------------------------------------------------------

define("add(Tensor|Scalar input, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor", scaled, PROMOTE | BOTH,
       "`input + alpha * other`.")
gradient("add", linear="input+other", input=lambda grad: grad, other=lambda grad, alpha: times(grad, alpha))
define("sub(Tensor|Scalar input, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor", subtract, PROMOTE | BOTH,
       "`input - alpha * other`. Bool operands are not supported.")
gradient("sub", linear="input+other", input=lambda grad: grad, other=lambda grad, alpha: times(-grad, alpha))
define("rsub(Tensor input, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor", subtract_reversed, PROMOTE,
       "`other - alpha * input`. Bool operands are not supported.")
gradient("rsub", node=lambda other: "RsubBackward0" if isinstance(other, Tensor) else "RsubBackward1",
         input=lambda grad, alpha: times(-grad, alpha), other=lambda grad: grad)
define("mul(Tensor|Scalar input, Tensor|Scalar other) -> Tensor", binary, PROMOTE | BOTH, "`input * other`.")
gradient("mul", linear="input other", input=lambda grad, other: grad * conj(other), other=lambda grad, input: grad * conj(input))
define("div(Tensor|Scalar input, Tensor|Scalar other, *, str? rounding_mode=None) -> Tensor", divide,
       INT_TO_FLOAT | BOTH,
       "`input / other`. Integers are converted to the default floating-point dtype. `rounding_mode` 'floor' or "
       "'trunc' rounds the quotient down or towards zero, and the result keeps the promoted dtype.")
sharding("div", "pass avg, sum of input where other='tensor', rounding_mode='none'")     # as for finite quotients
gradient("div", node=lambda rounding_mode: "DivBackward0" if rounding_mode is None else "DivBackward2",
         input=lambda grad, other, rounding_mode: grad / conj(other) if rounding_mode is None else ops.zeros_like(grad),
         other=lambda grad, input, other, rounding_mode: -grad * conj((input / other) / other) if rounding_mode is None
         else ops.zeros_like(grad))
define("floor_divide(Tensor|Scalar input, Tensor|Scalar other) -> Tensor", binary,
       PROMOTE | NO_BOOLS | NO_COMPLEX | BOTH, "Quotient rounded down: `floor(input / other)`.")
define("remainder(Tensor|Scalar input, Tensor|Scalar other) -> Tensor", modulo,
       PROMOTE | NO_BOOLS | NO_COMPLEX | BOTH, "Remainder of floor division, with the sign of `other`, as in Python.")
gradient("remainder", node=lambda other: "RemainderBackward1" if isinstance(other, Tensor) else "RemainderBackward0",
         input=lambda grad: grad, other=lambda grad, input, other: -grad * ops.div(input, other, rounding_mode="floor"))
define("fmod(Tensor input, Tensor|Scalar other) -> Tensor", modulo,
       PROMOTE | NO_BOOLS | NO_COMPLEX | BOTH,
       "Remainder of division rounded towards zero, with the sign of `input`, as in C.")
gradient("fmod", node=lambda other: "FmodBackward1" if isinstance(other, Tensor) else "FmodBackward0",
         input=lambda grad: grad, other=lambda grad, input, other: -grad * ops.div(input, other, rounding_mode="trunc"))
define("pow(Tensor|Scalar input, Tensor|Scalar exponent) -> Tensor", power, PROMOTE | NO_BOOLS | BOTH,
       "`input ** exponent`. If `input` is an integer tensor, `exponent` must not be a negative integer number.")
gradient("pow", node=lambda input, exponent: _power_name(input, exponent),
         input=lambda grad, input, exponent: _power_base(grad, input, exponent),
         exponent=lambda grad, input, exponent, result: _power_exponent(grad, input, exponent, result))
define("float_power(Tensor|Scalar input, Tensor|Scalar exponent) -> Tensor", float_power, PROMOTE | BOTH | EXACT_OUT,
       "`input ** exponent` computed in float64, or in complex128 if an operand is complex.")
recorded_as("float_power")

for _name, _target in (("subtract", "sub"), ("multiply", "mul"), ("divide", "div"), ("true_divide", "div")):
    alias_op(_name, _target)

# Maximum and minimum ------------------------------------------------------------------------

define("maximum(Tensor input, Tensor other) -> Tensor", binary, REAL_ONLY | OUT | ELEMENTWISE,
       "Greater of two elements, or NaN if one of them is NaN.")
gradient("maximum", input=lambda grad, input, other: share(grad, input, other, input < other),
         other=lambda grad, input, other: share(grad, input, other, input > other))
define("minimum(Tensor input, Tensor other) -> Tensor", binary, REAL_ONLY | OUT | ELEMENTWISE,
       "Lesser of two elements, or NaN if one of them is NaN.")
gradient("minimum", input=lambda grad, input, other: share(grad, input, other, input > other),
         other=lambda grad, input, other: share(grad, input, other, input < other))
define("fmax(Tensor input, Tensor other) -> Tensor", binary, REAL_ONLY | OUT | ELEMENTWISE,
       "Greater of two elements. If one is NaN, the other is returned.")
gradient("fmax", input=lambda grad, input, other: grad.masked_fill(~((input >= other) | ops.isnan(other)), 0),
         other=lambda grad, input, other: grad.masked_fill((input >= other) | ops.isnan(other), 0))
define("fmin(Tensor input, Tensor other) -> Tensor", binary, REAL_ONLY | OUT | ELEMENTWISE,
       "Lesser of two elements. If one is NaN, the other is returned.")
gradient("fmin", input=lambda grad, input, other: grad.masked_fill(~((input <= other) | ops.isnan(other)), 0),
         other=lambda grad, input, other: grad.masked_fill((input <= other) | ops.isnan(other), 0))

# Functions of two variables -----------------------------------------------------------------

define("atan2(Tensor input, Tensor other) -> Tensor", binary, INT_TO_FLOAT | NO_COMPLEX | BOTH,
       "Angle in radians from the positive x-axis to the point with x = `other` and y = `input`, in [-pi, pi].")
gradient("atan2", input=lambda grad, input, other: grad * _over_squares(other, input),
         other=lambda grad, input, other: grad * -_over_squares(input, other))
alias_op("arctan2", "atan2")
define("hypot(Tensor input, Tensor other) -> Tensor", binary, PROMOTE | NO_BOOLS | NO_INTS | NO_COMPLEX | BOTH,
       "`sqrt(input**2 + other**2)`, computed without intermediate overflow.")
gradient("hypot", input=lambda grad, input, result: grad * (input / result), other=lambda grad, other, result: grad * (other / result))
define("logaddexp(Tensor input, Tensor other) -> Tensor", binary, PROMOTE | NO_BOOLS | NO_INTS | OUT | ELEMENTWISE,
       "`log(exp(input) + exp(other))`, computed without intermediate overflow.")
gradient("logaddexp", input=lambda grad, input, other: grad / conj(1 + ops.exp(other - input)),
         other=lambda grad, input, other: grad / conj(1 + ops.exp(input - other)))
define("logaddexp2(Tensor input, Tensor other) -> Tensor", binary,
       PROMOTE | NO_BOOLS | NO_INTS | NO_COMPLEX | OUT | ELEMENTWISE,
       "`log2(2**input + 2**other)`, computed without intermediate overflow.")
gradient("logaddexp2", input=lambda grad, input, other: grad / (1 + ops.exp2(other - input)),
         other=lambda grad, input, other: grad / (1 + ops.exp2(input - other)))
define("xlogy(Tensor|Scalar input, Tensor|Scalar other) -> Tensor", binary, INT_TO_FLOAT | NO_COMPLEX | BOTH,
       "`input * log(other)`. It is 0 where `input` is 0, but NaN where `other` is NaN.")
gradient("xlogy", node=lambda input, other: numbered("XlogyBackward", input, other),
         input=lambda grad, input, other: (grad * ops.log(other)).masked_fill((input == 0) & (other <= 0), 0),
         other=lambda grad, input, other: grad * input / other)
define("ldexp(Tensor input, Tensor other) -> Tensor", ldexp, INT_TO_FLOAT | BOTH, "`input * 2**other`.")
gradient("ldexp", input=lambda grad, other: grad * conj(ops.pow(2.0, other)),
         other=lambda grad, result: grad * conj(result) * _LN_TWO)
define("copysign(Tensor input, Tensor|Scalar other) -> Tensor", binary, INT_TO_FLOAT | NO_COMPLEX | BOTH,
       "Magnitude of `input` with the sign of `other`.")
gradient("copysign", node=lambda other: "CopysignBackward0" if isinstance(other, Tensor) else "CopysignBackward1",
         input=lambda grad, input, result: _signed(grad, input, result), other=lambda grad: grad.new_zeros(grad.shape))
define("nextafter(Tensor input, Tensor other) -> Tensor", binary,
       PROMOTE | NO_BOOLS | NO_INTS | NO_COMPLEX | BOTH, "Representable number next to `input` in the direction of `other`.")
gradient("nextafter", input=lambda grad, input, other: ops.where(input == other, 0.0, grad), other=lambda grad: ops.zeros_like(grad))
define("heaviside(Tensor input, Tensor values) -> Tensor", same_dtypes, REAL_ONLY | BOTH | EXACT_OUT,
       "Heaviside step function: 0 where `input` is negative, 1 where it is positive, and `values` where it is 0.")
define("gcd(Tensor input, Tensor other) -> Tensor", binary, PROMOTE | INTS | BOTH,
       "Greatest common divisor, which is not negative.")
define("lcm(Tensor input, Tensor other) -> Tensor", binary, PROMOTE | INTS | BOTH,
       "Least common multiple, which is not negative.")
define("igamma(Tensor input, Tensor other) -> Tensor", binary, FLOATS | BOTH,
       "Regularized lower incomplete gamma function P(input, other).")
gradient("igamma", input=lambda grad: unknown("igamma", "input"),
         other=lambda grad, input, other: grad * ops.exp((input - 1) * ops.log(other) - other - ops.lgamma(input)))
define("igammac(Tensor input, Tensor other) -> Tensor", binary, FLOATS | BOTH,
       "Regularized upper incomplete gamma function Q(input, other).")
gradient("igammac", input=lambda grad: unknown("igammac", "input"),
         other=lambda grad, input, other: -grad * ops.exp((input - 1) * ops.log(other) - other - ops.lgamma(input)))
define("complex(Tensor real, Tensor imag) -> Tensor", from_parts, FUNCTION_ONLY | OUT | EXACT_OUT,
       "`real + i * imag`, from two float16, float32 or float64 tensors of the same dtype.")
gradient("complex", linear="real+imag", real=lambda grad, real: ops.real(grad), imag=lambda grad, imag: ops.imag(grad))
define("polar(Tensor abs, Tensor angle) -> Tensor", from_parts, FUNCTION_ONLY | OUT | EXACT_OUT,
       "`abs * exp(i * angle)`, from two float16, float32 or float64 tensors of the same dtype.")
gradient("polar", abs=lambda grad, result: ops.real(conj(grad) * ops.sgn(result)),
         angle=lambda grad, result: ops.real(conj(grad) * (1j * result)))

for _slot, _name in ((S_ADD, "add"), (S_SUB, "sub"), (S_RSUB, "rsub"), (S_MUL, "mul"), (S_DIV, "div"),
                     (S_FLOORDIV, "floor_divide"), (S_MOD, "remainder"), (S_POW, "pow"), (S_IADD, "add_"),
                     (S_ISUB, "sub_"), (S_IMUL, "mul_"), (S_IDIV, "div_"), (S_IFLOORDIV, "floor_divide_"),
                     (S_IMOD, "remainder_"), (S_IPOW, "pow_")):
    set_slot(_slot, _name)


# Like PyTorch, also define the methods by which Python 2 divided.
type_set(Tensor, "__div__", Tensor.__truediv__)
type_set(Tensor, "__idiv__", Tensor.__itruediv__)


def _reflected(method):
    """Wrap an operator method so that it returns NotImplemented instead of raising TypeError, as in PyTorch."""
    def applied(*args, **kwargs):
        try:
            return method(*args, **kwargs)
        except TypeError:
            return NotImplemented
    applied.__name__ = method.__name__
    return applied


def __rdiv__(self, other):
    return self.reciprocal() * other


for _method in (Tensor.__rsub__, Tensor.__rmod__, Tensor.__rpow__, __rdiv__):
    type_set(Tensor, _method.__name__, _reflected(_method))
