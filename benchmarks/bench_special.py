"""Special functions."""

from .harness import suite, table

POLYNOMIALS = [
    *(f"{shifted}chebyshev_polynomial_{kind}" for shifted in ("", "shifted_") for kind in "tuvw"),
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
]
ONE_ARGUMENT = """
airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 entr erfcx i0e i1 i1e log_ndtr modified_bessel_i0
modified_bessel_i1 modified_bessel_k0 modified_bessel_k1 ndtr ndtri scaled_modified_bessel_k0
scaled_modified_bessel_k1 spherical_bessel_j0
""".split()

CASES = table(
    "special",
    """
igamma | m.igamma(a, b)
igammac | m.igammac(a, b)
mvlgamma | m.mvlgamma(a, 1)
special.polygamma | m.special.polygamma(1, a)
special.xlog1py | m.special.xlog1py(a, b)
special.zeta | m.special.zeta(a, b)
"""
    + "".join(f"special.{name} | m.special.{name}(a)\n" for name in ONE_ARGUMENT)
    + "".join(f"special.{name} | m.special.{name}(a, b)\n" for name in POLYNOMIALS),
)

Special = suite(CASES)
