"""Linear systems, inverses, least squares and tensor equations: compared with PyTorch, values by substitution."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metatensor as mt
from ops.layouts import conform, layouts
from ops.systems import (
    BATCHES,
    EXACT,
    adjoint,
    batches,
    dense,
    dtypes,
    equations,
    got,
    matrices,
    near,
    put,
    squares,
)

over = pytest.mark.parametrize("dtype", EXACT)
batched = pytest.mark.parametrize("batch", BATCHES)
second = st.sampled_from([None, None, None, None, "float64"])


def meta(*shape, dtype=mt.float32):
    return mt.empty(*shape, dtype=dtype, device="meta")


# Metadata --------------------------------------------------------------------------------------


@pytest.mark.torch
@given(equations(vectors=True), dtypes, second)
def test_solve_metadata(layout, dtype, other):
    a, b, left = layout
    conform(lambda m, x, y: m.linalg.solve(x, y, left=left), (a, dtype), (b, other or dtype))
    conform(lambda m, x, y: m.linalg.solve_ex(x, y, left=left), (a, dtype), (b, other or dtype))


@pytest.mark.torch
@given(equations(vectors=True), dtypes, second, st.booleans())
def test_triangular_metadata(layout, dtype, other, flag):
    a, b, left = layout
    # B in another dtype cannot be compared, because PyTorch's cpu may crash.
    conform(lambda m, x, y: m.linalg.solve_triangular(x, y, upper=flag, left=left), (a, dtype), (b, dtype))
    conform(lambda m, x, y: y.triangular_solve(x, flag), (a, dtype), (b, other or dtype))
    conform(lambda m, x, y: y.cholesky_solve(x, flag), (a, dtype), (b, other or dtype))


@pytest.mark.torch
@given(equations(), dtypes, second, st.sampled_from(["int32", "int32", "int64"]), st.booleans())
def test_factored_metadata(layout, dtype, other, pivots, flag):
    a, b, left = layout
    p = (dense(a[0][:-1]), pivots)
    conform(lambda m, x, y, z: m.linalg.lu_solve(x, y, z, left=left, adjoint=flag), (a, dtype), p, (b, other or dtype))
    conform(lambda m, x, y, z: z.lu_solve(x, y), (a, dtype), p, (b, other or dtype))


@pytest.mark.torch
@given(st.integers(0, 3), st.integers(0, 3), batches, dtypes, st.booleans())
def test_ldl_solve_metadata(n, k, batch, dtype, hermitian):
    layout = [(dense((*batch, n, n)), dtype), (dense((*batch, n)), "int32"), (dense((*batch, n, k)), dtype)]
    conform(lambda m, x, y, z: m.linalg.ldl_solve(x, y, z, hermitian=hermitian), *layout)


@pytest.mark.torch
@given(squares(), dtypes)
def test_inverse_metadata(layout, dtype):
    conform(lambda m, a: m.linalg.inv(a), (layout, dtype))
    conform(lambda m, a: m.linalg.inv_ex(a), (layout, dtype))
    conform(lambda m, a: a.inverse(), (layout, dtype))


@pytest.mark.torch
@given(data=st.data())
def test_tensor_metadata(data):
    p, q, r = (data.draw(st.integers(1, 3)) for _ in range(3))
    shape, ind = data.draw(st.sampled_from([((p, q, p * q), 2), ((p * q, q, p), 1), ((p, q, q, p), 2), ((p, q, r), 1), ((0, q, 0), 2)]))
    ind = data.draw(st.sampled_from([ind, ind, ind, 0, 5, -1]))
    dtype = data.draw(dtypes)
    conform(lambda m, a: m.linalg.tensorinv(a, ind=ind), (data.draw(layouts(shape=shape)), dtype))
    dims = data.draw(st.sampled_from([None, None, (0,), (1,), (0, 1), (-1,), (0, 0), (7,)]))
    other = data.draw(layouts(shape=data.draw(st.sampled_from([shape[:ind], shape[:1], (p * q,), ()]))))
    conform(lambda m, a, b: m.linalg.tensorsolve(a, b, dims=dims), (data.draw(layouts(shape=shape)), dtype), (other, dtype))


@pytest.mark.torch
@settings(max_examples=60)
@given(data=st.data())
def test_lstsq_metadata(data):
    """PyTorch has no meta kernel, so its cpu result is the reference."""
    batch, m, n, k = data.draw(st.sampled_from([(), (2,), (2, 1)])), *(data.draw(st.integers(1, 4)) for _ in range(3))
    right = data.draw(st.sampled_from([(m, k), (m, k), (m,), (m + 1, k), (k, m)]))
    other = data.draw(st.sampled_from([batch, batch, (1,) * len(batch), (3,)]))
    driver = data.draw(st.sampled_from([None, "gels", "gelsy", "gelsd", "gelss", "svd"]))
    if driver in ("gelsd", "gelss") and m > n:
        return
    a, b = data.draw(layouts(shape=(*batch, m, n))), data.draw(layouts(shape=(*other, *right)))
    dtype = data.draw(st.sampled_from([*EXACT, "float32", "float16", "int64"]))
    conform(lambda lib, x, y: lib.linalg.lstsq(x + lib.eye(m, n, device=x.device), y, driver=driver) if dtype in EXACT else
            lib.linalg.lstsq(x, y, driver=driver), (a, dtype), (b, dtype))  # fmt: skip


def test_lstsq_depends_on_ranks():
    for driver in ("gelsd", "gelss"):
        with pytest.raises(mt.DataDependentError, match=r"linalg.lstsq.*\[4, 3\]"):
            mt.linalg.lstsq(meta(4, 3), meta(4, 2), driver=driver)
        assert mt.linalg.lstsq(meta(3, 4), meta(3, 2), driver=driver).singular_values.shape == (3,)
        assert mt.linalg.lstsq(meta(4, 0), meta(4, 2), driver=driver).residuals.shape == (2,)


# Values -----------------------------------------------------------------------------------------


@over
@batched
def test_solve(dtype, batch, device):
    a, b = matrices(dtype, (*batch, 4, 4), "regular"), matrices(dtype, (4, 5), seed=1)
    x, info = got(mt.linalg.solve_ex(put(a, device), put(b, device)))
    near(a @ x, np.broadcast_to(b, x.shape), dtype)
    assert info.shape == batch and not info.any()
    near(got(mt.linalg.solve(put(a, device), put(b[:, 0], device))), x[..., 0], dtype)
    y = got(mt.linalg.solve(put(a, device), put(b.T, device), left=False))
    near(y @ a, np.broadcast_to(b.T, y.shape), dtype)
    inverse = got(mt.linalg.inv(put(a, device)))
    near(inverse @ a, np.broadcast_to(np.eye(4), a.shape), dtype)
    near(got(put(a, device).inverse()), inverse, dtype)


def test_singular_matrices(device):
    """`solve_ex` and `inv_ex` process the regular matrices of a batch. `inv` and `solve` name the singular one."""
    a = put(np.stack([np.diag([1.0, 2.0]), np.diag([1.0, 0.0])]), device)
    x, info = mt.linalg.solve_ex(a, mt.ones(2, dtype=mt.float64, device=device))
    assert info.tolist() == [0, 2] and x[0].tolist() == [1.0, 0.5]
    inverses, info = mt.linalg.inv_ex(a)
    assert info.tolist() == [0, 2] and inverses[0].tolist() == [[1.0, 0.0], [0.0, 0.5]]
    calls = (mt.linalg.inv, mt.inverse, lambda t: mt.linalg.inv_ex(t, check_errors=True), lambda t: mt.linalg.solve(t, t))
    for call in calls:
        with pytest.raises(mt.linalg.LinAlgError, match=r"singular: element 2 of its diagonal .*matrix \(1,\) of the batch"):
            call(a)
    assert issubclass(mt.linalg.LinAlgError, RuntimeError)


@over
@batched
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_solve_triangular(dtype, batch, upper, unit, device):
    whole = matrices(dtype, (*batch, 4, 4), "regular")
    a = np.triu(whole) if upper else np.tril(whole)
    if unit:
        a[..., range(4), range(4)] = 1
    b = matrices(dtype, (4, 3), seed=1)
    x = got(mt.linalg.solve_triangular(put(whole, device), put(b, device), upper=upper, unitriangular=unit))
    near(a @ x, np.broadcast_to(b, x.shape), dtype, 10)
    y = got(mt.linalg.solve_triangular(put(whole, device), put(b.T, device), upper=upper, left=False, unitriangular=unit))
    near(y @ a, np.broadcast_to(b.T, y.shape), dtype, 10)
    z, clone = got(put(b, device).triangular_solve(put(whole, device), upper, True, unit))
    near(np.swapaxes(a, -1, -2) @ z, np.broadcast_to(b, z.shape), dtype, 10)
    near(clone, whole, dtype)


def test_solve_triangular_brings_dtypes_together():
    x = mt.linalg.solve_triangular(mt.eye(2, device="cpu") * 2, mt.ones(2, 1, dtype=mt.float64, device="cpu"), upper=True)
    assert x.dtype is mt.float32 and x.tolist() == [[0.5], [0.5]]


@over
@batched
def test_factored(dtype, batch, device):
    a, b = matrices(dtype, (*batch, 4, 4), "regular"), matrices(dtype, (4, 3), seed=1)
    lu, pivots = mt.linalg.lu_factor(put(a, device))
    for adjoint_of, matrix in ((False, a), (True, adjoint(a))):
        x = got(mt.linalg.lu_solve(lu, pivots, put(b, device), adjoint=adjoint_of))
        near(matrix @ x, np.broadcast_to(b, x.shape), dtype)
        x = got(mt.linalg.lu_solve(lu, pivots, put(b.T, device), left=False, adjoint=adjoint_of))
        near(x @ matrix, np.broadcast_to(b.T, x.shape), dtype)
    near(a @ got(put(b, device).lu_solve(lu, pivots)), np.broadcast_to(b, (*batch, 4, 3)), dtype)
    positive = matrices(dtype, (*batch, 4, 4), "positive")
    for upper in (False, True):
        factors = mt.linalg.cholesky(put(positive, device), upper=upper)
        x = got(mt.cholesky_solve(put(b, device), factors, upper))
        near(positive @ x, np.broadcast_to(b, x.shape), dtype, 10)


@over
@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize("shape", [(5, 3), (3, 3), (3, 5)])
def test_lstsq(dtype, batch, driver, shape, device):
    a, b = matrices(dtype, (*batch, *shape)), matrices(dtype, (*batch, shape[0], 2), seed=1)
    found = mt.linalg.lstsq(put(a, device), put(b, device), driver=driver)
    x, residuals, rank, values = got(found)
    near(x, np.linalg.pinv(a) @ b, dtype, 10)
    if shape == (5, 3) and driver != "gelsy":
        near(residuals, np.sum(np.abs(a @ x - b) ** 2, axis=-2), dtype, 10)
    else:
        assert residuals.shape == (0,)
    assert rank.shape == (0,) if driver == "gels" else rank.shape == batch and (rank == 3).all()
    if driver in ("gelsd", "gelss"):
        near(values, np.linalg.svd(a, compute_uv=False), dtype)
    vector = mt.linalg.lstsq(put(a, device), put(b[..., 0], device), driver=driver).solution
    near(got(vector), x[..., 0], dtype)


@pytest.mark.parametrize("driver", ["gelsy", "gelsd", "gelss"])
def test_lstsq_without_full_rank(driver, device):
    a = np.ones((5, 3))
    found = mt.linalg.lstsq(put(a, device), mt.ones(5, 1, dtype=mt.float64, device=device), driver=driver)
    near(got(found.solution), np.full((3, 1), 1 / 3), "float64")
    assert found.rank.item() == 1 and found.residuals.shape == (0,)
    near_singular = np.diag([1.0, 1e-3])
    for rcond, rank in ((1e-2, 1), (1e-4, 2)):
        assert mt.linalg.lstsq(put(near_singular, device), put(near_singular, device), rcond=rcond, driver=driver).rank.item() == rank


def test_lstsq_of_nothing(device):
    t = mt.linalg.lstsq(mt.ones(4, 0, device=device), mt.ones(4, 2, device=device), driver="gelsd")
    assert t.solution.shape == (0, 2) and t.residuals.tolist() == [4.0, 4.0] and t.rank.item() == 0
    t = mt.linalg.lstsq(mt.eye(3, 2, device=device), mt.ones(3, 0, device=device))
    assert t.solution.shape == (2, 0) and t.rank.item() == 2


@over
def test_tensors_as_matrices(dtype, device):
    a = matrices(dtype, (6, 6), "regular")
    inverse = np.linalg.inv(a)
    near(got(mt.linalg.tensorinv(put(a.reshape(2, 3, 6), device))), inverse.reshape(6, 2, 3), dtype)
    near(got(mt.linalg.tensorinv(put(a.reshape(6, 3, 2), device), ind=1)), inverse.reshape(3, 2, 6), dtype)
    b = matrices(dtype, (2, 3), seed=1)
    x = got(mt.linalg.tensorsolve(put(a.reshape(2, 3, 3, 2), device), put(b, device)))
    near(np.einsum("ijkl,kl->ij", a.reshape(2, 3, 3, 2), x), b, dtype)
    moved = np.moveaxis(a.reshape(2, 3, 6), 2, 0)
    near(got(mt.linalg.tensorsolve(put(moved, device), put(b, device), dims=(0,))), inverse @ b.reshape(6), dtype)


# Errors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: mt.linalg.solve(meta(3, 3), meta(2, 3)), r"linalg.solve\(\): the shapes do not fit A X = B.*3 by 3.*2 by 3"),
        (lambda: mt.linalg.solve(meta(1, 1), meta(1), left=False), "with left=False B must be matrices"),
        (lambda: mt.linalg.solve(meta(3, 3), meta(3, dtype=mt.float64)), "same dtype, got float32 and float64"),
        (lambda: mt.linalg.solve(meta(2, 3, 3), meta(5, 3, 3)), r"batch dimensions of shapes \[2, 3, 3\] and \[5, 3, 3\]"),
        (lambda: mt.linalg.inv(meta(3, 3, dtype=mt.float16)), "single or double precision is needed, got float16"),
        (lambda: mt.linalg.lu_solve(meta(3, 3), meta(3), meta(3, 1)), "pivots must be int32, got float32"),
        (lambda: mt.linalg.lu_solve(meta(3, 3), meta(2, dtype=mt.int32), meta(3, 1)), "pivots must have the shape"),
        (lambda: mt.linalg.lstsq(meta(3, 3), meta(3), driver="qr"), "driver must be 'gels'.*'qr'"),
        (lambda: mt.linalg.lstsq(meta(3, 3), meta(2)), "as many rows"),
        (lambda: mt.linalg.tensorinv(meta(2, 3, 5)), "the products are 6 and 5"),
        (lambda: mt.linalg.tensorsolve(meta(6), meta(2, 3)), "more dimensions than input"),
    ],
)
def test_messages(call, text):
    with pytest.raises(RuntimeError, match=text):
        call()


def test_out(device):
    a, b = matrices("float32", (3, 3), "regular"), matrices("float32", (3, 2), seed=1)
    out = mt.empty(0, device=device)
    assert mt.linalg.solve(put(a, device), put(b, device), out=out) is out
    near(a @ got(out), b, "float32")
    inverse, info = mt.empty(0, device=device), mt.empty(0, dtype=mt.int32, device=device)
    mt.linalg.inv_ex(put(a, device), out=(inverse, info))
    near(a @ got(inverse), np.eye(3), "float32")
    four = [mt.empty(0, dtype=d, device=device) for d in (mt.float32, mt.float32, mt.int64, mt.float32)]
    assert mt.linalg.lstsq(put(a, device), put(b, device), out=four).solution is four[0]
    near(a @ got(four[0]), b, "float32")
