"""Gradients of linear algebra: compared with differences, once and twice, for real and complex matrices."""

import pytest

import metatensor as mt
from metatensor.autograd import gradcheck, gradgradcheck

DTYPES = [mt.float64, mt.complex128]


def matrices(*shape, dtype, seed=0):
    generator = mt.Generator(device="cpu").manual_seed(seed)
    return mt.randn(*shape, dtype=dtype, device="cpu", generator=generator).requires_grad_()


def positive(a):
    """Return positive definite matrices, as a function of any square ones."""
    return a @ a.mH + mt.eye(a.shape[-1], dtype=a.dtype, device=a.device)


def symmetric(a):
    return (a + a.mH) / 2


def parts(f):
    """Return what does not depend on the phases of vectors: the values, and the magnitudes and products of the vectors."""

    def made(*args):
        return tuple(x for x in f(*args) if x.is_floating_point() or x.is_complex())

    return made


def of_eigh(a):
    values, vectors = mt.linalg.eigh(symmetric(a))
    return values, vectors.abs(), vectors[..., :1] @ vectors[..., :1].mH


def of_eig(a):
    values, vectors = mt.linalg.eig(a)
    # The order of complex values is arbitrary but stable; magnitudes of vectors of norm 1 have no phase.
    return values, vectors.abs()


def of_svd(a, full=False):
    u, s, vh = mt.linalg.svd(a, full)
    k = s.shape[-1]
    u, vh = u[..., :k], vh[..., :k, :]
    return s, u.abs(), vh.abs(), u[..., :1] @ vh[..., :1, :]


def of_lu(a):
    return mt.linalg.lu(a)[1:]


def of_lu_factors(a):
    return mt.linalg.lu_factor_ex(a)[0]


def of_unpacked(a):
    factors, pivots, _ = mt.linalg.lu_factor_ex(a)
    return mt.lu_unpack(factors, pivots)[1:]


def of_lu_solve(a, b):
    factors, pivots, _ = mt.linalg.lu_factor_ex(a)
    return mt.linalg.lu_solve(factors, pivots, b), mt.linalg.lu_solve(factors, pivots, b.mH, left=False, adjoint=True)


def of_reflectors(a):
    vectors, tau = a[..., :3], a[..., 3, :3]
    return mt.linalg.householder_product(vectors, tau)


def of_ormqr(left, transpose):
    def made(a, tau, other):
        return mt.ormqr(a, tau, other if left else other.mT, left, transpose)

    return made


CASES = {
    "cholesky": (lambda a: mt.linalg.cholesky(positive(a)), [(2, 3, 3)]),
    "cholesky upper": (lambda a: mt.linalg.cholesky(positive(a), upper=True), [(3, 3)]),
    "cholesky_inverse": (lambda a: mt.cholesky_inverse(mt.linalg.cholesky(positive(a))), [(3, 3)]),
    "cholesky_solve": (lambda b, a: mt.cholesky_solve(b, mt.linalg.cholesky(positive(a), upper=True), True), [(3, 2), (2, 3, 3)]),
    "det": (mt.linalg.det, [(2, 3, 3)]),
    "det of one element": (mt.linalg.det, [(1, 1)]),
    "slogdet": (mt.linalg.slogdet, [(2, 3, 3)]),
    "logdet": (lambda a: mt.logdet(positive(a)), [(3, 3)]),
    "eigh": (of_eigh, [(2, 3, 3)]),
    "eigvalsh": (lambda a: mt.linalg.eigvalsh(symmetric(a)), [(3, 3)]),
    "eig": (of_eig, [(3, 3)]),
    "eigvals": (lambda a: mt.linalg.eigvals(a).abs(), [(3, 3)]),
    "svd of tall": (of_svd, [(2, 4, 3)]),
    "svd of wide": (of_svd, [(3, 4)]),
    "full svd": (lambda a: of_svd(a, True), [(4, 3)]),
    "svdvals": (mt.linalg.svdvals, [(4, 3)]),
    "qr of tall": (mt.linalg.qr, [(2, 4, 3)]),
    "qr of wide": (mt.linalg.qr, [(3, 4)]),
    "complete qr": (lambda a: mt.linalg.qr(a, "complete"), [(3, 3)]),
    "lu of square": (of_lu, [(2, 3, 3)]),
    "lu of tall": (of_lu, [(4, 3)]),
    "lu of wide": (of_lu, [(3, 4)]),
    "lu_factor of tall": (of_lu_factors, [(4, 3)]),
    "lu_unpack of wide": (of_unpacked, [(3, 4)]),
    "lu_unpack of tall": (of_unpacked, [(4, 3)]),
    "lu_solve": (of_lu_solve, [(3, 3), (3, 2)]),
    "solve": (mt.linalg.solve, [(2, 3, 3), (3, 2)]),
    "solve from the right": (lambda a, b: mt.linalg.solve(a, b, left=False), [(3, 3), (2, 3)]),
    "solve for a vector": (mt.linalg.solve, [(3, 3), (3,)]),
    "solve_triangular": (lambda a, b: mt.linalg.solve_triangular(a, b, upper=True), [(3, 3), (3, 2)]),
    "unit solve_triangular": (
        lambda a, b: mt.linalg.solve_triangular(a, b, upper=False, left=False, unitriangular=True), [(3, 3), (2, 3)]
    ),
    "triangular_solve": (lambda b, a: mt.triangular_solve(b, a, True, True), [(3, 2), (3, 3)]),
    "inv": (mt.linalg.inv, [(2, 3, 3)]),
    "pinv of tall": (mt.linalg.pinv, [(4, 3)]),
    "pinv of wide": (mt.linalg.pinv, [(3, 4)]),
    "lstsq": (lambda a, b: mt.linalg.lstsq(a, b)[:1], [(4, 3), (4, 2)]),
    "residuals": (lambda a, b: mt.linalg.lstsq(a, b, driver="gels")[:2], [(4, 3), (4, 2)]),
    "matrix_exp": (mt.linalg.matrix_exp, [(2, 3, 3)]),
    "matrix_power": (lambda a: mt.linalg.matrix_power(a, -2), [(3, 3)]),
    "householder_product": (of_reflectors, [(4, 4)]),
    "ormqr": (of_ormqr(True, False), [(4, 3), (3,), (4, 2)]),
    "transposed ormqr": (of_ormqr(True, True), [(4, 3), (3,), (4, 2)]),
    "ormqr from the right": (of_ormqr(False, True), [(4, 3), (3,), (4, 2)]),
    "norm": (lambda a: mt.linalg.matrix_norm(a, "nuc"), [(3, 4)]),
    "cond": (mt.linalg.cond, [(3, 3)]),
    "tensorinv": (mt.linalg.tensorinv, [(2, 3, 6)]),
}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", CASES)
def test_against_differences(case, dtype):
    function, shapes = CASES[case]
    inputs = tuple(matrices(*shape, dtype=dtype, seed=3 + i) for i, shape in enumerate(shapes))
    made = parts(lambda *args: (lambda out: out if isinstance(out, tuple) else (out,))(function(*args)))
    assert gradcheck(made, inputs)
    assert gradgradcheck(made, inputs)


