"""`special.*`: special functions, orthogonal polynomials, and aliases of other ops."""
from metatensor._core.op cimport ELEMENTWISE, INT_TO_FLOAT, NO_GRAD, OUT, alias_op, define
from metatensor.ops.pointwise cimport NO_COMPLEX, binary, unary
from metatensor._core.gradient_parts import numbered, unknown
from metatensor._core.gradients import gradient, ops, recorded_as, special
from metatensor.ops import binary as _binary_family, unary as _unary_family  # no-cython-lint: aliases point there

cdef long REAL = INT_TO_FLOAT | NO_COMPLEX | OUT | ELEMENTWISE

for _name in ("digamma", "erf", "erfc", "erfinv", "exp2", "expm1", "i0", "log1p", "logit", "polygamma", "round",
              "sinc", "xlogy"):
    alias_op("special." + _name, _name)
for _name, _target in (("expit", "sigmoid"), ("gammaln", "lgamma"), ("psi", "digamma"), ("gammainc", "igamma"),
                       ("gammaincc", "igammac"), ("multigammaln", "mvlgamma")):
    alias_op("special." + _name, _target)

# One variable -----------------------------------------------------------------------------

for _name, _doc in (
    ("airy_ai", "The Airy function Ai."),
    ("bessel_j0", "The Bessel function J0."),
    ("bessel_j1", "The Bessel function J1."),
    ("bessel_y0", "The Bessel function Y0."),
    ("bessel_y1", "The Bessel function Y1."),
    ("entr", "The entropy term `-x * log(x)`, which is 0 at 0 and -inf for negative x."),
    ("erfcx", "exp(x**2) * erfc(x)."),
    ("i0e", "exp(-|x|) * i0(x), the exponentially scaled modified Bessel function I0."),
    ("i1", "The modified Bessel function I1."),
    ("i1e", "exp(-|x|) * i1(x), the exponentially scaled modified Bessel function I1."),
    ("log_ndtr", "The logarithm of `special.ndtr`."),
    ("modified_bessel_i0", "The modified Bessel function I0."),
    ("modified_bessel_i1", "The modified Bessel function I1."),
    ("modified_bessel_k0", "The modified Bessel function K0."),
    ("modified_bessel_k1", "The modified Bessel function K1."),
    ("ndtr", "The cumulative distribution function of the standard normal distribution."),
    ("ndtri", "The inverse of `special.ndtr`."),
    ("scaled_modified_bessel_k0", "exp(x) * modified_bessel_k0(x)."),
    ("scaled_modified_bessel_k1", "exp(x) * modified_bessel_k1(x)."),
    ("spherical_bessel_j0", "The spherical Bessel function j0: sin(x) / x, and 1 at 0."),
):
    _grad = NO_GRAD if "bessel" in _name or _name == "airy_ai" else 0       # PyTorch has no gradients for these
    define(f"special.{_name}(Tensor input) -> Tensor", unary, REAL | _grad, _doc)

_ROOT_PI, _ROOT_TWO = 1.7724538509055159, 1.4142135623730951


def _of_i1(grad, input, result):
    """Gradient of I1: ``I0(x) - I1(x) / x``, 1/2 at 0."""
    safe = ops.where(input == 0, 1.0, input)
    return grad * ops.where(input == 0, 0.5, ops.i0(safe) - result / safe)


def _of_i1e(grad, input, result):
    """Gradient of ``exp(-|x|) I1(x)``, 1/2 at 0."""
    safe = ops.where(input == 0, 1.0, input)
    return grad * ops.where(input == 0, 0.5, special.i0e(safe) - result * (ops.sgn(safe) + 1 / safe))


gradient("special.entr", input=lambda grad, input: grad * (-input.log() - 1))
gradient("special.erfcx", input=lambda grad, input, result: grad * (2 * input * result - 2 / _ROOT_PI))
gradient("special.i0e", input=lambda grad, input, result: grad * (special.i1e(input) - ops.sgn(input) * result))
gradient("special.i1", input=lambda grad, input, result: _of_i1(grad, input, result))
gradient("special.i1e", input=lambda grad, input, result: _of_i1e(grad, input, result))
gradient("special.log_ndtr",
         input=lambda grad, input, result: grad * (ops.exp(-(result + input * input / 2)) / (_ROOT_TWO * _ROOT_PI)))
recorded_as("special.ndtr", "activation.ndtr")
gradient("special.ndtri", input=lambda grad, result: grad * (_ROOT_TWO * _ROOT_PI * ops.exp(result * result / 2)))

# Two variables ----------------------------------------------------------------------------

define("special.xlog1py(Tensor|Scalar input, Tensor|Scalar other) -> Tensor", binary, REAL,
       "`input * log1p(other)`. It is 0 where `input` is 0, but NaN where `other` is NaN.")
gradient("special.xlog1py", node=lambda input, other: numbered("SpecialXlog1PyBackward", input, other),
         input=lambda grad, input, other: (grad * ops.log1p(other)).masked_fill((input == 0) & (other <= -1), 0),
         other=lambda grad, input, other: grad * input / (other + 1))
define("special.zeta(Tensor|Scalar input, Tensor|Scalar other) -> Tensor", binary, REAL,
       "The Hurwitz zeta function: the sum of `(k + other)**-input` over all integers k >= 0.")
gradient("special.zeta", node=lambda input, other: numbered("SpecialZetaBackward", input, other),
         input=lambda grad: unknown("special.zeta", "input"),
         other=lambda grad, input, other: grad * -input * special.zeta(input + 1, other))

for _name, _doc in (
    ("chebyshev_polynomial_t", "The Chebyshev polynomial of the first kind of degree n."),
    ("chebyshev_polynomial_u", "The Chebyshev polynomial of the second kind of degree n."),
    ("chebyshev_polynomial_v", "The Chebyshev polynomial of the third kind of degree n."),
    ("chebyshev_polynomial_w", "The Chebyshev polynomial of the fourth kind of degree n."),
    ("shifted_chebyshev_polynomial_t",
     "The Chebyshev polynomial of the first kind of degree n at 2 * input - 1."),
    ("shifted_chebyshev_polynomial_u",
     "The Chebyshev polynomial of the second kind of degree n at 2 * input - 1."),
    ("shifted_chebyshev_polynomial_v",
     "The Chebyshev polynomial of the third kind of degree n at 2 * input - 1."),
    ("shifted_chebyshev_polynomial_w",
     "The Chebyshev polynomial of the fourth kind of degree n at 2 * input - 1."),
    ("hermite_polynomial_h", "The physicists' Hermite polynomial of degree n."),
    ("hermite_polynomial_he", "The probabilists' Hermite polynomial of degree n."),
    ("laguerre_polynomial_l", "The Laguerre polynomial of degree n."),
    ("legendre_polynomial_p", "The Legendre polynomial of degree n."),
):
    define(f"special.{_name}(Tensor|Scalar input, Tensor|Scalar n) -> Tensor", binary, REAL | NO_GRAD, _doc)
