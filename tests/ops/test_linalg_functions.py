"""Determinants, powers, exponentials, cross products and Vandermonde matrices, compared with PyTorch."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metatensor as mt
from ops.against import agree
from ops.layouts import conform, dims, layouts
from ops.systems import BATCHES, EXACT, dtypes, got, matrices, near, put, squares

over = pytest.mark.parametrize("dtype", EXACT)
batched = pytest.mark.parametrize("batch", BATCHES)


def meta(*shape, dtype=mt.float32):
    return mt.empty(*shape, dtype=dtype, device="meta")


# Metadata --------------------------------------------------------------------------------------


@pytest.mark.torch
@given(squares(), dtypes)
def test_determinant_metadata(layout, dtype):
    for call in (
        lambda m, a: m.linalg.det(a), lambda m, a: a.det(), lambda m, a: m.linalg.slogdet(a),
        lambda m, a: a.slogdet(), lambda m, a: a.logdet(),
    ):  # fmt: skip
        conform(call, (layout, dtype))


@pytest.mark.torch
@given(squares(), dtypes.filter("bool".__ne__), st.integers(-3, 6))
def test_power_metadata(layout, dtype, n):
    conform(lambda m, a: m.linalg.matrix_power(a, n), (layout, dtype))
    conform(lambda m, a: a.matrix_power(n), (layout, dtype))
    conform(lambda m, a: m.linalg.matrix_exp(a), (layout, dtype))
    conform(lambda m, a: a.matrix_exp(), (layout, dtype))


@pytest.mark.torch
@given(data=st.data())
def test_cross_metadata(data):
    shape = data.draw(st.lists(st.sampled_from([3, 3, 1, 2, 0]), max_size=3))
    other = [data.draw(st.sampled_from([n, n, n, 1])) for n in shape][data.draw(st.sampled_from([0, 0, 0, 1])):]
    first, second = data.draw(layouts(shape=shape)), data.draw(layouts(shape=other))
    dtype, dim = data.draw(dtypes), data.draw(dims(len(shape)))
    conform(lambda m, a, b: m.linalg.cross(a, b, dim=dim), (first, dtype), (second, dtype))
    conform(lambda m, a, b: a.cross(b, dim), (first, dtype), (second, dtype))
    conform(lambda m, a, b: m.cross(a, b), (first, dtype), (second, data.draw(st.sampled_from([dtype, "float64"]))))


@pytest.mark.torch
@given(layouts(max_dims=3), st.sampled_from([*EXACT, "float16", "int32", "uint8", "bool"]), st.sampled_from([None, None, 1, 2, 5]))
def test_vander_metadata(layout, dtype, n):
    conform(lambda m, a: m.linalg.vander(a, N=n), (layout, dtype))


# Values -----------------------------------------------------------------------------------------


@pytest.mark.torch
@over
@batched
def test_determinants(dtype, batch):
    import torch

    for kind, n in (("any", 3), ("regular", 4), ("any", 0), ("any", 1)):
        a = torch.from_numpy(matrices(dtype, (*batch, n, n), kind))
        agree(lambda m, t: (m.linalg.det(t), t.det(), *m.linalg.slogdet(t), *t.slogdet()), a, tolerance=1e-3)
        agree(lambda m, t: t.logdet(), a, tolerance=1e-3)
    agree(lambda m, t: (m.linalg.det(t), *m.linalg.slogdet(t), t.abs().logdet()), torch.zeros(*batch, 2, 2, dtype=a.dtype))


@over
@batched
def test_determinants_of_factors(dtype, batch, device):
    a = matrices(dtype, (*batch, 4, 4), "regular")
    sign, logarithm = got(mt.linalg.slogdet(put(a, device)))
    near(sign * np.exp(logarithm), got(mt.linalg.det(put(a, device))), dtype, 10)


@pytest.mark.torch
@over
@pytest.mark.parametrize("n", [-3, -2, -1, 0, 1, 2, 3, 4, 7])
def test_matrix_power(dtype, n):
    import torch

    a = torch.from_numpy(matrices(dtype, (2, 3, 3), "regular")) / 3
    agree(lambda m, t: m.linalg.matrix_power(t, n), a, tolerance=1e-3)
    agree(lambda m, t: t.mT.matrix_power(n), a, tolerance=1e-3)


def test_powers_of_integers(device):
    a = np.array([[1, 1], [1, 0]])
    assert got(mt.matrix_power(put(a, device), 10)).tolist() == [[89, 55], [55, 34]]
    assert got(mt.matrix_power(put(a, device), 0)).tolist() == [[1, 0], [0, 1]]


@pytest.mark.torch
@over
@pytest.mark.parametrize("scale", [1e-3, 1.0, 6.0])
def test_matrix_exp(dtype, scale):
    import torch

    for shape in ((3, 3), (2, 4, 4), (1, 1), (0, 3, 3)):
        a = torch.from_numpy(matrices(dtype, shape)) * scale
        agree(lambda m, t: m.linalg.matrix_exp(t), a, tolerance=2e-3)


def test_matrix_exp_of_a_rotation(device):
    found = got(mt.matrix_exp(put(np.array([[0.0, -np.pi / 2], [np.pi / 2, 0.0]]), device)))
    near(found, np.array([[0.0, -1.0], [1.0, 0.0]]), "float64")
    mixed = put(np.stack([np.zeros((2, 2)), np.full((2, 2), np.nan)]), device)
    assert got(mt.matrix_exp(mixed))[0].tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert np.isnan(got(mt.matrix_exp(mixed))[1]).all()


@pytest.mark.torch
@settings(max_examples=40)
@given(st.sampled_from([*EXACT, "int32", "uint8", "float16"]), st.integers(0, 3))
def test_cross(dtype, case):
    import torch

    shapes = [((3,), (3,)), ((2, 3), (1, 3)), ((3, 4), (3, 1)), ((0, 3), (0, 3))][case]
    generator = torch.Generator().manual_seed(case)
    a, b = (torch.randint(-4, 5, s, generator=generator).to(getattr(torch, dtype)) for s in shapes)
    dim = 0 if case == 2 else -1
    agree(lambda m, x, y: (m.linalg.cross(x, y, dim=dim), m.cross(x, y, dim), m.cross(x, y)), a, b)


@pytest.mark.torch
@pytest.mark.parametrize("dtype", [*EXACT, "int32", "uint8"])
@pytest.mark.parametrize("n", [None, 2, 5])
def test_vander(dtype, n):
    import torch

    for shape in ((3,), (2, 3), (0, 3)):
        a = torch.randint(0, 4, shape, generator=torch.Generator().manual_seed(0)).to(getattr(torch, dtype))
        agree(lambda m, t: m.linalg.vander(t, N=n), a)
    if n:
        agree(lambda m, t: m.linalg.vander(t, N=n), a.new_tensor(3))


# Errors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: mt.linalg.det(meta(2, 3)), RuntimeError, r"linalg.det\(\): input must be square.*2 by 3"),
        (lambda: mt.slogdet(meta(3, 3, dtype=mt.float16)), RuntimeError, "single or double precision is needed, got float16"),
        (lambda: mt.linalg.matrix_power(meta(3), 2), RuntimeError, r"at least 2 dimensions, got shape \[3\]"),
        (lambda: mt.matrix_exp(meta(3, 3, dtype=mt.int64)), RuntimeError, "floating-point or complex tensor is needed, got int64"),
        (lambda: mt.linalg.cross(meta(2), meta(2)), RuntimeError, r"dimension 0 must have size 3.*\[2\] and \[2\]"),
        (lambda: mt.linalg.cross(meta(3), meta(3), dim=1), IndexError, "dimension 1 is out of range"),
        (lambda: mt.cross(meta(2), meta(2)), RuntimeError, r"a dimension of size 3, got shape \[2\]"),
        (lambda: mt.cross(meta(3), meta(1, 3)), RuntimeError, r"the same number of dimensions, got shapes \[3\] and \[1, 3\]"),
        (lambda: mt.linalg.vander(meta(3), N=1), RuntimeError, "N must be greater than 1, got 1"),
        (lambda: mt.linalg.vander(meta(3, dtype=mt.bool)), RuntimeError, "got bool"),
    ],
)
def test_messages(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_out(device):
    a = matrices("float32", (3, 3), "regular")
    t, out = put(a, device), mt.empty(0, device=device)
    assert mt.linalg.matrix_power(t, 2, out=out) is out
    near(got(out), a @ a, "float32")
    with pytest.raises(RuntimeError, match="out must have the dtype of input, float32, got float64"):
        mt.linalg.matrix_power(t, 2, out=mt.empty(0, dtype=mt.float64, device=device))
    pair = mt.empty(0, device=device), mt.empty(0, device=device)
    assert mt.linalg.slogdet(t, out=pair).sign is pair[0]
    crossed = mt.empty(0, device=device)
    mt.cross(t, t + 1, out=crossed)
    near(got(crossed), np.cross(a, a + 1, axis=0), "float32")
