"""`special.*`: values compared with SciPy and PyTorch, and aliases."""

import numpy as np
import pytest

import metatensor as mt
from ops.pairs import grid, outcome, pair, same, samples

UNARY = (
    "airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "entr", "erfcx", "i0e", "i1", "i1e", "log_ndtr",
    "modified_bessel_i0", "modified_bessel_i1", "modified_bessel_k0", "modified_bessel_k1", "ndtr", "ndtri",
    "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "spherical_bessel_j0",
)  # fmt: skip
POLYNOMIALS = (
    "chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v", "chebyshev_polynomial_w",
    "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u", "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w", "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l",
    "legendre_polynomial_p",
)  # fmt: skip
ALIASES = {
    "digamma": "digamma", "psi": "digamma", "erf": "erf", "erfc": "erfc", "erfinv": "erfinv", "exp2": "exp2",
    "expit": "sigmoid", "expm1": "expm1", "gammainc": "igamma", "gammaincc": "igammac", "gammaln": "lgamma",
    "i0": "i0", "log1p": "log1p", "logit": "logit", "multigammaln": "mvlgamma", "polygamma": "polygamma",
    "round": "round", "sinc": "sinc", "xlogy": "xlogy",
}  # fmt: skip


@pytest.mark.parametrize("name", ALIASES)
def test_aliases(name):
    assert getattr(mt.special, name) is getattr(mt, ALIASES[name])


@pytest.mark.parametrize(
    "name, function",
    [("erfcx", "erfcx"), ("ndtr", "ndtr"), ("log_ndtr", "log_ndtr"), ("entr", "entr"), ("i1e", "i1e"), ("bessel_y0", "y0")],
)
def test_values_of_scipy(name, function, device):
    special = pytest.importorskip("scipy.special")
    array = np.array([0.1, 0.5, 2.0])
    result = getattr(mt.special, name)(mt.from_numpy(array).to(device))
    np.testing.assert_allclose(result.cpu().numpy(), getattr(special, function)(array), rtol=1e-12)


@pytest.mark.torch
@pytest.mark.parametrize("name", UNARY)
def test_values_of_torch(name):
    import torch

    for dtype in ("float32", "float64", "int8", "uint8", "bool"):
        array = samples(dtype)
        ours, theirs = pair(array, dtype)
        # PyTorch's Airy function has only single precision.
        tolerance = 1e-8 if dtype == "float64" and name != "airy_ai" else 1e-4
        same(getattr(mt.special, name)(ours), getattr(torch.special, name)(theirs), tolerance)


@pytest.mark.torch
@pytest.mark.parametrize("name", ["xlog1py", "zeta"])
def test_two_variables(name):
    import torch

    for dtype in ("float32", "float64"):
        array = samples(dtype)
        left, right = grid(array, array[np.isfinite(array)])
        (a, x), (b, y) = pair(left, dtype), pair(right, dtype)
        same(getattr(mt.special, name)(a, b), getattr(torch.special, name)(x, y))
        same(getattr(mt.special, name)(a, 2), getattr(torch.special, name)(x, 2))
        same(getattr(mt.special, name)(2, b), getattr(torch.special, name)(2, y))


@pytest.mark.torch
@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(name):
    import torch

    left, right = grid(np.array([-3, -1, -0.7, -0.2, 0, 0.3, 0.5, 0.9, 1, 2]), np.array([-1.0, 0, 1, 2, 3, 5, 7, 12]))
    for dtype in ("float32", "float64"):
        (a, x), (b, y) = pair(left, dtype), pair(right, dtype)
        same(getattr(mt.special, name)(a, b), getattr(torch.special, name)(x, y), 1e-4 if dtype == "float32" else 1e-9)


@pytest.mark.torch
def test_dtypes():
    import torch

    for name in (*UNARY, "ndtr"):
        for dtype in ("int32", "float16", "bfloat16"):
            ours = getattr(mt.special, name)(mt.empty(2, dtype=getattr(mt, dtype), device="meta"))
            theirs = getattr(torch.special, name)(torch.empty(2, dtype=getattr(torch, dtype), device="meta"))
            assert str(theirs.dtype) == f"torch.{ours.dtype.name}"


@pytest.mark.parametrize("name", (*UNARY, "zeta"))
def test_complex_is_refused(name):
    t = mt.empty(2, dtype=mt.complex64, device="meta")
    with pytest.raises(NotImplementedError, match=name):
        getattr(mt.special, name)(*([t] if name in UNARY else [t, t]))


def test_out():
    out = mt.empty(0, device="meta")
    assert mt.special.ndtr(mt.empty(3, device="meta"), out=out) is out
    assert out.shape == (3,)
    assert isinstance(outcome(mt.special.ndtr, mt.empty(3, device="meta"), out=mt.empty(3, dtype=mt.int32, device="meta")), RuntimeError)


@pytest.mark.parametrize("name", ["airy_ai", "bessel_j0", "modified_bessel_k1", "spherical_bessel_j0", "legendre_polynomial_p"])
def test_functions_without_a_derivative(name):
    x = mt.rand(2, requires_grad=True)
    arguments = (x, 2) if "polynomial" in name else (x,)
    assert not getattr(mt.special, name)(*arguments).requires_grad
    assert mt.special.entr(x).requires_grad