@pytest.mark.parametrize("case", CASES)
def test_on_meta(case):
    function, shapes = CASES[case]
    inputs = [mt.empty(*shape, dtype=mt.complex64, device="meta", requires_grad=True) for shape in shapes]
    out = function(*inputs)
    outs = [x for x in (out if isinstance(out, tuple) else (out,)) if x.requires_grad]
    found = mt.autograd.grad(outs, inputs, [mt.ones_like(x) for x in outs], create_graph=True)
    assert [(g.shape, g.dtype, g.device.type) for g in found] == [(x.shape, x.dtype, "meta") for x in inputs]
    again = mt.autograd.grad([g for g in found if g.requires_grad], inputs, [mt.ones_like(g) for g in found if g.requires_grad],
                             allow_unused=True)  # fmt: skip
    assert all(g is None or g.shape == x.shape for g, x in zip(again, inputs, strict=True))


@pytest.mark.parametrize("name", [f"linalg.{name}" for name in ("det", "slogdet", "inv", "eigh", "qr", "svd", "cholesky")])
@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0), (0, 3, 3)])
def test_without_elements(name, shape):
    x = mt.zeros(shape, dtype=mt.float64, device="cpu", requires_grad=True)
    function = mt
    for part in name.split("."):
        function = getattr(function, part)
    out = function(x)
    outs = [y for y in (out if isinstance(out, tuple) else (out,)) if y.requires_grad]
    (grad,) = mt.autograd.grad(outs, [x], [mt.ones_like(y) for y in outs])
    assert grad.shape == x.shape


@pytest.mark.parametrize("function", [mt.linalg.eigh, mt.linalg.eig, mt.linalg.svd])
def test_a_loss_that_depends_on_phases_is_refused(function):
    x = matrices(3, 3, dtype=mt.complex128)
    out = function(symmetric(x) if function is mt.linalg.eigh else x)
    vectors = out[0] if function is mt.linalg.svd else out[1]
    with pytest.raises(RuntimeError, match="phases"):
        vectors.imag.sum().backward()


@pytest.mark.parametrize("mode", ["r", "complete"])
def test_modes_of_qr_without_a_gradient(mode):
    x = matrices(4, 3, dtype=mt.float64)
    with pytest.raises(RuntimeError, match=f"mode '{mode}' has no gradient"):
        mt.linalg.qr(x, mode)[1].sum().backward()


def test_determinant_of_a_singular_matrix_has_its_cofactors_as_gradient():
    x = mt.tensor([[1.0, 2.0], [2.0, 4.0]], dtype=mt.float64, device="cpu", requires_grad=True)
    mt.linalg.det(x).backward()
    assert mt.allclose(x.grad, mt.tensor([[4.0, -2.0], [-2.0, 1.0]], dtype=mt.float64, device="cpu"))


def test_names_of_nodes():
    x = mt.empty(3, 3, device="meta", requires_grad=True)
    assert mt.linalg.det(x).grad_fn.name() == "LinalgDetBackward0"
    assert mt.linalg.eigvalsh(x).grad_fn.name() == "LinalgEighBackward0"
    assert mt.linalg.svdvals(x).grad_fn.name() == "LinalgSvdBackward0"
    assert mt.linalg.solve(x, x).grad_fn.name() == "LinalgSolveExBackward0"
    assert mt.linalg.slogdet(x)[1].grad_fn.name() == "LinalgSlogdetBackward0"
