"""Element-wise functions of one tensor, except activations (see `activation`) and `special.*` (see `special`)."""
from cpython.object cimport PyObject
from metatensor._core.device cimport Device
from metatensor._core.dtype cimport BF16, F16, I32, DType, by_code, to_real
from metatensor._core.memory cimport Scope, pause_tracking, resume_tracking
from metatensor._core.op cimport (
    ALWAYS_BOOL, BOOL_TO_LONG, COMPLEX_TO_FLOAT, ELEMENTWISE, EXACT_OUT, HOST, INPLACE, INT_TO_FLOAT, IN_PLACE,
    KEEP, NO_GRAD, OUT, WITH_OUT, Call, alias_op, define, hold, int_arg, is_none, make_returns, op_name, set_slot,
    tensor_arg,
)
from metatensor._core.tensor cimport S_ABS, S_INVERT, S_NEG, S_POS, S_RECIPROCAL, Tensor, new_contiguous
from metatensor._core.types cimport KIND_BOOL, KIND_COMPLEX, KIND_FLOAT, KIND_INT
from metatensor.ops.pointwise cimport (
    NO_BOOLS, NO_COMPLEX, NO_FLOATS, NO_INTS, elementwise_like, fail, refuse, ruled, unary,
)

from metatensor._core.errors import cannot_cast
from metatensor._core.gradient_parts import conj
from metatensor._core.gradients import gradient, ops, special
from metatensor._core.sharding import sharding

cdef long BOTH = INPLACE | OUT
cdef long TO_FLOAT = INT_TO_FLOAT | INPLACE | OUT
cdef long REAL_TO_FLOAT = INT_TO_FLOAT | NO_COMPLEX | INPLACE | OUT


# Kernels with further rules ---------------------------------------------------------------

cdef object real_unary(Call* c):
    """Raise RuntimeError rather than NotImplementedError for complex tensors."""
    if tensor_arg(c, 0).dtype.kind == KIND_COMPLEX:
        fail(c, f"complex tensors are not supported, got {tensor_arg(c, 0).dtype.name}")
    return unary(c)


cdef object absolute(Call* c):
    """Raise RuntimeError for an in-place call on a complex tensor, which cannot store the real magnitudes.

    For a real input, `out=` must have the input's dtype. For a complex input, the magnitudes are cast to the dtype of
    `out=`. As in PyTorch, the CPU does not support bool, but other devices do.
    """
    cdef DType d = tensor_arg(c, 0).dtype
    if d.kind == KIND_COMPLEX:
        if c.variant == IN_PLACE:
            fail(c, "the result for a complex tensor is real, so it cannot be stored in place")
    elif c.variant == WITH_OUT and (<Tensor?><object>c.out).dtype is not d:
        raise cannot_cast(op_name(c), d, (<Tensor>c.out).dtype)
    elif d.kind == KIND_BOOL and (<Device>c.device).type == "cpu":
        refuse(c, d)
    return unary(c)


