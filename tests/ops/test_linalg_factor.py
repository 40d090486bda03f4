"""Cholesky, LDL, LU and QR factors: metadata compared with PyTorch, values by the product of the factors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metatensor as mt
from ops.layouts import conform, layouts
from ops.systems import BATCHES, EXACT, adjoint, batches, dense, dtypes, got, matrices, near, orthonormal, put, rectangles, squares

over = pytest.mark.parametrize("dtype", EXACT)
batched = pytest.mark.parametrize("batch", BATCHES)


# Metadata --------------------------------------------------------------------------------------


@pytest.mark.torch
@given(squares(), dtypes, st.booleans())
def test_square_metadata(layout, dtype, flag):
    conform(lambda m, a: m.linalg.cholesky_ex(a, upper=flag), (layout, dtype))
    conform(lambda m, a: m.linalg.cholesky(a, upper=flag), (layout, dtype))
    conform(lambda m, a: m.cholesky(a, flag), (layout, dtype))
    conform(lambda m, a: a.cholesky_inverse(flag), (layout, dtype))
    conform(lambda m, a: m.linalg.ldl_factor_ex(a, hermitian=flag), (layout, dtype))
    conform(lambda m, a: m.linalg.ldl_factor(a, hermitian=flag), (layout, dtype))


@pytest.mark.torch
@given(rectangles(), dtypes, st.booleans(), st.sampled_from(["reduced", "complete", "r", "raw"]))
def test_rectangular_metadata(layout, dtype, flag, mode):
    conform(lambda m, a: m.linalg.qr(a, mode), (layout, dtype))
    conform(lambda m, a: a.qr(flag), (layout, dtype))
    conform(lambda m, a: m.geqrf(a), (layout, dtype))
    conform(lambda m, a: m.linalg.lu(a, pivot=flag), (layout, dtype))
    conform(lambda m, a: m.linalg.lu_factor(a), (layout, dtype))
    conform(lambda m, a: m.linalg.lu_factor_ex(a, pivot=flag), (layout, dtype))
    conform(lambda m, a: a.lu(True, flag), (layout, dtype))


@pytest.mark.torch
@given(batches, st.integers(0, 4), st.integers(0, 4), st.booleans(), st.booleans(), st.sampled_from(["int32", "int32", "int64"]))
def test_unpack_metadata(batch, m, n, data, permutations, pivots):
    factors, exchanged = dense((*batch, m, n)), dense((*batch, min(m, n)))
    conform(lambda lib, a, p: lib.lu_unpack(a, p, data, permutations), (factors, "float32"), (exchanged, pivots))


@pytest.mark.torch
@given(data=st.data())
def test_reflector_metadata(data):
    batch, m, n, k, other = data.draw(batches), *(data.draw(st.integers(0, 3)) for _ in range(4))
    dtype, second = data.draw(dtypes), data.draw(st.sampled_from([None, None, None, "float64"]))
    vectors = data.draw(layouts(shape=(*batch, m, n)))
    factors = data.draw(layouts(shape=(*data.draw(st.sampled_from([batch, batch, (2,)])), k)))
    left, turned = data.draw(st.booleans()), data.draw(st.booleans())
    product = data.draw(layouts(shape=(*batch, m, other) if left else (*batch, other, m)))
    tau = (factors, second or dtype)
    conform(lambda lib, a, t: lib.linalg.householder_product(a, t), (vectors, dtype), tau)
    conform(lambda lib, a, t: lib.orgqr(a, t), (vectors, dtype), tau)
    conform(lambda lib, a, t, c: lib.ormqr(a, t, c, left, turned), (vectors, dtype), tau, (product, dtype))


# Values -----------------------------------------------------------------------------------------


@over
@batched
@pytest.mark.parametrize("upper", [False, True])
def test_cholesky(dtype, batch, upper, device):
    a = matrices(dtype, (*batch, 4, 4), "positive")
    factors, info = mt.linalg.cholesky_ex(put(a, device), upper=upper)
    f = got(factors)
    near(f, np.triu(f) if upper else np.tril(f), dtype)
    near(adjoint(f) @ f if upper else f @ adjoint(f), a, dtype)
    assert not got(info).any()
    near(got(mt.cholesky(put(a, device), upper)), f, dtype)
    near(got(mt.cholesky_inverse(factors, upper)) @ a, np.broadcast_to(np.eye(4), a.shape), dtype, 10)


def test_cholesky_reads_one_triangle():
    a = matrices("float64", (3, 3), "positive")
    lower = got(mt.linalg.cholesky(put(np.tril(a) + np.triu(np.full((3, 3), 9.0), 1))))
    upper = got(mt.linalg.cholesky(put(np.triu(a) + np.tril(np.full((3, 3), 9.0), -1)), upper=True))
    near(lower @ lower.T, a, "float64")
    near(upper, lower.T, "float64")


@pytest.mark.torch
@pytest.mark.parametrize("upper", [False, True])
def test_cholesky_of_nan(upper):
    torch = pytest.importorskip("torch")
    for spoilt in ([(0, 0)], [(1, 1)], [(2, 0), (0, 2)], [(1, 2), (2, 1)]):
        a = np.stack([np.eye(3), np.eye(3), -np.eye(3)])
        for place in spoilt:
            a[1][place] = np.nan
        info = mt.linalg.cholesky_ex(put(a, "cpu"), upper=upper).info
        assert info.tolist() == torch.linalg.cholesky_ex(torch.from_numpy(a), upper=upper).info.tolist()
        with pytest.raises(mt.linalg.LinAlgError, match=r"matrix \(1,\) of the batch"):
            mt.linalg.cholesky(put(a, "cpu"), upper=upper)


def test_pivots_are_rows(device):
    factors, pivots = mt.linalg.lu_factor(put(np.eye(3), device))
    for bad in (pivots + 10, pivots - 1, pivots * 0 - 5):
        with pytest.raises(RuntimeError, match=r"lu_unpack\(\): pivots must lie in \[1, 3\]"):
            mt.lu_unpack(factors, bad)
        with pytest.raises(RuntimeError, match=r"lu_solve\(\): pivots must lie in \[1, 3\]"):
            mt.linalg.lu_solve(factors, bad, factors)
        mt.lu_unpack(factors, bad, unpack_pivots=False)
    for bad in (pivots + 10, pivots * 0, pivots * 0 - 4):
        with pytest.raises(RuntimeError, match=r"ldl_solve\(\): pivots must lie in \[1, 3\]"):
            mt.linalg.ldl_solve(factors, bad, factors)


@pytest.mark.parametrize("device", ["meta", "cpu"])
@pytest.mark.parametrize("sizes, pivots, shapes", [
    ((2, 3, 0), (7,), [(2, 3, 3), (2, 3, 0), (2, 0, 0)]),
    ((0, 7, 5), (1, 0, 5), [(0, 7, 7), (0, 7, 5), (0, 5, 5)]),
    ((0, 3), (3,), [(0, 0), (0, 0), (0, 3)]),
])  # fmt: skip
def test_lu_unpack_of_no_elements_takes_any_pivots(device, sizes, pivots, shapes):
    unpacked = mt.lu_unpack(mt.empty(sizes, device=device), mt.zeros(pivots, dtype=mt.int32, device=device))
    assert [tuple(t.shape) for t in unpacked] == shapes
    if device == "cpu":
        assert (unpacked.P == mt.eye(sizes[-2], device="cpu")).all()


def test_cholesky_of_indefinite_matrices(device):
    a = np.stack([np.eye(3), np.diag([1.0, -1.0, 1.0])])
    factors, info = mt.linalg.cholesky_ex(put(a, device))
    assert info.tolist() == [0, 2]
    near(got(factors)[0], np.eye(3), "float64")
    for call in (mt.linalg.cholesky, mt.cholesky, lambda t: mt.linalg.cholesky_ex(t, check_errors=True)):
        with pytest.raises(mt.linalg.LinAlgError, match=r"leading minor of order 2.*matrix \(1,\) of the batch"):
            call(put(a, device))


@over
@batched
@pytest.mark.parametrize("hermitian", [False, True])
def test_ldl(dtype, batch, hermitian, device):
    """The factors solve a system, including factors with 2 by 2 blocks."""
    a = matrices(dtype, (*batch, 5, 5), "hermitian" if hermitian else "symmetric")
    a[..., range(5), range(5)] = 0
    b = matrices(dtype, (*batch, 5, 2), seed=1)
    factors, pivots, info = mt.linalg.ldl_factor_ex(put(np.tril(a), device), hermitian=hermitian)
    assert (got(pivots) < 0).any() or not a.size
    assert not got(info).any()
    x = got(mt.linalg.ldl_solve(factors, pivots, put(b, device), hermitian=hermitian))
    near(a @ x, b, dtype, 100)


@pytest.mark.torch
@over
def test_ldl_as_pytorch(dtype):
    import torch

    a = matrices(dtype, (6, 4, 4), "symmetric")
    ours, theirs = mt.linalg.ldl_factor(put(a)), torch.linalg.ldl_factor(torch.from_numpy(a))
    near(got(ours.LD), theirs.LD.numpy(), dtype, 100)
    assert ours.pivots.tolist() == theirs.pivots.tolist()


@over
@batched
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5)])
def test_lu(dtype, batch, shape, device):
    a = matrices(dtype, (*batch, *shape))
    p, lower, upper = got(mt.linalg.lu(put(a, device)))
    near(p @ lower @ upper, a, dtype)
    near(lower, np.tril(lower), dtype)
    near(upper, np.triu(upper), dtype)
    assert np.abs(lower).max(initial=0) < 1.0001 + 0.5 * dtype.startswith("complex")
    factors, pivots, info = mt.linalg.lu_factor_ex(put(a, device))
    for ours, wanted in zip(got(mt.lu_unpack(factors, pivots)), (p, lower, upper), strict=True):
        near(ours, wanted, dtype)
    assert not got(info).any()
    assert [t.shape for t in mt.lu_unpack(factors, pivots, unpack_data=False)[1:]] == [(0,), (0,)]
    assert mt.lu_unpack(factors, pivots, unpack_pivots=False).P.shape == (0,)


@pytest.mark.torch
@over
def test_lu_as_pytorch(dtype):
    import torch

    a = matrices(dtype, (3, 5, 4))
    ours, theirs = mt.linalg.lu_factor(put(a)), torch.linalg.lu_factor(torch.from_numpy(a))
    near(got(ours.LU), theirs.LU.numpy(), dtype)
    assert ours.pivots.tolist() == theirs.pivots.tolist()


def test_lu_of_singular_matrices(device):
    a = put(np.array([[1.0, 2.0], [2.0, 4.0]]), device)
    assert mt.linalg.lu_factor_ex(a).info.item() == 2
    assert mt.lu(a, get_infos=True)[2].item() == 2
    assert len(mt.lu(a)) == 2
    for call in (mt.linalg.lu_factor, lambda t: mt.linalg.lu_factor_ex(t, check_errors=True)):
        with pytest.raises(RuntimeError, match="diagonal element 2 of U is zero"):
            call(a)


def test_lu_without_pivoting(device):
    """On meta it has a shape. Devices with data raise an error."""
    t = mt.empty(3, 2, device="meta")
    assert mt.linalg.lu(t, pivot=False).P.shape == (0,)
    assert mt.linalg.lu_factor(t, pivot=False).pivots.shape == (2,)
    for call in (mt.linalg.lu, mt.linalg.lu_factor):
        with pytest.raises(RuntimeError, match=r"linalg.lu.*without pivoting.*\[3, 2\]"):
            call(mt.ones(3, 2, device=device), pivot=False)
        call(mt.ones(0, 2, device=device), pivot=False)


@over
@batched
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (3, 0), (0, 3)])
def test_qr(dtype, batch, shape, device):
    a = matrices(dtype, (*batch, *shape))
    t = put(a, device)
    for mode in ("reduced", "complete"):
        q, r = got(mt.linalg.qr(t, mode))
        near(q @ r, a, dtype)
        near(r, np.triu(r), dtype)
        orthonormal(q, dtype)
    near(got(mt.linalg.qr(t, "r").R), got(mt.linalg.qr(t).R), dtype)
    near(got(mt.qr(t, some=False).Q), q, dtype)


@over
@batched
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (3, 0)])
def test_reflectors(dtype, batch, shape, device):
    a = matrices(dtype, (*batch, *shape))
    t = put(a, device)
    factors, tau = mt.geqrf(t)
    q, r = got(mt.linalg.qr(t))
    k = min(shape)
    near(np.triu(got(factors))[..., :k, :], r, dtype)
    tall = mt.linalg.householder_product(factors[..., :k], tau)
    near(got(tall), q, dtype)
    near(got(mt.orgqr(factors[..., :k], tau)), q, dtype)
    whole = got(mt.linalg.qr(t, "complete").Q)
    right = matrices(dtype, (*batch, shape[0], 2), seed=1)
    other = np.swapaxes(right, -1, -2)
    near(got(mt.ormqr(factors, tau, put(right, device))), whole @ right, dtype)
    near(got(mt.ormqr(factors, tau, put(right, device), transpose=True)), adjoint(whole) @ right, dtype)
    near(got(mt.ormqr(factors, tau, put(other, device), False)), other @ whole, dtype)
    near(got(mt.ormqr(factors, tau, put(other, device), False, True)), other @ adjoint(whole), dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_has_no_routines(dtype, device):
    t = mt.ones(3, 3, dtype=getattr(mt, dtype), device=device)
    for call in (mt.linalg.cholesky, mt.linalg.lu, mt.linalg.ldl_factor, mt.linalg.qr, mt.geqrf):
        with pytest.raises(NotImplementedError, match=f"not implemented for {dtype}"):
            call(t)


# Errors and out= ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda t: mt.linalg.cholesky(t), r"linalg.cholesky\(\): input must be square.*2 by 3.*\[2, 3\]"),
        (lambda t: mt.linalg.ldl_factor(t[0]), r"linalg.ldl_factor\(\): input must have at least 2 dimensions"),
        (lambda t: mt.linalg.lu_factor(t[0]), r"linalg.lu_factor\(\): A must have at least 2 dimensions, got shape \[3\]"),
        (lambda t: mt.linalg.qr(t, "raw"), r"linalg.qr\(\): mode must be .*'raw'"),
        (lambda t: mt.linalg.qr(t.long()), r"linalg.qr\(\): a floating-point or complex tensor is needed, got int64"),
        (lambda t: mt.linalg.householder_product(t, t[0]), "must not have more columns than rows"),
        (lambda t: mt.linalg.householder_product(t.T, t[0]), "more factors than input has columns"),
        (lambda t: mt.ormqr(t, t[0], t), "a factor for each column of input"),
        (lambda t: mt.ormqr(t, t[0], t.T), "as many rows as input has rows"),
        (lambda t: mt.lu_unpack(t, t[0]), "LU_pivots must be int32, got float32"),
    ],
)
def test_messages(call, text):
    with pytest.raises(RuntimeError, match=text):
        call(mt.empty(2, 3, device="meta"))


def test_results_have_names():
    t = mt.empty(3, 3, device="meta")
    assert mt.linalg.lu_factor_ex(t).info.dtype is mt.int32
    assert mt.linalg.cholesky_ex(t).L.stride() == (1, 3)
    assert mt.linalg.ldl_factor(t).pivots.shape == mt.geqrf(t).tau.shape == (3,)
    assert type(mt.qr(t)).__name__ == "qr" and mt.qr(t).R.shape == mt.linalg.lu(t).P.shape


def test_out(device):
    a = matrices("float32", (3, 3), "positive")
    t = put(a, device)
    out = mt.empty(0, device=device)
    assert mt.linalg.cholesky(t, out=out) is out
    assert out.stride() == (1, 3)
    near(got(out) @ got(out).T, a, "float32")
    pair = mt.empty(3, 3, device=device), mt.empty(3, 3, device=device)
    q, r = mt.linalg.qr(t, out=pair)
    assert q is pair[0] and r is pair[1]
    near(got(q) @ got(r), a, "float32")
    with pytest.raises(RuntimeError, match="float64"):
        mt.linalg.cholesky(t, out=mt.empty(3, 3, dtype=mt.float64, device=device))
    assert mt.linalg.cholesky(t, out=t) is t
    near(got(t), got(out), "float32")
