# Written by tools/stubs.py from the operators' declarations; edit those, or tools/stub_heads.
# mypy: disable-error-code="overload-overlap, overload-cannot-match, misc, override, assignment"
from builtins import bool as _bool, float as _float, int as _int, str as _str
from collections.abc import Sequence
from typing import Any, NamedTuple, overload

from metatensor._core.device import Device as _device
from metatensor._core.dtype import DType as _dtype
from metatensor._core.formats import LayoutTag as _layout, MemoryFormatTag as _memory_format
from metatensor._core.random import Generator as _Generator
from metatensor._core.tensor import Tensor, _Number

def airy_ai(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The Airy function Ai."""
def bessel_j0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The Bessel function J0."""
def bessel_j1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The Bessel function J1."""
def bessel_y0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The Bessel function Y0."""
def bessel_y1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The Bessel function Y1."""
def chebyshev_polynomial_t(input: Tensor | _Number, n: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """The Chebyshev polynomial of the first kind of degree n."""
def chebyshev_polynomial_u(input: Tensor | _Number, n: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """The Chebyshev polynomial of the second kind of degree n."""
def chebyshev_polynomial_v(input: Tensor | _Number, n: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """The Chebyshev polynomial of the third kind of degree n."""
def chebyshev_polynomial_w(input: Tensor | _Number, n: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """The Chebyshev polynomial of the fourth kind of degree n."""
def digamma(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The digamma function: the derivative of `log(gamma(x))`."""
def digamma_(input: Tensor) -> Tensor:
    """The digamma function: the derivative of `log(gamma(x))`."""
def entr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The entropy term `-x * log(x)`, which is 0 at 0 and -inf for negative x."""
def erf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The error function."""
def erf_(input: Tensor) -> Tensor:
    """The error function."""
def erfc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """1 - erf(x), accurate where erf(x) is near 1."""
def erfc_(input: Tensor) -> Tensor:
    """1 - erf(x), accurate where erf(x) is near 1."""
def erfcx(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """exp(x**2) * erfc(x)."""
def erfinv(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse of erf."""
def erfinv_(input: Tensor) -> Tensor:
    """The inverse of erf."""
def exp2(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """2**x."""
def exp2_(input: Tensor) -> Tensor:
    """2**x."""
def expit(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """1 / (1 + exp(-x))."""
def expit_(input: Tensor) -> Tensor:
    """1 / (1 + exp(-x))."""
def expm1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """exp(x) - 1, accurate for x near 0."""
def expm1_(input: Tensor) -> Tensor:
    """exp(x) - 1, accurate for x near 0."""
def gammainc(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Regularized lower incomplete gamma function P(input, other)."""
def gammainc_(input: Tensor, other: Tensor) -> Tensor:
    """Regularized lower incomplete gamma function P(input, other)."""
def gammaincc(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Regularized upper incomplete gamma function Q(input, other)."""
def gammaincc_(input: Tensor, other: Tensor) -> Tensor:
    """Regularized upper incomplete gamma function Q(input, other)."""
def gammaln(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """`log(|gamma(x)|)`."""
def gammaln_(input: Tensor) -> Tensor:
    """`log(|gamma(x)|)`."""
def hermite_polynomial_h(input: Tensor | _Number, n: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """The physicists' Hermite polynomial of degree n."""
def hermite_polynomial_he(input: Tensor | _Number, n: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """The probabilists' Hermite polynomial of degree n."""
def i0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The modified Bessel function I0."""
def i0_(input: Tensor) -> Tensor:
    """The modified Bessel function I0."""
def i0e(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """exp(-|x|) * i0(x), the exponentially scaled modified Bessel function I0."""
def i1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The modified Bessel function I1."""
def i1e(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """exp(-|x|) * i1(x), the exponentially scaled modified Bessel function I1."""
def laguerre_polynomial_l(input: Tensor | _Number, n: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """The Laguerre polynomial of degree n."""
def legendre_polynomial_p(input: Tensor | _Number, n: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """The Legendre polynomial of degree n."""
def log1p(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """log(1 + x), accurate for x near 0."""
def log1p_(input: Tensor) -> Tensor:
    """log(1 + x), accurate for x near 0."""
def log_ndtr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The logarithm of `special.ndtr`."""
def log_softmax(input: Tensor, dim: _int, dtype: _dtype | None = None, *, out: Tensor | None = None) -> Tensor:
    """Logarithm of `softmax`, computed without overflow."""
def logit(input: Tensor, eps: _float | None = None, *, out: Tensor | None = None) -> Tensor:
    """`log(x / (1 - x))`. If `eps` is given, x is first clamped to [eps, 1 - eps]."""
def logit_(input: Tensor, eps: _float | None = None) -> Tensor:
    """`log(x / (1 - x))`. If `eps` is given, x is first clamped to [eps, 1 - eps]."""
def logsumexp(input: Tensor, dim: _int | Sequence[_int], keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """Logarithm of the sum of exponentials over `dim`, computed without overflow. Integers give the default float dtype."""
def modified_bessel_i0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The modified Bessel function I0."""
def modified_bessel_i1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The modified Bessel function I1."""
def modified_bessel_k0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The modified Bessel function K0."""
def modified_bessel_k1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The modified Bessel function K1."""
def multigammaln(input: Tensor, p: _int, *, out: Tensor | None = None) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension p."""
def multigammaln_(input: Tensor, p: _int) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension p."""
def ndtr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The cumulative distribution function of the standard normal distribution."""
def ndtri(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse of `special.ndtr`."""
@overload
def polygamma(input: Tensor, n: _int, *, out: Tensor | None = None) -> Tensor:
    """The n-th derivative of the digamma function. The function may also be called as polygamma(n, input)."""
@overload
def polygamma(n: _int, input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def polygamma_(input: Tensor, n: _int) -> Tensor:
    """The n-th derivative of the digamma function. The function may also be called as polygamma(n, input)."""
@overload
def polygamma_(n: _int, input: Tensor) -> Tensor: ...
def psi(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The digamma function: the derivative of `log(gamma(x))`."""
def psi_(input: Tensor) -> Tensor:
    """The digamma function: the derivative of `log(gamma(x))`."""
def round(input: Tensor, *, decimals: _int = 0, out: Tensor | None = None) -> Tensor:
    """Round each element to `decimals` decimal places. Ties round to even."""
def round_(input: Tensor, *, decimals: _int = 0) -> Tensor:
    """Round each element to `decimals` decimal places. Ties round to even."""
def scaled_modified_bessel_k0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """exp(x) * modified_bessel_k0(x)."""
def scaled_modified_bessel_k1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """exp(x) * modified_bessel_k1(x)."""
def shifted_chebyshev_polynomial_t(input: Tensor | _Number, n: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """The Chebyshev polynomial of the first kind of degree n at 2 * input - 1."""
def shifted_chebyshev_polynomial_u(input: Tensor | _Number, n: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """The Chebyshev polynomial of the second kind of degree n at 2 * input - 1."""
def shifted_chebyshev_polynomial_v(input: Tensor | _Number, n: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """The Chebyshev polynomial of the third kind of degree n at 2 * input - 1."""
def shifted_chebyshev_polynomial_w(input: Tensor | _Number, n: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """The Chebyshev polynomial of the fourth kind of degree n at 2 * input - 1."""
def sinc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """sin(pi x) / (pi x), and 1 at 0."""
def sinc_(input: Tensor) -> Tensor:
    """sin(pi x) / (pi x), and 1 at 0."""
def softmax(input: Tensor, dim: _int, dtype: _dtype | None = None, *, out: Tensor | None = None) -> Tensor:
    """Exponentials along `dim`, divided by their sum. The dtype must be floating-point."""
def spherical_bessel_j0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The spherical Bessel function j0: sin(x) / x, and 1 at 0."""
def xlog1py(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """`input * log1p(other)`. It is 0 where `input` is 0, but NaN where `other` is NaN."""
def xlogy(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """`input * log(other)`. It is 0 where `input` is 0, but NaN where `other` is NaN."""
def xlogy_(input: Tensor | _Number, other: Tensor | _Number) -> Tensor:
    """`input * log(other)`. It is 0 where `input` is 0, but NaN where `other` is NaN."""
def zeta(input: Tensor | _Number, other: Tensor | _Number, *, out: Tensor | None = None) -> Tensor:
    """The Hurwitz zeta function: the sum of `(k + other)**-input` over all integers k >= 0."""
