"""Element-wise functions of one tensor, except activations (see `activation`) and `special.*` (see `special`)."""
from cpython.object cimport PyObject
from metatensor._core.device cimport Device
from metatensor._core.dtype cimport BF16, F16, I32, DType, by_code, to_real
from metatensor._core.op cimport (
    ALWAYS_BOOL, BOOL_TO_LONG, COMPLEX_TO_FLOAT, ELEMENTWISE, EXACT_OUT, HOST, INPLACE, INT_TO_FLOAT, IN_PLACE,
    KEEP, NO_GRAD, OUT, WITH_OUT, Call, alias_op, define, hold, int_arg, is_none, make_returns, op_name, set_slot,
    tensor_arg,
)
from metatensor._core.tensor cimport S_ABS, S_INVERT, S_NEG, S_POS, Tensor, new_contiguous
from metatensor._core.types cimport KIND_BOOL, KIND_COMPLEX, KIND_FLOAT, KIND_INT
from metatensor.ops.pointwise cimport (
    NO_BOOLS, NO_COMPLEX, NO_FLOATS, NO_INTS, elementwise_like, fail, refuse, ruled, unary,
)

from metatensor._core.errors import cannot_cast

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
    cdef Tensor result = unary(c)
    return new_contiguous(result.ndim, result.sizes, result.dtype, result.storage.device)   # always contiguous


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

define("abs(Tensor input) -> Tensor", absolute, COMPLEX_TO_FLOAT | BOTH,
       "The magnitude of each element. The result is real, even for complex tensors.")
alias_op("absolute", "abs")
define("angle(Tensor input) -> Tensor", angle, INT_TO_FLOAT | OUT,
       "The angle of each element in the complex plane, in radians. The result is real.")
define("neg(Tensor input) -> Tensor", signed_unary, KEEP | BOTH | EXACT_OUT, "`-x`.")
alias_op("negative", "neg")
define("positive(Tensor input) -> Tensor", positive, HOST,
       "Return the tensor itself. Raise RuntimeError for bool tensors.")
define("sign(Tensor input) -> Tensor", unary, KEEP | NO_COMPLEX | BOTH | EXACT_OUT,
       "The sign of each element: -1, 0 or 1.")
define("sgn(Tensor input) -> Tensor", unary, KEEP | BOTH | EXACT_OUT,
       "`x / |x|`, or 0 if x is 0. For real tensors this is `sign`.")
define("signbit(Tensor input) -> Tensor", unary, ALWAYS_BOOL | NO_COMPLEX | OUT | EXACT_OUT,
       "Test whether the sign bit of each element is set. The result is bool.")
define("conj_physical(Tensor input) -> Tensor", conjugate, KEEP | BOTH | EXACT_OUT,
       "The complex conjugate as a new tensor, not as a lazy view. A real tensor is returned unchanged.")
define("square(Tensor input) -> Tensor", unary, BOOL_TO_LONG | BOTH, "x * x.")
define("reciprocal(Tensor input) -> Tensor", unary, TO_FLOAT, "1 / x.")
define("sqrt(Tensor input) -> Tensor", unary, TO_FLOAT, "The square root.")
define("rsqrt(Tensor input) -> Tensor", unary, TO_FLOAT, "1 / sqrt(x).")
define("frac(Tensor input) -> Tensor", frac, KEEP | NO_INTS | NO_COMPLEX | BOTH | EXACT_OUT, "x - trunc(x).")
define("frexp(Tensor input) -> (Tensor mantissa, Tensor exponent)", frexp, OUT | EXACT_OUT,
       "Split each element x into mantissa m (0.5 <= |m| < 1, or 0) and int32 exponent e with x = m * 2**e. Returns "
       "(mantissa, exponent).")
define("nan_to_num(Tensor input, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor", nan_to_num,
       KEEP | BOTH | EXACT_OUT,
       "Replace NaN by `nan` (default 0), and infinity and -infinity by `posinf` and `neginf` (default: the largest "
       "and lowest finite numbers of the dtype).")
define("bitwise_not(Tensor input) -> Tensor", unary, KEEP | NO_FLOATS | NO_COMPLEX | BOTH | EXACT_OUT,
       "Invert each bit of integers. For bool this is the logical not.")
define("logical_not(Tensor input) -> Tensor", unary, ALWAYS_BOOL | BOTH,
       "Test whether each element is zero. The result is bool.")

# Rounding ---------------------------------------------------------------------------------

cdef long ROUNDING = KEEP | NO_BOOLS | NO_COMPLEX | INPLACE | OUT | EXACT_OUT

define("ceil(Tensor input) -> Tensor", unary, ROUNDING, "Round each element up to an integer, in the input's dtype.")
define("floor(Tensor input) -> Tensor", unary, ROUNDING, "Round each element down to an integer, in the input's dtype.")
define("trunc(Tensor input) -> Tensor", unary, ROUNDING,
       "Round each element towards zero to an integer, in the input's dtype.")
