"""Matrix products: metadata compared with PyTorch, errors that name the shapes, and values on every device."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metatensor as mt
from ops.arrays import agree, numbers
from ops.layouts import conform, layouts, shapes

DTYPES = ("uint8", "int64", "float16", "bfloat16", "float32", "float64", "complex64")
F = mt.nn.functional
SIZES, SOME = st.integers(0, 3), st.integers(1, 3)


def meta(*shape, dtype=mt.float32):
    return mt.empty(shape, dtype=dtype, device="meta")


def drawn(data, *shape):
    return data.draw(layouts(shape=shape)), data.draw(st.sampled_from(["float32"] * 6 + ["float64", "int64"]))


# Metadata ------------------------------------------------------------------------------


@pytest.mark.torch
@settings(max_examples=40)
@given(data=st.data())
def test_matmul(data):
    """The shapes are chosen so that most of them fit. Random shapes rarely do."""
    n, k, m_ = (data.draw(SIZES) for _ in range(3))
    batch = data.draw(shapes(max_dims=2))
    a, b = (*batch, n, k), (*[data.draw(st.sampled_from([1, s])) for s in batch], k, m_)
    a, b = data.draw(
        st.sampled_from([(a, b), (b, a), (a, b[-2:]), (a[-2:], b), (a, (k,)), ((k,), b), ((k,), (k,)), ((), a), (a, (1, *b))])
    )
    conform(lambda m, x, y: m.matmul(x, y), drawn(data, *a), drawn(data, *b))
    conform(lambda m, x, y: x @ y, drawn(data, *a), drawn(data, *b))


@pytest.mark.torch
@settings(max_examples=40)
@given(data=st.data())
def test_products(data):
    n, k, m_, other = (data.draw(SIZES) for _ in range(4))
    k2 = data.draw(st.sampled_from([k, k, k, other]))
    conform(lambda m, x, y: m.mm(x, y), drawn(data, n, k), drawn(data, k2, m_))
    conform(lambda m, x, y: m.bmm(x, y), drawn(data, 2, n, k), drawn(data, 2, k2, m_))
    conform(lambda m, x, y: m.mv(x, y), drawn(data, n, k), drawn(data, k2))
    conform(lambda m, x, y: m.dot(x, y), drawn(data, k), drawn(data, k2))
    conform(lambda m, x, y: m.vdot(x, y), drawn(data, k), drawn(data, k2))
    conform(lambda m, x, y: m.outer(x, y), drawn(data, n), drawn(data, m_))


@pytest.mark.torch
@settings(max_examples=40)
@given(data=st.data())
def test_added_products(data):
    n, k, m_, other = (data.draw(SOME) for _ in range(4))
    rows, columns = data.draw(st.sampled_from([n, n, 1, other])), data.draw(st.sampled_from([m_, m_, 1, other]))
    to = data.draw(st.sampled_from([(rows, columns), (columns,), ()]))
    conform(lambda m, t, x, y: m.addmm(t, x, y, beta=2), drawn(data, *to), drawn(data, n, k), drawn(data, k, m_))
    conform(lambda m, t, x, y: m.addmv(t, x, y), drawn(data, *to[:1]), drawn(data, n, k), drawn(data, k))
    conform(lambda m, t, x, y: m.addr(t, x, y), drawn(data, *to), drawn(data, n), drawn(data, m_))
    conform(lambda m, t, x, y: m.baddbmm(t, x, y), drawn(data, *to), drawn(data, 2, n, k), drawn(data, 2, k, m_))
    conform(lambda m, t, x, y: m.addbmm(t, x, y), drawn(data, *to), drawn(data, 2, n, k), drawn(data, 2, k, m_))


@pytest.mark.torch
@settings(max_examples=40)
@given(data=st.data())
def test_linear(data):
    k, m_, other = (data.draw(SIZES) for _ in range(3))
    batch = data.draw(shapes(max_dims=3))
    weight = data.draw(st.sampled_from([(m_, k), (k,), (m_, other)]))
    conform(lambda m, x, w: m.nn.functional.linear(x, w), drawn(data, *batch, k), drawn(data, *weight))
    bias = data.draw(st.sampled_from([(m_,), (1,), (other,)]))
    given_ = [(data.draw(layouts(shape=s)), "float32") for s in ((*batch, k), (m_, k), bias)]
    conform(lambda m, x, w, b: m.nn.functional.linear(x, w, b), *given_)


@pytest.mark.torch
@settings(max_examples=40)
@given(data=st.data())
def test_bilinear(data):
    n, k, m_, other = (data.draw(SOME) for _ in range(4))
    batch = data.draw(shapes(max_dims=2, min_size=1))
    n2 = data.draw(st.sampled_from([n, n, other]))
    conform(
        lambda m, x, y, w, b: m.nn.functional.bilinear(x, y, w, b),
        *[(data.draw(layouts(shape=s)), "float32") for s in ((*batch, n), (*batch, k), (m_, n2, k), (m_,))],
    )


def test_linear_of_a_transposed_weight():
    assert F.linear(meta(2, 5, 3), meta(3, 4).t(), meta(4)).stride() == (20, 4, 1)


def test_in_place_and_out():
    x = meta(2, 4)
    assert x.addmm_(meta(2, 3), meta(3, 4)) is x
    out = meta(0)
    assert mt.mm(meta(2, 3), meta(3, 4), out=out).shape == (2, 4)
    with pytest.raises(RuntimeError, match=r"addmm_.*\[4\].*\[2, 4\]"):
        meta(4).addmm_(meta(2, 3), meta(3, 4))


def test_out_dtype():
    a = meta(2, 3, dtype=mt.bfloat16)
    assert mt.mm(a, meta(3, 4, dtype=mt.bfloat16), mt.float32).dtype is mt.float32
    with pytest.raises(RuntimeError, match="out_dtype.*float64"):
        mt.mm(a, meta(3, 4, dtype=mt.bfloat16), mt.float64)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: meta(2, 3) @ meta(4, 5), RuntimeError, r"matmul.*mat1 and mat2 shapes cannot be multiplied \(2x3 and 4x5\)"),
        (lambda: F.linear(meta(7, 2, 3), meta(5, 4)), RuntimeError, r"linear.*mat1 and mat2 shapes.*14x3 and 4x5"),
        (lambda: F.linear(meta(2, 3), meta(5, 3), meta(4)), RuntimeError, r"linear.*bias.*\[4\].*\[2, 5\]"),
        (lambda: meta(2, 3) @ meta(3, 4, dtype=mt.float64), RuntimeError, "matmul.*float32.*float64"),
        (lambda: meta(3, 2, 3) @ meta(4, 3, 4), RuntimeError, r"matmul.*\[3, 2, 3\].*\[4, 3, 4\]"),
        (lambda: meta() @ meta(2), RuntimeError, r"matmul.*\[\].*\[2\]"),
        (lambda: mt.mm(meta(2), meta(2, 3)), RuntimeError, r"mm.*input.*2 dim.*\[2\]"),
        (lambda: mt.bmm(meta(2, 3, 4), meta(2, 3, 4)), RuntimeError, r"bmm.*mat2.*\[2, 4, \*\].*\[2, 3, 4\]"),
        (lambda: mt.dot(meta(2), meta(3)), RuntimeError, r"dot.*\[2\].*\[3\]"),
        (lambda: mt.addmm(meta(5), meta(2, 3), meta(3, 4)), RuntimeError, r"addmm.*input.*\[5\].*\[2, 4\]"),
        (lambda: meta(2, 2, dtype=mt.bool) @ meta(2, 2, dtype=mt.bool), NotImplementedError, "matmul.*bool"),
        (lambda: F.bilinear(meta(2, 3), meta(2, 4), meta(5, 4, 3)), RuntimeError, r"bilinear.*weight.*\[5, 4, 3\]"),
        (lambda: F.bilinear(meta(2, 3), meta(2, 4), meta(5, 3, 4), meta(5).double()), RuntimeError, "bilinear.*bias.*float64"),
        (lambda: meta(2, 2) @ 3, TypeError, "@"),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


# Values ---------------------------------------------------------------------------------

SHAPES = [
    ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((2, 3), (3, 4)), ((5, 2, 3), (3,)), ((5, 2, 3), (3, 4)), ((3,), (5, 3, 4)),
    ((2, 3), (5, 3, 4)), ((5, 2, 3), (5, 3, 4)), ((1, 2, 3), (5, 3, 4)), ((6, 1, 2, 3), (5, 3, 4)), ((2, 0), (0, 4)),
]  # fmt: skip


@pytest.mark.torch
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_matmul_values(a, b, dtype, device):
    agree(lambda m, x, y: m.matmul(x, y), numbers(dtype, a), numbers(dtype, b, 1), dtype=dtype, device=device)
    if len(a) > 1 and len(b) > 1:
        turned = [numbers(dtype, (*s[:-2], s[-1], s[-2]), i) for i, s in enumerate((a, b))]
        agree(lambda m, x, y: x.mT @ y.mT, *turned, dtype=dtype, device=device)


@pytest.mark.torch
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scales", [(1, 1), (0, 1), (2, 3)])
def test_added_values(scales, dtype, device):
    beta, alpha = scales

    def check(name, *shapes_):
        given = [numbers(dtype, s, i) for i, s in enumerate(shapes_)]
        agree(lambda m, *t: getattr(m, name)(*t, beta=beta, alpha=alpha), *given, dtype=dtype, device=device)

    check("addmm", (4,), (2, 3), (3, 4))
    check("addmv", (2,), (2, 3), (3,))
    check("addr", (2, 3), (2,), (3,))
    check("baddbmm", (2, 4), (5, 2, 3), (5, 3, 4))
    check("addbmm", (2, 4), (5, 2, 3), (5, 3, 4))


@pytest.mark.torch
@pytest.mark.parametrize("dtype", DTYPES)
def test_layer_values(dtype, device):
    w, b = numbers(dtype, (4, 3), 1), numbers(dtype, (4,), 2)
    for shape in [(3,), (2, 3), (5, 2, 3), (0, 3)]:
        x = numbers(dtype, shape)
        agree(lambda m, x, w, b: m.nn.functional.linear(x, w, b), x, w, b, dtype=dtype, device=device)
        agree(lambda m, x, w: m.nn.functional.linear(x, w), x, w, dtype=dtype, device=device)
        agree(lambda m, x, w: m.nn.functional.linear(x, w.t()), numbers(dtype, (*shape[:-1], 4)), w, dtype=dtype, device=device)
        agree(
            lambda m, x, y, w, b: m.nn.functional.bilinear(x, y, w, b),
            x, numbers(dtype, (*shape[:-1], 2), 3), numbers(dtype, (4, 3, 2), 4), b, dtype=dtype, device=device,
        )  # fmt: skip


@pytest.mark.torch
def test_out_values(device):
    x, y = numbers("float32", (3, 3)), numbers("float32", (3, 3), 1)
    agree(lambda m, a, b: m.mm(a, b, out=m.empty(3, 3, device=a.device).t()), x, y, device=device)
    agree(lambda m, a, b: a.clone().addmm_(b, b.t(), beta=0.5), x, y, device=device)


def test_nan_does_not_spread_through_beta_zero(device):
    x = mt.full((2, 2), float("nan"), device=device)
    assert mt.addmm(x, mt.ones(2, 2, device=device), mt.ones(2, 2, device=device), beta=0).tolist() == [[2, 2], [2, 2]]


def test_half_accumulates_in_single(device):
    a = mt.full((1, 4096), 0.01, dtype=mt.float16, device=device)
    found = (a @ a.t()).item()
    exact = 4096 * float(np.float16(0.01)) ** 2
    assert abs(found - exact) < 1e-3 * exact


def test_int_mm(device):
    a = mt.full((3, 200), 100, dtype=mt.int8, device=device)
    assert mt._int_mm(a, a.t()).tolist() == [[2_000_000] * 3] * 3


@pytest.mark.torch
def test_scaled_mm(device):
    import torch

    x, y = numbers("float32", (16, 32)), numbers("float32", (16, 32), 1)

    def call(m, a, b):
        a, b = a.to(m.float8_e4m3fn), b.to(m.float8_e4m3fn).t()
        scale = m.full((), 0.5, device=a.device)
        return m._scaled_mm(a, b, scale, scale, out_dtype=m.float32)

    a, b = (torch.from_numpy(t).to(torch.float8_e4m3fn).float() for t in (x, y))
    ours = call(mt, mt.from_numpy(x).to(device), mt.from_numpy(y).to(device)).cpu().numpy()
    np.testing.assert_allclose(ours, (a @ b.t()).numpy() * 0.25, rtol=1e-5, atol=1e-5)
    with pytest.raises(RuntimeError, match="scale_a.*float16"):
        eight = meta(16, 16, dtype=mt.float8_e4m3fn)
        mt._scaled_mm(eight, eight, meta(dtype=mt.float16), meta())


@pytest.mark.torch
@given(st.sampled_from(["mm", "bmm", "mv", "dot", "matmul", "linear"]), st.sampled_from(["bool", "int64"]), st.data())
def test_empty_products_of_bools(name, dtype, data):
    """PyTorch rejects products of bools, except empty ones."""
    from ops.against import agree

    n, k, m, b = (data.draw(st.sampled_from([0, 1, 2])) for _ in range(4))
    shapes = {
        "mm": ((n, k), (k, m)), "bmm": ((b, n, k), (b, k, m)), "mv": ((n, k), (k,)), "dot": ((k,), (k,)),
        "matmul": ((b, n, k), (k, m)), "linear": ((n, k), (m, k)),
    }[name]  # fmt: skip
    import torch

    tensors = [torch.ones(s, dtype=getattr(torch, dtype)) for s in shapes]
    agree(lambda lib, *t: getattr(lib.nn.functional if name == "linear" else lib, name)(*t), *tensors)


def test_addr_computes_in_the_dtype_of_the_result(device):
    t = mt.tensor([[200, 3]], dtype=mt.uint8, device=device)
    found = mt.addr(t, mt.tensor([1], device=device), mt.tensor([2, -6], device=device), beta=3, alpha=2)
    assert found.tolist() == [[604, -3]]


def test_the_bias_of_bilinear_has_the_dtype_of_the_weight():
    with pytest.raises(RuntimeError):
        mt.nn.functional.bilinear(mt.ones(3), mt.ones(4), mt.ones(5, 3, 4), mt.ones(5, dtype=mt.float64))
