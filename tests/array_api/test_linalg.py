"""Linear algebra and Fourier transforms, compared with array-api-strict."""

import numpy as np
import pytest

pytest.importorskip("array_api_strict")
pytest.importorskip("metatensor_cpu")

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import metatensor as mt
from array_api.strict import COMPLEX, INTEGERS, NUMERIC, REAL, agree, arrays, ours, same, theirs
from metatensor import array_api as xp

SOME = settings(max_examples=40)
sizes = st.integers(0, 4)
batches = npst.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=2)
floats = st.sampled_from(REAL + COMPLEX)
NEAR = {"tolerance": 1e-3}


@pytest.fixture(autouse=True)
def double_precision():
    """Use float64 as the default dtype, as array-api-strict does for Python floats."""
    mt.set_default_dtype(mt.float64)


@st.composite
def matrices(draw, dtypes=floats, square=False, batch=batches, low=-4, high=4):
    shape = draw(batch)
    n = draw(sizes)
    return draw(arrays(draw(dtypes), (*shape, n, n if square else draw(sizes)), special=False, low=low, high=high))


def well_behaved(x):
    """Return the matrices with a large diagonal added, which makes them regular."""
    return (x + 12 * np.eye(x.shape[-1])).astype(x.dtype)


def definite(x):
    """Return Hermitian positive definite matrices."""
    return (x @ np.conj(np.swapaxes(x, -1, -2)) + np.eye(x.shape[-1])).astype(x.dtype)


@pytest.mark.slow
@SOME
@given(st.data())
def test_products(data):
    n, m, k = (data.draw(sizes) for _ in range(3))
    kind = data.draw(st.sampled_from([INTEGERS[:4], INTEGERS[4:], REAL + COMPLEX]))
    first, second = data.draw(batches), ()
    if data.draw(st.booleans()):
        second = first[-1:]
    how = {"special": False, "low": -4, "high": 4}
    a = data.draw(arrays(data.draw(st.sampled_from(kind)), st.sampled_from([(m,), (*first, n, m)]), **how))
    b = data.draw(arrays(data.draw(st.sampled_from(kind)), st.sampled_from([(m,), (*second, m, k)]), **how))
    for name in ("matmul", "linalg.matmul"):
        agree(name, a, b, **NEAR)