alias_op("fix", "trunc")
define("round(Tensor input, *, int decimals=0) -> Tensor", rounded, ROUNDING,
       "Round each element to `decimals` decimal places. Ties round to even.")

# Exponentials and logarithms --------------------------------------------------------------

define("exp(Tensor input) -> Tensor", unary, TO_FLOAT, "e**x.")
define("exp2(Tensor input) -> Tensor", unary, TO_FLOAT, "2**x.")
define("expm1(Tensor input) -> Tensor", unary, TO_FLOAT, "exp(x) - 1, accurate for x near 0.")
define("log(Tensor input) -> Tensor", unary, TO_FLOAT, "The natural logarithm.")
define("log2(Tensor input) -> Tensor", unary, TO_FLOAT, "The logarithm to base 2.")
define("log10(Tensor input) -> Tensor", unary, TO_FLOAT, "The logarithm to base 10.")
define("log1p(Tensor input) -> Tensor", unary, TO_FLOAT, "log(1 + x), accurate for x near 0.")
define("sigmoid(Tensor input) -> Tensor", unary, TO_FLOAT, "1 / (1 + exp(-x)).")
define("logit(Tensor input, float? eps=None) -> Tensor", unary, REAL_TO_FLOAT,
       "`log(x / (1 - x))`. If `eps` is given, x is first clamped to [eps, 1 - eps].")

# Trigonometry -----------------------------------------------------------------------------

define("sin(Tensor input) -> Tensor", unary, TO_FLOAT, "The sine.")
define("cos(Tensor input) -> Tensor", unary, TO_FLOAT, "The cosine.")
define("tan(Tensor input) -> Tensor", unary, TO_FLOAT, "The tangent.")
define("asin(Tensor input) -> Tensor", unary, TO_FLOAT, "The inverse sine.")
define("acos(Tensor input) -> Tensor", unary, TO_FLOAT, "The inverse cosine.")
define("atan(Tensor input) -> Tensor", unary, TO_FLOAT, "The inverse tangent.")
define("sinh(Tensor input) -> Tensor", unary, TO_FLOAT, "The hyperbolic sine.")
define("cosh(Tensor input) -> Tensor", unary, TO_FLOAT, "The hyperbolic cosine.")
define("tanh(Tensor input) -> Tensor", unary, TO_FLOAT, "The hyperbolic tangent.")
define("asinh(Tensor input) -> Tensor", unary, TO_FLOAT, "The inverse hyperbolic sine.")
define("acosh(Tensor input) -> Tensor", unary, TO_FLOAT, "The inverse hyperbolic cosine.")
define("atanh(Tensor input) -> Tensor", unary, TO_FLOAT, "The inverse hyperbolic tangent.")
define("sinc(Tensor input) -> Tensor", unary, TO_FLOAT, "sin(pi x) / (pi x), and 1 at 0.")
define("deg2rad(Tensor input) -> Tensor", real_unary, TO_FLOAT, "Convert degrees to radians.")
define("rad2deg(Tensor input) -> Tensor", real_unary, TO_FLOAT, "Convert radians to degrees.")

for _name, _target in (("arcsin", "asin"), ("arccos", "acos"), ("arctan", "atan"),
                       ("arcsinh", "asinh"), ("arccosh", "acosh"), ("arctanh", "atanh")):
    alias_op(_name, _target)

# Error and gamma functions ----------------------------------------------------------------

define("erf(Tensor input) -> Tensor", unary, REAL_TO_FLOAT, "The error function.")
define("erfc(Tensor input) -> Tensor", unary, REAL_TO_FLOAT, "1 - erf(x), accurate where erf(x) is near 1.")
define("erfinv(Tensor input) -> Tensor", unary, REAL_TO_FLOAT, "The inverse of erf.")
define("lgamma(Tensor input) -> Tensor", unary, REAL_TO_FLOAT,
       "`log(|gamma(x)|)`.")
define("digamma(Tensor input) -> Tensor", unary, REAL_TO_FLOAT,
       "The digamma function: the derivative of `log(gamma(x))`.")
define("polygamma(Tensor input, int n) -> Tensor", polygamma, REAL_TO_FLOAT,
       "The n-th derivative of the digamma function. The function may also be called as polygamma(n, input).")
define("polygamma.n(int n, Tensor input) -> Tensor", polygamma_n_first, INT_TO_FLOAT | NO_COMPLEX | OUT)
define("mvlgamma(Tensor input, int p) -> Tensor", multivariate, REAL_TO_FLOAT,
       "The logarithm of the multivariate gamma function of dimension p.")
define("i0(Tensor input) -> Tensor", unary, REAL_TO_FLOAT, "The modified Bessel function I0.")

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
set_slot(S_INVERT, "bitwise_not")
