"""Matrices and batches of matrices for tests of linear algebra, and checks of their factors."""

import numpy as np
from hypothesis import strategies as st

import metatensor as mt
from ops.layouts import layouts
from ops.pairs import values

EXACT = ("float32", "float64", "complex64", "complex128")
TOLERANCE = {"float32": 2e-4, "float64": 1e-10, "complex64": 2e-4, "complex128": 1e-10}
BATCHES = [(), (2,), (2, 3), (0,), (1, 2)]

dtypes = st.sampled_from([*EXACT, "float32", "float32", "float16", "bfloat16", "int64", "bool"])
batches = st.lists(st.integers(0, 3), max_size=2).map(tuple)


@st.composite
def squares(draw, **limits):
    """Draw layouts of square matrices, sometimes of tensors that are not square matrices."""
    if draw(st.integers(0, 9)) == 0:
        return draw(layouts(max_dims=3, max_size=3))
    n = draw(st.integers(0, 4))
    return draw(layouts(shape=(*draw(batches), n, n)))


@st.composite
def rectangles(draw, min_size=0):
    """Draw layouts of matrices, sometimes of tensors with fewer dimensions."""
    if draw(st.integers(0, 9)) == 0:
        return draw(layouts(max_dims=1, max_size=3))
    shape = (*draw(batches), draw(st.integers(min_size, 4)), draw(st.integers(min_size, 4)))
    return draw(layouts(shape=shape))


def dense(shape):
    """Return the layout of a contiguous tensor."""
    return shape, mt.empty(shape, device="meta").stride()


@st.composite
def equations(draw, vectors=False):
    """Draw layouts of A and B, and whether A is on the left. Most batches broadcast."""
    n, k = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    batch = draw(batches)
    other = draw(st.sampled_from([batch, batch, batch[1:], (1,) * len(batch), (2,)]))
    left = draw(st.booleans())
    right = (n, k) if left else (k, n)
    if vectors and draw(st.booleans()):
        right = (n,)
    return draw(layouts(shape=(*batch, n, n))), draw(layouts(shape=(*other, *right))), left


def matrices(dtype, shape, kind="any", seed=0):
    """Return random matrices as a NumPy array: "any", "positive" (definite), "symmetric", "hermitian", or "regular" (well-conditioned)."""
    rng = np.random.default_rng(seed)
    a = rng.standard_normal(shape)
    if dtype.startswith("complex"):
        a = a + 1j * rng.standard_normal(shape)
    if kind == "positive":
        a = a @ adjoint(a) + np.eye(shape[-1])
    elif kind == "symmetric":
        a = a + np.swapaxes(a, -1, -2)
    elif kind == "hermitian":
        a = a + adjoint(a)
    elif kind == "regular":
        a = a + 3 * np.eye(shape[-1])
    return a.astype(dtype)


def put(array, device="cpu"):
    """Return a tensor with the values of an array, which may have any strides."""
    return mt.from_numpy(array).to(device)


def got(result):
    """Return the values of a result, or a list of them for several."""
    if isinstance(result, (tuple, list)):
        return [values(t.resolve_conj()) for t in result]
    return values(result.resolve_conj())


def adjoint(array):
    return np.swapaxes(array, -1, -2).conj()


def near(found, wanted, dtype, scale=1.0):
    """Check that two arrays agree within the rounding error of sums of a few terms."""
    limit = TOLERANCE[dtype] * scale
    np.testing.assert_allclose(found, wanted, rtol=limit, atol=limit * max(1.0, np.abs(wanted).max(initial=0)))


def orthonormal(array, dtype):
    """Check that the columns are orthonormal."""
    product = adjoint(array) @ array
    near(product, np.broadcast_to(np.eye(array.shape[-1]), product.shape), dtype)
