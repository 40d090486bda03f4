"""Eigenvalues, singular values and functions of them: metadata compared with PyTorch, values by reconstruction."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metatensor as mt
from ops.against import agree
from ops.layouts import conform, layouts
from ops.systems import BATCHES, EXACT, adjoint, dense, dtypes, got, matrices, near, orthonormal, put, rectangles, squares

over = pytest.mark.parametrize("dtype", EXACT)
batched = pytest.mark.parametrize("batch", BATCHES)
SHAPES = [(4, 4), (5, 3), (3, 5), (3, 0), (0, 3)]
shaped = pytest.mark.parametrize("shape", SHAPES)


def meta(*shape, dtype=mt.float32):
    return mt.empty(*shape, dtype=dtype, device="meta")


# Metadata --------------------------------------------------------------------------------------


@pytest.mark.torch
@given(squares(), dtypes, st.sampled_from(["L", "U", "l", "u", "lower", ""]))
def test_eigenvalue_metadata(layout, dtype, uplo):
    conform(lambda m, a: m.linalg.eig(a), (layout, dtype))
    conform(lambda m, a: m.linalg.eigvals(a), (layout, dtype))
    conform(lambda m, a: m.linalg.eigh(a, uplo), (layout, dtype))
    conform(lambda m, a: m.linalg.eigvalsh(a, UPLO=uplo), (layout, dtype))


@pytest.mark.torch
@given(rectangles(), dtypes, st.booleans(), st.booleans())
def test_singular_value_metadata(layout, dtype, full, vectors):
    conform(lambda m, a: m.linalg.svd(a, full), (layout, dtype))
    conform(lambda m, a: m.linalg.svdvals(a), (layout, dtype))
    conform(lambda m, a: a.svd(full, vectors), (layout, dtype))


@pytest.mark.torch
@given(st.one_of(rectangles(), squares()), dtypes, st.booleans())
def test_pinv_metadata(layout, dtype, hermitian):
    conform(lambda m, a: m.linalg.pinv(a, hermitian=hermitian), (layout, dtype))
    conform(lambda m, a: m.linalg.pinv(a, 0.1, hermitian), (layout, dtype))
    conform(lambda m, a: m.linalg.pinv(a, atol=0.1), (layout, dtype))
    conform(lambda m, a: a.pinverse(), (layout, dtype))
    conform(lambda m, a: m.linalg.matrix_rank(a, hermitian=hermitian), (layout, dtype))
    conform(lambda m, a: m.linalg.matrix_rank(a, 0.1, hermitian), (layout, dtype))
    conform(lambda m, a: m.linalg.matrix_rank(a, atol=0.1, rtol=0.1), (layout, dtype))


@pytest.mark.torch
@given(data=st.data())
def test_tolerance_metadata(data):
    """Tolerances broadcast with the batch."""
    shape = (*data.draw(st.sampled_from([(), (2,), (3, 2)])), 3, data.draw(st.integers(0, 3)))
    tolerance = st.sampled_from([(), (1,), (2,), (3, 2), (4,), shape[:-2]])
    atol, rtol = data.draw(tolerance), data.draw(tolerance)
    layout, dtype = data.draw(layouts(shape=shape)), data.draw(st.sampled_from(["float32", "complex128"]))
    first, second = (dense(atol), data.draw(st.sampled_from(["float32", "float64", "int64", "complex64"]))), (dense(rtol), "float32")
    for name in ("pinv", "matrix_rank"):
        conform(lambda m, a, x, y, f=name: getattr(m.linalg, f)(a, atol=x, rtol=y), (layout, dtype), first, second)
        conform(lambda m, a, x, f=name: getattr(m.linalg, f)(a, atol=x), (layout, dtype), first)
        conform(lambda m, a, x, f=name: getattr(m.linalg, f)(a, x), (layout, dtype), first)


@pytest.mark.torch
@given(st.one_of(rectangles(), squares()), dtypes)
def test_cond_metadata(layout, dtype):
    for p in (None, "fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf, 3, "max"):
        conform(lambda m, a, p=p: m.linalg.cond(a, p), (layout, dtype))


@pytest.mark.torch
@settings(max_examples=50)
@given(st.one_of(rectangles(), rectangles(min_size=2)), dtypes, st.sampled_from([None, 0, 1, 2, 6]), st.integers(0, 2))
def test_low_rank_metadata(layout, dtype, q, niter):
    conform(lambda m, a: m.svd_lowrank(a, q, niter), (layout, dtype))
    conform(lambda m, a: m.svd_lowrank(a, 1, 1, a), (layout, dtype))
    conform(lambda m, a: m.pca_lowrank(a, q, niter=niter), (layout, dtype))


# Values -----------------------------------------------------------------------------------------


@over
@batched
def test_eig(dtype, batch, device):
    a = matrices(dtype, (*batch, 4, 4))
    values, vectors = got(mt.linalg.eig(put(a, device)))
    near(a @ vectors, vectors * values[..., None, :], dtype, 10)
    near(np.abs(got(mt.linalg.eigvals(put(a, device)))), np.abs(values), dtype, 10)
    near(values.sum(-1), np.trace(a, axis1=-2, axis2=-1), dtype, 10)


@over
@batched
@pytest.mark.parametrize("uplo", ["L", "u"])
def test_eigh(dtype, batch, uplo, device):
    """Only one triangle is read."""
    a = matrices(dtype, (*batch, 4, 4), "hermitian")
    half = np.tril(a) if uplo == "L" else np.triu(a)
    values, vectors = got(mt.linalg.eigh(put(half, device), uplo))
    near(vectors * values[..., None, :] @ adjoint(vectors), a, dtype, 10)
    orthonormal(vectors, dtype)
    assert (np.diff(values) >= 0).all()
    near(got(mt.linalg.eigvalsh(put(half, device), uplo)), values, dtype, 10)


@over
@batched
@shaped
def test_svd(dtype, batch, shape, device):
    a = matrices(dtype, (*batch, *shape))
    k = min(shape)
    for full in (True, False):
        u, s, vh = got(mt.linalg.svd(put(a, device), full))
        near(u[..., :k] * s[..., None, :] @ vh[..., :k, :], a, dtype)
        orthonormal(u, dtype)
        orthonormal(adjoint(vh), dtype)
        assert (np.diff(s) <= 0).all() and (s >= 0).all()
        near(got(mt.linalg.svdvals(put(a, device))), s, dtype)
    u, s, v = got(mt.svd(put(a, device)))
    near(u * s[..., None, :] @ adjoint(v), a, dtype)
    u, s, v = got(mt.svd(put(a, device), compute_uv=False))
    assert not u.any() and not v.any()


@over
@batched
@shaped
def test_pinv(dtype, batch, shape, device):
    a = matrices(dtype, (*batch, *shape))
    near(got(mt.linalg.pinv(put(a, device))), np.linalg.pinv(a), dtype, 10)
    near(got(put(a, device).pinverse()), np.linalg.pinv(a), dtype, 10)
    if shape == (4, 4):
        a = matrices(dtype, (*batch, 4, 4), "positive")
        near(got(mt.linalg.pinv(put(a, device), hermitian=True)), np.linalg.pinv(a), dtype, 10)


def test_tolerances(device):
    a = put(np.diag([4.0, 2.0, 1.0, 0.0]), device)
    for given_, rank in (({}, 3), ({"atol": 1.5}, 2), ({"rtol": 0.6}, 1), ({"atol": 1.5, "rtol": 0.1}, 2), ({"tol": 3.0}, 1)):
        assert mt.linalg.matrix_rank(a, **given_).item() == rank
        assert mt.linalg.matrix_rank(-a, hermitian=True, **given_).item() == rank
        if "tol" not in given_:
            kept = np.array([0.25, 0.5, 1.0, 0.0]) * (np.arange(4) < rank)
            near(got(mt.linalg.pinv(a, **given_)), np.diag(kept), "float64")
            near(got(mt.linalg.pinv(a, hermitian=True, **given_)), np.diag(kept), "float64")
    several = mt.tensor([0.5, 1.5, 3.0], dtype=mt.float64, device=device)
    assert mt.linalg.matrix_rank(a, atol=several).tolist() == [3, 2, 1]
    assert mt.linalg.matrix_rank(a, several).tolist() == [3, 2, 1]
    assert mt.linalg.matrix_rank(a, atol=several - 0.5, rtol=several / 4).tolist() == [3, 2, 1]
    assert got(mt.linalg.pinv(a, atol=several)).diagonal(axis1=1, axis2=2).tolist() == [
        [0.25, 0.5, 1.0, 0.0],
        [0.25, 0.5, 0.0, 0.0],
        [0.25, 0.0, 0.0, 0.0],
    ]
    assert got(mt.linalg.pinv(a, several / 4))[2].diagonal().tolist() == [0.25, 0.0, 0.0, 0.0]


@over
def test_matrix_rank(dtype, device):
    a = matrices(dtype, (2, 5, 3)) @ matrices(dtype, (2, 3, 6), seed=1)
    assert mt.linalg.matrix_rank(put(a, device)).tolist() == [3, 3]
    assert mt.linalg.matrix_rank(put(a @ adjoint(a), device), rtol=1e-4, hermitian=True).tolist() == [3, 3]


@pytest.mark.torch
@over
@pytest.mark.parametrize("p", [None, "fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf])
def test_cond(dtype, p):
    import torch

    for shape in ((3, 3), (2, 4, 4), (0, 3, 3), (2, 0, 0)):
        a = torch.from_numpy(matrices(dtype, shape, "regular"))
        agree(lambda m, t: m.linalg.cond(t, p), a, tolerance=1e-3)
    singular = torch.ones(2, 2, dtype=a.dtype)
    if p not in (None, 2, -2, "nuc"):
        agree(lambda m, t: m.linalg.cond(t, p), singular)


@over
@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (2, 6, 4)])
def test_low_rank(dtype, shape, device):
    """A matrix of low rank is reproduced exactly, and a larger one if q is not small."""
    a = matrices(dtype, (*shape[:-1], 2)) @ matrices(dtype, (*shape[:-2], 2, shape[-1]), seed=1)
    near(whole(mt.svd_lowrank(put(a, device), q=3)), a, dtype, 10)
    mean = matrices(dtype, (shape[-1],), seed=2)
    near(whole(mt.svd_lowrank(put(a + mean, device), q=3, M=put(mean, device))), a, dtype, 10)
    centred = a - a.mean(-2, keepdims=True)
    near(whole(mt.pca_lowrank(put(a, device), q=3)), centred, dtype, 10)
    near(whole(mt.pca_lowrank(put(a, device), center=False)), a, dtype, 10)


def whole(factors):
    u, s, v = got(factors)
    return u * s[..., None, :] @ adjoint(v)


def test_flops_of_composites():
    """Low-rank factors and powers consist of matrix products, which are counted. Factorisations count 0."""
    from metatensor.analysis import estimate

    def flops(call, *shape):
        return estimate(call, meta(*shape)).flops

    assert flops(lambda t: mt.svd_lowrank(t, q=2, niter=1), 5, 4) == 360
    assert flops(lambda t: mt.pca_lowrank(t, q=3, center=False, niter=1), 5, 4) == 570
    assert flops(lambda t: mt.linalg.matrix_power(t, -5), 2, 3, 3) == 324
    assert flops(lambda t: (mt.linalg.pinv(t), mt.linalg.svd(t), mt.linalg.solve(t, t), mt.linalg.cond(t, 1)), 3, 3) == 0


# Errors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: mt.linalg.eigh(meta(3, 3), "x"), RuntimeError, r"linalg.eigh\(\): UPLO must be 'L' or 'U', got 'x'"),
        (lambda: mt.linalg.eig(meta(2, 3)), RuntimeError, r"must be square matrices.*2 by 3"),
        (lambda: mt.linalg.svd(meta(3)), RuntimeError, r"at least 2 dimensions, got shape \[3\]"),
        (lambda: mt.linalg.svd(mt.eye(3, device="cpu"), driver="gesvd"), RuntimeError, "driver='gesvd' can be chosen on cuda only"),
        (lambda: mt.linalg.pinv(meta(3, 3, dtype=mt.int64)), RuntimeError, "single or double precision are needed, got int64"),
        (lambda: mt.linalg.pinv(meta(3, 3), atol=meta(1, dtype=mt.complex64)), RuntimeError, "must be real, got complex64"),
        (lambda: mt.linalg.matrix_rank(meta(2, 3, 3), meta(5)), RuntimeError, "matrix_rank|maximum|shape"),
        (lambda: mt.linalg.matrix_rank(meta(3, 3, dtype=mt.float16)), RuntimeError, "no default tolerance for float16"),
        (lambda: mt.linalg.cond(meta(3, 3), 3), RuntimeError, r"linalg.cond\(\): p must be .* got 3"),
        (lambda: mt.svd_lowrank(meta(3)), ValueError, "at least 2 dimensions"),
        (lambda: mt.pca_lowrank(meta(3, 4), q=4), ValueError, "q must be between 0 and 3"),
        (lambda: mt.pca_lowrank(meta(3, 4), niter=-1), ValueError, "niter must not be negative"),
    ],
)
def test_messages(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_what_does_not_converge(device):
    t = mt.full((3, 3), math.nan, device=device)
    for call in (mt.linalg.eigh, mt.linalg.eigvalsh, mt.linalg.svd, mt.linalg.svdvals, mt.linalg.pinv):
        with pytest.raises(mt.linalg.LinAlgError, match="infinities or NaNs"):
            call(t)
    for call in (mt.linalg.eig, mt.linalg.eigvals):
        with pytest.raises(RuntimeError, match="infinities or NaNs"):
            call(t)


def test_layout_of_vectors():
    """Eigenvectors and Vh are stored by columns if LAPACK computes them, else by rows."""
    here, there = mt.eye(3, device="cpu"), meta(3, 3)
    assert mt.linalg.svd(here).Vh.stride() == mt.linalg.eig(here).eigenvectors.stride() == (1, 3)
    assert mt.linalg.svd(there).Vh.stride() == mt.linalg.eig(there).eigenvectors.stride() == (3, 1)
    assert mt.linalg.svd(there).U.stride() == mt.linalg.eigh(there).eigenvectors.stride() == (1, 3)


def test_out(device):
    a = matrices("float32", (4, 3))
    parts = [mt.empty(0, device=device) for _ in range(3)]
    u, s, vh = mt.linalg.svd(put(a, device), False, out=parts)
    assert u is parts[0] and s is parts[1] and vh is parts[2]
    near(got(u) * got(s) @ got(vh), a, "float32")
    rank = mt.empty(0, dtype=mt.int64, device=device)
    assert mt.linalg.matrix_rank(put(a, device), out=rank) is rank and rank.item() == 3


def test_iterations_are_bounded():
    for call in (lambda t: mt.svd_lowrank(t, 2, 2**62), lambda t: mt.pca_lowrank(t, 2, niter=100_001)):
        with pytest.raises(ValueError, match="niter must be at most 100,000"):
            call(mt.empty(4, 4, device="meta"))