cdef object angle(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    return elementwise_like(t, to_real(ruled(c, t.dtype)), <Device>c.device)


cdef object positive(Call* c):
    """Return the tensor itself, like PyTorch."""
    if tensor_arg(c, 0).dtype.kind == KIND_BOOL:
        fail(c, "bool tensors are not supported")
    return tensor_arg(c, 0)


cdef object conjugate(Call* c):
    """Return a real tensor unchanged, unless `out=` is given."""
    if tensor_arg(c, 0).dtype.kind != KIND_COMPLEX and c.variant != WITH_OUT:
        return tensor_arg(c, 0)
    return unary(c)


cdef object signed_unary(Call* c):
    if tensor_arg(c, 0).dtype.kind == KIND_BOOL:
        fail(c, "bool tensors are not supported; use logical_not() or ~")
    return unary(c)


cdef object frac(Call* c):
    if tensor_arg(c, 0).dtype.kind == KIND_BOOL:
        refuse(c, tensor_arg(c, 0).dtype)
    return unary(c)


# The largest finite number of each half-precision dtype. A device may compute in a dtype that has larger numbers.
cdef dict _largest = {F16: 65504.0, BF16: 3.3895313892515355e38}


cdef object nan_to_num(Call* c):
    """Set the default limits of half-precision tensors, so that they do not depend on the dtype of the computation."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef object limit
    if c.variant == IN_PLACE and t.dtype.kind in (KIND_BOOL, KIND_INT):
        return t
    if t.dtype.kind == KIND_FLOAT and t.dtype.itemsize == 2:
        limit = _largest[t.dtype.code]
        if is_none(c, 2):
            c.args[2] = <PyObject*>limit
        if is_none(c, 3):
            limit = -limit
            hold(c, limit)
            c.args[3] = <PyObject*>limit
    return unary(c)


cdef object rounded(Call* c):
    """Raise NotImplementedError for integer tensors if `decimals` is not 0."""
    if int_arg(c, 1) != 0 and tensor_arg(c, 0).dtype.kind == KIND_INT:
        refuse(c, tensor_arg(c, 0).dtype)
    return unary(c)


cdef object frexp(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    if t.dtype.kind != KIND_FLOAT:
        fail(c, f"only real floating-point tensors are supported, got {t.dtype.name}")
    return make_returns(c, (elementwise_like(t, t.dtype, <Device>c.device),
                            elementwise_like(t, by_code(I32), <Device>c.device)))


cdef object multivariate(Call* c):
    if int_arg(c, 1) < 1:
        fail(c, f"p must be at least 1, got {int_arg(c, 1)}")
    cdef Scope scope = pause_tracking()
    cdef Tensor like
    try:
        like = unary(c)
    finally:
        resume_tracking(scope)
    return new_contiguous(like.ndim, like.sizes, like.dtype, like.storage.device)       # always contiguous


cdef object polygamma(Call* c):
    if int_arg(c, 1) < 0:
        fail(c, f"n must not be negative, got {int_arg(c, 1)}")
    return unary(c)


cdef object polygamma_n_first(Call* c):
    """Compute polygamma(n, input), the function with the order as first argument. The method has the tensor first."""
    cdef Tensor t = tensor_arg(c, 1)
    if int_arg(c, 0) < 0:
        fail(c, f"n must not be negative, got {int_arg(c, 0)}")
    return elementwise_like(t, ruled(c, t.dtype), <Device>c.device)


# Arithmetic and sign ----------------------------------------------------------------------

# Parts of gradients -------------------------------------------------------------------------------

_LOG_2, _LOG_10 = 0.6931471805599453, 2.302585092994046
_TWO_OVER_ROOT_PI = 1.1283791670955126
_DEGREE = 0.017453292519943295
_PI = 3.141592653589793


def _turned(grad, input):
    """Gradient of the angle: the direction in which it grows, over the modulus; 0 at 0 and for real numbers."""
    if not input.is_complex():
        return ops.zeros_like(input)
    modulus = input.abs()
    real, imag = ops.real(input), ops.imag(input)
    squares = modulus * modulus
    return ops.complex((-imag / squares * grad).masked_fill_(squares == 0, 0), (real / squares * grad).masked_fill_(squares == 0, 0))


def _of_direction(grad, input, direction):
    """Gradient of ``z / |z|``: the part of `grad` across the direction, over the modulus; 0 for real numbers."""
    if not input.is_complex():
        return grad.new_zeros(grad.shape)
    modulus = input.abs()
    along = ops.real(grad * conj(direction)) * direction
    return ((grad - along) / modulus).masked_fill_(modulus == 0, 0)


def _of_logit(grad, input, eps):
    slope = grad / (input * (1 - input))
    if eps is None:
        return ops.where((input < 0) | (input > 1), float("nan"), slope)
    return ops.where((input < eps) | (input > 1 - eps), 0.0, slope)


def _of_sinc(grad, input):
    """Gradient of ``sin(pi x) / (pi x)``: ``(cos(pi x) pi x - sin(pi x)) / (pi x**2)``, 0 at 0."""
    turn = input * _PI
    slope = (turn.cos() * turn - turn.sin()) / (turn * input)
    return grad * conj(slope.masked_fill(turn * input == 0, 0))


def _of_mvlgamma(grad, input, p):
    """Gradient of the multivariate log gamma: the sum of digamma at ``input - i / 2`` for i < p."""
    halves = ops.arange(-p / 2 + 0.5, 0.5, 0.5, dtype=input.dtype, device=input.device)
    return grad * (input.unsqueeze(-1) + halves).digamma_().sum(-1)


define("abs(Tensor input) -> Tensor", absolute, COMPLEX_TO_FLOAT | BOTH,
       "The magnitude of each element. The result is real, even for complex tensors.")
gradient("abs", input=lambda grad, input: grad * input.sgn())
alias_op("absolute", "abs")
define("angle(Tensor input) -> Tensor", angle, INT_TO_FLOAT | OUT,
       "The angle of each element in the complex plane, in radians. The result is real.")
gradient("angle", input=lambda grad, input: _turned(grad, input))
define("neg(Tensor input) -> Tensor", signed_unary, KEEP | BOTH | EXACT_OUT, "`-x`.")
gradient("neg", linear="input", input=lambda grad: -grad)
alias_op("negative", "neg")
define("positive(Tensor input) -> Tensor", positive, HOST,
       "Return the tensor itself. Raise RuntimeError for bool tensors.")
define("sign(Tensor input) -> Tensor", unary, KEEP | NO_COMPLEX | BOTH | EXACT_OUT,
       "The sign of each element: -1, 0 or 1.")
gradient("sign", input=lambda grad: ops.zeros_like(grad))
define("sgn(Tensor input) -> Tensor", unary, KEEP | BOTH | EXACT_OUT,
       "`x / |x|`, or 0 if x is 0. For real tensors this is `sign`.")
gradient("sgn", input=lambda grad, input, result: _of_direction(grad, input, result))
define("signbit(Tensor input) -> Tensor", unary, ALWAYS_BOOL | NO_COMPLEX | OUT | EXACT_OUT,
       "Test whether the sign bit of each element is set. The result is bool.")
define("conj_physical(Tensor input) -> Tensor", conjugate, KEEP | BOTH | EXACT_OUT,
       "The complex conjugate as a new tensor, not as a lazy view. A real tensor is returned unchanged.")
gradient("conj_physical", linear="input", input=lambda grad: ops.conj_physical(grad))
define("square(Tensor input) -> Tensor", unary, BOOL_TO_LONG | BOTH, "x * x.")
gradient("square", node="PowBackward0", input=lambda grad, input: grad * conj(2.0 * input))
define("reciprocal(Tensor input) -> Tensor", unary, TO_FLOAT, "1 / x.")
gradient("reciprocal", input=lambda grad, result: -grad * conj(result * result))
define("sqrt(Tensor input) -> Tensor", unary, TO_FLOAT, "The square root.")
gradient("sqrt", input=lambda grad, result: grad / (2 * conj(result)))
define("rsqrt(Tensor input) -> Tensor", unary, TO_FLOAT, "1 / sqrt(x).")
gradient("rsqrt", input=lambda grad, result: -0.5 * grad * conj(result ** 3))
define("frac(Tensor input) -> Tensor", frac, KEEP | NO_INTS | NO_COMPLEX | BOTH | EXACT_OUT, "x - trunc(x).")
gradient("frac", input=lambda grad: grad)
define("frexp(Tensor input) -> (Tensor mantissa, Tensor exponent)", frexp, OUT | EXACT_OUT,
       "Split each element x into mantissa m (0.5 <= |m| < 1, or 0) and int32 exponent e with x = m * 2**e. Returns "
       "(mantissa, exponent).")
gradient("frexp", outputs=(0,), input=lambda grad, exponent: grad / ops.exp2(exponent))
define("nan_to_num(Tensor input, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor", nan_to_num,
       KEEP | BOTH | EXACT_OUT,
       "Replace NaN by `nan` (default 0), and infinity and -infinity by `posinf` and `neginf` (default: the largest "
       "and lowest finite numbers of the dtype).")
sharding("nan_to_num", "no passes")     # sums that are not finite become other numbers than their parts
gradient("nan_to_num", input=lambda grad, input: grad * ops.isfinite(input))
define("bitwise_not(Tensor input) -> Tensor", unary, KEEP | NO_FLOATS | NO_COMPLEX | BOTH | EXACT_OUT,
       "Invert each bit of integers. For bool this is the logical not.")
define("logical_not(Tensor input) -> Tensor", unary, ALWAYS_BOOL | BOTH,
       "Test whether each element is zero. The result is bool.")

# Rounding ---------------------------------------------------------------------------------

cdef long ROUNDING = KEEP | NO_BOOLS | NO_COMPLEX | INPLACE | OUT | EXACT_OUT

define("ceil(Tensor input) -> Tensor", unary, ROUNDING, "Round each element up to an integer, in the input's dtype.")
gradient("ceil", input=lambda grad: ops.zeros_like(grad))
define("floor(Tensor input) -> Tensor", unary, ROUNDING, "Round each element down to an integer, in the input's dtype.")
gradient("floor", input=lambda grad: ops.zeros_like(grad))
define("trunc(Tensor input) -> Tensor", unary, ROUNDING,
       "Round each element towards zero to an integer, in the input's dtype.")
gradient("trunc", input=lambda grad: ops.zeros_like(grad))
alias_op("fix", "trunc")
define("round(Tensor input, *, int decimals=0) -> Tensor", rounded, ROUNDING,
       "Round each element to `decimals` decimal places. Ties round to even.")
gradient("round", node=lambda decimals: "RoundBackward1" if decimals else "RoundBackward0", input=lambda grad: ops.zeros_like(grad))

# Exponentials and logarithms --------------------------------------------------------------

define("exp(Tensor input) -> Tensor", unary, TO_FLOAT, "e**x.")
gradient("exp", input=lambda grad, result: grad * conj(result))
define("exp2(Tensor input) -> Tensor", unary, TO_FLOAT, "2**x.")
gradient("exp2", input=lambda grad, result: grad * conj(result) * _LOG_2)
define("expm1(Tensor input) -> Tensor", unary, TO_FLOAT, "exp(x) - 1, accurate for x near 0.")
gradient("expm1", input=lambda grad, result: grad * (conj(result) + 1))
define("log(Tensor input) -> Tensor", unary, TO_FLOAT, "The natural logarithm.")
gradient("log", input=lambda grad, input: grad / conj(input))
define("log2(Tensor input) -> Tensor", unary, TO_FLOAT, "The logarithm to base 2.")
gradient("log2", input=lambda grad, input: grad / (conj(input) * _LOG_2))
define("log10(Tensor input) -> Tensor", unary, TO_FLOAT, "The logarithm to base 10.")
gradient("log10", input=lambda grad, input: grad / (conj(input) * _LOG_10))
define("log1p(Tensor input) -> Tensor", unary, TO_FLOAT, "log(1 + x), accurate for x near 0.")
gradient("log1p", input=lambda grad, input: grad / conj(input + 1))
define("sigmoid(Tensor input) -> Tensor", unary, TO_FLOAT, "1 / (1 + exp(-x)).")
gradient("sigmoid", input=lambda grad, result: ops.sigmoid_backward(grad, result))
define("logit(Tensor input, float? eps=None) -> Tensor", unary, REAL_TO_FLOAT,
       "`log(x / (1 - x))`. If `eps` is given, x is first clamped to [eps, 1 - eps].")
gradient("logit", input=lambda grad, input, eps: _of_logit(grad, input, eps))

# Trigonometry -----------------------------------------------------------------------------

define("sin(Tensor input) -> Tensor", unary, TO_FLOAT, "The sine.")
gradient("sin", input=lambda grad, input: grad * conj(input.cos()))
define("cos(Tensor input) -> Tensor", unary, TO_FLOAT, "The cosine.")
gradient("cos", input=lambda grad, input: grad * -conj(input.sin()))
define("tan(Tensor input) -> Tensor", unary, TO_FLOAT, "The tangent.")
gradient("tan", input=lambda grad, result: grad * conj(1 + result ** 2))
define("asin(Tensor input) -> Tensor", unary, TO_FLOAT, "The inverse sine.")
gradient("asin", input=lambda grad, input: grad * conj((1 - input * input).rsqrt()))
define("acos(Tensor input) -> Tensor", unary, TO_FLOAT, "The inverse cosine.")
gradient("acos", input=lambda grad, input: grad * -conj((1 - input * input).rsqrt()))
define("atan(Tensor input) -> Tensor", unary, TO_FLOAT, "The inverse tangent.")
gradient("atan", input=lambda grad, input: grad / conj(input * input + 1))
define("sinh(Tensor input) -> Tensor", unary, TO_FLOAT, "The hyperbolic sine.")
gradient("sinh", input=lambda grad, input: grad * conj(input.cosh()))
define("cosh(Tensor input) -> Tensor", unary, TO_FLOAT, "The hyperbolic cosine.")
gradient("cosh", input=lambda grad, input: grad * conj(input.sinh()))
define("tanh(Tensor input) -> Tensor", unary, TO_FLOAT, "The hyperbolic tangent.")
gradient("tanh", input=lambda grad, result: ops.tanh_backward(grad, result))
define("asinh(Tensor input) -> Tensor", unary, TO_FLOAT, "The inverse hyperbolic sine.")
gradient("asinh", input=lambda grad, input: grad * conj((input ** 2 + 1).rsqrt()))
define("acosh(Tensor input) -> Tensor", unary, TO_FLOAT, "The inverse hyperbolic cosine.")
gradient("acosh", input=lambda grad, input: grad * conj((input - 1).rsqrt() * (input + 1).rsqrt()))
define("atanh(Tensor input) -> Tensor", unary, TO_FLOAT, "The inverse hyperbolic tangent.")
gradient("atanh", input=lambda grad, input: grad / conj(1 - input ** 2))
define("sinc(Tensor input) -> Tensor", unary, TO_FLOAT, "sin(pi x) / (pi x), and 1 at 0.")
gradient("sinc", input=lambda grad, input: _of_sinc(grad, input))
define("deg2rad(Tensor input) -> Tensor", real_unary, TO_FLOAT, "Convert degrees to radians.")
gradient("deg2rad", input=lambda grad: grad * _DEGREE)
define("rad2deg(Tensor input) -> Tensor", real_unary, TO_FLOAT, "Convert radians to degrees.")
gradient("rad2deg", input=lambda grad: grad / _DEGREE)

for _name, _target in (("arcsin", "asin"), ("arccos", "acos"), ("arctan", "atan"),
                       ("arcsinh", "asinh"), ("arccosh", "acosh"), ("arctanh", "atanh")):
    alias_op(_name, _target)

# Error and gamma functions ----------------------------------------------------------------

define("erf(Tensor input) -> Tensor", unary, REAL_TO_FLOAT, "The error function.")
gradient("erf", input=lambda grad, input: grad * (_TWO_OVER_ROOT_PI * ops.exp(-(input * input))))
define("erfc(Tensor input) -> Tensor", unary, REAL_TO_FLOAT, "1 - erf(x), accurate where erf(x) is near 1.")
gradient("erfc", input=lambda grad, input: grad * (-_TWO_OVER_ROOT_PI * ops.exp(-(input * input))))
define("erfinv(Tensor input) -> Tensor", unary, REAL_TO_FLOAT, "The inverse of erf.")
gradient("erfinv", input=lambda grad, input: grad * (ops.exp(ops.erfinv(input).square()) / _TWO_OVER_ROOT_PI))
define("lgamma(Tensor input) -> Tensor", unary, REAL_TO_FLOAT,
       "`log(|gamma(x)|)`.")
gradient("lgamma", input=lambda grad, input: grad * input.digamma())
define("digamma(Tensor input) -> Tensor", unary, REAL_TO_FLOAT,
       "The digamma function: the derivative of `log(gamma(x))`.")
gradient("digamma", input=lambda grad, input: grad * ops.polygamma(1, input))
define("polygamma(Tensor input, int n) -> Tensor", polygamma, REAL_TO_FLOAT,
       "The n-th derivative of the digamma function. The function may also be called as polygamma(n, input).")
gradient("polygamma", input=lambda grad, input, n: grad * ops.polygamma(n + 1, input))
define("polygamma.n(int n, Tensor input) -> Tensor", polygamma_n_first, INT_TO_FLOAT | NO_COMPLEX | OUT)
gradient("polygamma.n", input=lambda grad, input, n: grad * ops.polygamma(n + 1, input))
define("mvlgamma(Tensor input, int p) -> Tensor", multivariate, REAL_TO_FLOAT,
       "The logarithm of the multivariate gamma function of dimension p.")
gradient("mvlgamma", input=lambda grad, input, p: _of_mvlgamma(grad, input, p))
define("i0(Tensor input) -> Tensor", unary, REAL_TO_FLOAT, "The modified Bessel function I0.")
gradient("i0", input=lambda grad, input: grad * special.i1(input))

# Classification ---------------------------------------------------------------------------

define("isnan(Tensor input) -> Tensor", unary, ALWAYS_BOOL | NO_GRAD,
       "Test whether each element is NaN. The result is bool.")
define("isinf(Tensor input) -> Tensor", unary, ALWAYS_BOOL | NO_GRAD,
       "Test whether each element is infinite. The result is bool.")
define("isfinite(Tensor input) -> Tensor", unary, ALWAYS_BOOL | NO_GRAD,
       "Test whether each element is finite. The result is bool.")
define("isreal(Tensor input) -> Tensor", unary, ALWAYS_BOOL | NO_GRAD,
       "Test whether the imaginary part of each element is 0. The result is bool.")
define("isposinf(Tensor input) -> Tensor", real_unary, ALWAYS_BOOL | NO_GRAD | OUT | EXACT_OUT | ELEMENTWISE,
       "Test whether each element is +inf. The result is bool.")
define("isneginf(Tensor input) -> Tensor", real_unary, ALWAYS_BOOL | NO_GRAD | OUT | EXACT_OUT | ELEMENTWISE,
       "Test whether each element is -inf. The result is bool.")

set_slot(S_NEG, "neg")
set_slot(S_POS, "positive")
set_slot(S_ABS, "abs")
set_slot(S_RECIPROCAL, "reciprocal")
set_slot(S_INVERT, "bitwise_not")
