"""Norms and distances: metadata compared with PyTorch, and values on every device."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metatensor as mt
from ops.arrays import agree, numbers
from ops.layouts import conform, dim_lists, dims, layouts, shapes

FLOATS = ("float16", "bfloat16", "float32", "float64", "complex64", "int64")
ORDERS = (2, 1, 0, 3.5, -1, 0.5, math.inf, -math.inf)
MATRIX_ORDERS = ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)


def meta(*shape, dtype=mt.float32):
    return mt.empty(shape, dtype=dtype, device="meta")


@pytest.mark.torch
@given(data=st.data())
def test_vector_norm(data):
    layout = data.draw(layouts())
    dim, keepdim = data.draw(dim_lists(len(layout[0]))), data.draw(st.booleans())
    order, dtype = data.draw(st.sampled_from(ORDERS)), data.draw(st.sampled_from(FLOATS))
    conform(lambda m, x: m.linalg.vector_norm(x, order, dim, keepdim), (layout, dtype))
    conform(lambda m, x: m.norm(x, order, dim, keepdim), (layout, dtype))


@pytest.mark.torch
@given(data=st.data())
def test_matrix_norm(data):
    layout = data.draw(layouts(min_dims=1))
    pair = data.draw(st.tuples(dims(len(layout[0])), dims(len(layout[0]))))
    order, keepdim = data.draw(st.sampled_from([*MATRIX_ORDERS, 3, "other"])), data.draw(st.booleans())
    dtype = data.draw(st.sampled_from(["float32", "float64", "complex64", "int32"]))
    conform(lambda m, x: m.linalg.matrix_norm(x, order, pair, keepdim), (layout, dtype))


@pytest.mark.torch
@given(data=st.data())
def test_norm(data):
    layout = data.draw(layouts(max_dims=3))
    dim, keepdim = data.draw(dim_lists(len(layout[0]))), data.draw(st.booleans())
    order = data.draw(st.sampled_from([None, *ORDERS, *MATRIX_ORDERS]))
    conform(lambda m, x: m.linalg.norm(x, order, dim, keepdim), (layout, "float32"))


@pytest.mark.torch
@given(data=st.data())
def test_distances(data):
    n, m_, k = (data.draw(st.integers(0, 3)) for _ in range(3))
    batch, other = data.draw(st.sampled_from([((), ()), ((2,), (2,)), ((2,), ()), ((1, 3), (2, 1)), ((2,), (3,))]))
    first, second = data.draw(layouts(shape=(*batch, n, k))), data.draw(layouts(shape=(*other, m_, k)))
    p = data.draw(st.sampled_from([2.0, 1.0, 0.0, math.inf]))
    conform(lambda m, x, y: m.cdist(x, y, p), (first, "float32"), (second, "float32"))
    conform(lambda m, x, y: m.dist(x, y, p), (first, "float32"), (second, "float64"))


@pytest.mark.torch
@given(data=st.data())
def test_renorm(data):
    layout = data.draw(layouts())
    dim = data.draw(dims(len(layout[0])))
    conform(lambda m, x: m.renorm(x, 2, dim, 1.0), (layout, data.draw(st.sampled_from(FLOATS))))


def test_dtype_argument():
    assert mt.linalg.vector_norm(meta(3), dtype=mt.float64).dtype is mt.float64
    assert meta(3, dtype=mt.complex64).norm().dtype is mt.float32
    for wrong in (mt.float16, mt.int32, mt.complex64):
        with pytest.raises(RuntimeError, match=f"vector_norm.*{wrong.name}"):
            mt.linalg.vector_norm(meta(3), dtype=wrong)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: mt.linalg.vector_norm(meta(2, dtype=mt.int64)), RuntimeError, "vector_norm.*int64"),
        (lambda: mt.linalg.vector_norm(meta(2, 0), math.inf), RuntimeError, r"vector_norm.*\[2, 0\]"),
        (lambda: mt.linalg.matrix_norm(meta(2)), RuntimeError, r"matrix_norm.*\[2\]"),
        (lambda: mt.linalg.matrix_norm(meta(2, 2), 3), RuntimeError, "matrix_norm.*3"),
        (lambda: mt.linalg.norm(meta(2, 2, 2), 2), RuntimeError, r"linalg.norm.*\[2, 2, 2\]"),
        (lambda: mt.cdist(meta(2, 3), meta(2, 4)), RuntimeError, r"cdist.*\[2, 3\].*\[2, 4\]"),
        (lambda: mt.cdist(meta(2, 3), meta(2, 3), -1.0), RuntimeError, "cdist.*-1"),
        (lambda: mt.dist(meta(2, 3), meta(2, 4)), RuntimeError, r"dist.*\[2, 3\].*\[2, 4\]"),
        (lambda: mt.renorm(meta(2), 2, 0, 1), RuntimeError, r"renorm.*\[2\]"),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64"])
@pytest.mark.parametrize("order", ORDERS)
def test_vector_values(order, dtype, device):
    x = numbers(dtype, (3, 4, 5))
    for dim in (None, 1, (0, 2)):
        agree(lambda m, t, dim=dim: m.linalg.vector_norm(t, order, dim), x, dtype=dtype, device=device)


@pytest.mark.torch
@pytest.mark.parametrize("order", MATRIX_ORDERS)
def test_matrix_values(order, device):
    for dtype in ("float32", "complex64"):
        agree(
            lambda m, t: (m.linalg.matrix_norm(t, order), m.linalg.matrix_norm(t, order, (0, 1), True)),
            numbers(dtype, (3, 4, 5)),
            device=device,
        )


@pytest.mark.torch
@pytest.mark.parametrize("p", [2.0, 1.0, 0.0, 3.0, math.inf])
def test_distance_values(p, device):
    x, y = numbers("float32", (2, 6, 4)), numbers("float32", (5, 4), 1)
    agree(lambda m, a, b: (m.cdist(a, b, p), m.dist(a, b[:1], p)), x, y, device=device)


def test_cdist_of_near_points(device):
    """Differences of near points are exact. A product of rows would lose them."""
    x = np.full((30, 3), 1000.0, np.float32)
    y = x + np.float32(0.125)
    found = mt.cdist(mt.from_numpy(x).to(device), mt.from_numpy(y).to(device)).cpu().numpy()
    np.testing.assert_allclose(found, 0.125 * 3**0.5, rtol=1e-5)


@pytest.mark.torch
@given(shape=shapes(min_dims=2, max_dims=3, min_size=1))
def test_renorm_values(shape):
    agree(lambda m, x: (m.renorm(x, 2, 1, 0.7), x.renorm_(1, 0, 0.5)), numbers("float32", shape))


def test_names_of_the_first_argument():
    x = mt.ones(2, 2)
    for norm in (mt.linalg.norm, mt.linalg.matrix_norm, mt.linalg.vector_norm):
        assert norm(input=x).item() == norm(x=x).item() == norm(a=x).item() == 2
        with pytest.raises(TypeError):
            norm(A=x)