@pytest.mark.slow
@SOME
@given(st.data())
def test_tensordot(data):
    kind = data.draw(st.sampled_from([INTEGERS[:4], REAL + COMPLEX]))
    shape = data.draw(npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
    other = data.draw(st.permutations(shape))
    axes = data.draw(st.integers(0, len(shape)))
    how = {"special": False, "low": -4, "high": 4}
    a = data.draw(arrays(data.draw(st.sampled_from(kind)), shape, **how))
    last = data.draw(arrays(data.draw(st.sampled_from(kind)), (*shape[len(shape) - axes :], *shape[: len(shape) - axes]), **how))
    for name in ("tensordot", "linalg.tensordot"):
        agree(name, a, last, axes=axes, **NEAR)
    b = data.draw(arrays(data.draw(st.sampled_from(kind)), tuple(other), **how))
    pairs, free = [], list(range(len(other)))
    for i, size in enumerate(shape[:axes]):
        j = next(j for j in free if other[j] == size)
        free.remove(j)
        pairs.append((i, j - len(other) if i % 2 else j))
    lists = (tuple(i for i, _ in pairs), tuple(j for _, j in pairs))
    agree("tensordot", a, b, axes=lists, **NEAR)


@pytest.mark.slow
@SOME
@given(st.data())
def test_vectors(data):
    kind = data.draw(st.sampled_from([INTEGERS[:4], INTEGERS[4:], REAL + COMPLEX]))
    how = {"special": False, "low": -4, "high": 4}
    given = data.draw(npst.mutually_broadcastable_shapes(num_shapes=2, max_dims=2, max_side=3)).input_shapes
    place = data.draw(st.integers(0, min(map(len, given))))
    for name, n in (("linalg.vecdot", data.draw(sizes)), ("vecdot", 2), ("linalg.cross", 3)):
        a, b = (data.draw(arrays(data.draw(st.sampled_from(kind)), (*s[: len(s) - place], n, *s[len(s) - place :]), **how)) for s in given)
        agree(name, a, b, axis=-1 - place, **NEAR)
    u, v = (data.draw(arrays(data.draw(st.sampled_from(kind)), st.tuples(sizes), **how)) for _ in range(2))
    agree("linalg.outer", u, v)


def test_vectors_that_do_not_fit():
    x = xp.ones((2, 3), device="meta")
    for call in (lambda: xp.vecdot(x, x[:, :1]), lambda: xp.vecdot(x, x, axis=0), lambda: xp.vecdot(x, x[0], axis=-2),
                 lambda: xp.linalg.cross(x[:, :2], x[:, :2]), lambda: xp.linalg.cross(x, x, axis=1),
                 lambda: xp.matrix_transpose(x[0]), lambda: xp.linalg.matrix_rank(x[0]), lambda: xp.linalg.qr(x, mode="r")):
        with pytest.raises(ValueError):
            call()
    with pytest.raises(RuntimeError):
        xp.matmul(x[0, 0], x)


@pytest.mark.slow
@SOME
@given(st.data())
def test_parts_of_matrices(data):
    x = data.draw(matrices(st.sampled_from(["bool", *NUMERIC])))
    agree("linalg.diagonal", x, offset=data.draw(st.integers(-3, 3)))
    for name in ("matrix_transpose", "linalg.matrix_transpose"):
        agree(name, x)
    if x.dtype != bool:
        agree("linalg.trace", x, offset=data.draw(st.integers(-3, 3)), **NEAR)
        if x.dtype == np.float32:
            agree("linalg.trace", x, dtype="float64", **NEAR)


@pytest.mark.slow
@SOME
@given(matrices(square=True), st.integers(-2, 3), st.data())
def test_square_matrices(x, power, data):
    regular = well_behaved(x)
    agree("linalg.det", regular, tolerance=1e-2)
    agree("linalg.slogdet", regular, **NEAR)
    agree("linalg.inv", regular, **NEAR)
    agree("linalg.matrix_power", regular, power, tolerance=1e-2)
    for upper in (False, True):
        agree("linalg.cholesky", definite(x), upper=upper, **NEAR)
    n = x.shape[-1]
    b = data.draw(arrays(x.dtype, st.sampled_from([(n,), (n, 2), (3, 1, 1, n, 1), (*x.shape[:-2], n, n)]), special=False, low=-4, high=4))
    agree("linalg.solve", regular, b, **NEAR)


@SOME
@given(matrices(square=True))
def test_eigenvalues(x):
    x = definite(x)
    agree("linalg.eigvalsh", x, tolerance=1e-2)
    values, vectors = ours("linalg.eigh", x)
    want = theirs("linalg.eigh", x)
    same(values, want.eigenvalues, tolerance=1e-2)
    same(vectors, want.eigenvectors, values=False)
    back = vectors.numpy() * values.numpy()[..., None, :] @ np.conj(np.swapaxes(vectors.numpy(), -1, -2))
    np.testing.assert_allclose(back, x, rtol=1e-3, atol=1e-2)
    same(ours("linalg.eigh", x, device="meta"), want, values=False)


@pytest.mark.slow
@SOME
@given(matrices(), st.data())
def test_decompositions(x, data):
    assume(x.size)
    mode = data.draw(st.sampled_from(["reduced", "complete"]))
    q, r = ours("linalg.qr", x, mode=mode)
    same((q, r), tuple(theirs("linalg.qr", x, mode=mode)), values=False)
    np.testing.assert_allclose(q.numpy() @ r.numpy(), x, rtol=1e-3, atol=1e-3)
    full = data.draw(st.booleans())
    u, s, vh = ours("linalg.svd", x, full_matrices=full)
    want = theirs("linalg.svd", x, full_matrices=full)
    same((u, vh), (want.U, want.Vh), values=False)
    same(s, want.S, **NEAR)
    k = s.shape[-1]
    np.testing.assert_allclose((u.numpy()[..., :k] * s.numpy()[..., None, :]) @ vh.numpy()[..., :k, :], x, rtol=1e-3, atol=1e-3)
    for name, how in (("linalg.qr", {"mode": mode}), ("linalg.svd", {"full_matrices": full})):
        same(ours(name, x, device="meta", **how), theirs(name, x, **how), values=False)
    agree("linalg.svdvals", x, **NEAR)


@pytest.mark.slow
@SOME
@given(matrices(), st.data())
def test_ranks_and_norms(x, data):
    assume(x.size)
    x = np.round(x.real).astype(x.dtype)
    agree("linalg.matrix_rank", x)
    agree("linalg.matrix_rank", x, rtol=0.5)
    agree("linalg.pinv", x, **NEAR)
    tolerance = np.full(x.shape[:-2], 1e-3, x.real.dtype)
    agree("linalg.pinv", x, rtol=tolerance, **NEAR)
    order = data.draw(st.sampled_from(["fro", "nuc", 1, 2, np.inf, -1, -2, -np.inf]))
    agree("linalg.matrix_norm", x, ord=order, keepdims=data.draw(st.booleans()), **NEAR)
    axis = data.draw(st.sampled_from([None, 0, -1, (0, 1), (-1, 0)]))
    order = data.draw(st.sampled_from([2, 1, 3, 0.5, 0, -1, np.inf, -np.inf]))
    assume(x.all() or not isinstance(order, float | int) or order > 0)
    agree("linalg.vector_norm", x, axis=axis, ord=order, keepdims=data.draw(st.booleans()), **NEAR)


def test_names_of_results():
    x = xp.eye(2)
    assert xp.linalg.eigh(x)._fields == ("eigenvalues", "eigenvectors") and xp.linalg.qr(x)._fields == ("Q", "R")
    assert xp.linalg.svd(x)._fields == ("U", "S", "Vh") and xp.linalg.slogdet(x)._fields == ("sign", "logabsdet")
    assert xp.linalg.matrix_norm(x, ord=None).item() == pytest.approx(2**0.5)
    with pytest.raises(mt.linalg.LinAlgError):
        xp.linalg.inv(xp.zeros((2, 2)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
@SOME
@given(st.data())
def test_transforms_along_one_axis(name, data):
    dtype = data.draw(st.sampled_from(REAL if name in ("rfft", "ihfft") else COMPLEX))
    x = data.draw(arrays(dtype, npst.array_shapes(max_dims=3, min_side=2, max_side=4), special=False, low=-4, high=4))
    how = {"axis": data.draw(st.integers(-x.ndim, x.ndim - 1)), "norm": data.draw(st.sampled_from(["backward", "ortho", "forward"]))}
    if data.draw(st.booleans()):
        how["n"] = data.draw(st.integers(2, 6))
    agree(f"fft.{name}", x, **how, **NEAR)
    agree(f"fft.{name}", x, **NEAR)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
@SOME
@given(st.data())
def test_transforms_along_several(name, data):
    dtype = data.draw(st.sampled_from(REAL if name == "rfftn" else COMPLEX))
    x = data.draw(arrays(dtype, npst.array_shapes(min_dims=1, max_dims=3, min_side=2, max_side=4), special=False, low=-4, high=4))
    axes = data.draw(st.lists(st.integers(0, x.ndim - 1), unique=True, min_size=1))
    how = {"axes": tuple(axes), "norm": data.draw(st.sampled_from(["backward", "ortho", "forward"]))}
    if data.draw(st.booleans()):
        how["s"] = tuple(data.draw(st.integers(2, 5)) for _ in axes)
    agree(f"fft.{name}", x, **how, **NEAR)
    agree(f"fft.{name}", x, **NEAR)


@pytest.mark.slow
@SOME
@given(st.data())
def test_frequencies(data):
    n, d = data.draw(st.integers(1, 9)), data.draw(st.sampled_from([1.0, 0.5, 3.0]))
    how = {"dtype": data.draw(st.sampled_from(REAL))} if data.draw(st.booleans()) else {}
    for name in ("fftfreq", "rfftfreq"):
        agree(f"fft.{name}", n, d=d, **how)
    x = data.draw(arrays(data.draw(st.sampled_from(REAL + COMPLEX)), npst.array_shapes(max_dims=3, max_side=4)))
    axes = data.draw(st.none() | st.integers(-x.ndim, x.ndim - 1) | st.just(tuple(range(x.ndim))))
    for name in ("fftshift", "ifftshift"):
        agree(f"fft.{name}", x, axes=axes)
