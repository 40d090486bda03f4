"""Covariance, correlation and hashes: metadata and values compared with PyTorch."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metatensor as mt
from ops.arrays import agree, numbers
from ops.layouts import conform, dim_lists, layouts

DTYPES = ("uint8", "int64", "float32", "float64", "complex64")


def meta(*shape, dtype=mt.float32):
    return mt.empty(shape, dtype=dtype, device="meta")


def test_shapes():
    assert mt.cov(meta(3, 5)).shape == mt.corrcoef(meta(3, 5)).shape == (3, 3)
    assert mt.cov(meta(5)).shape == mt.cov(meta(1, 5)).shape == mt.corrcoef(meta()).shape == ()
    assert mt.cov(meta(3, 5, dtype=mt.int32)).dtype is mt.float32


@pytest.mark.torch
@given(data=st.data())
def test_hash(data):
    layout = data.draw(layouts(min_size=1))
    dim = data.draw(dim_lists(len(layout[0])).filter(lambda d: d is not None))
    keepdim = data.draw(st.booleans())
    conform(lambda m, x: m.hash_tensor(x, dim, keepdim=keepdim), (layout, data.draw(st.sampled_from(DTYPES[:4]))))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: mt.cov(meta(2, 2, 2)), r"cov.*\[2, 2, 2\]"),
        (lambda: mt.corrcoef(meta(2, 2, 2)), r"\[2, 2, 2\]"),
        (lambda: mt.cov(meta(2), fweights=meta(2)), "cov.*fweights.*float32"),
        (lambda: mt.cov(meta(2), aweights=meta(2, dtype=mt.int64)), "cov.*aweights.*int64"),
        (lambda: mt.cov(meta(2), aweights=meta(3)), "cov.*aweights.*2.*3"),
        (lambda: mt.hash_tensor(meta(0)), r"hash_tensor.*\[0\]"),
        (lambda: mt.hash_tensor(meta(2), mode=1), "hash_tensor.*mode.*1"),
    ],
)
def test_errors(call, text):
    with pytest.raises(RuntimeError, match=text):
        call()


@pytest.mark.torch
@pytest.mark.parametrize("dtype", DTYPES)
def test_values(dtype, device):
    x = numbers(dtype, (3, 6))
    count, weight = np.array([1, 2, 0, 3, 1, 1]), np.abs(numbers("float32", (6,), 1))
    agree(lambda m, t: (m.cov(t), m.cov(t, correction=0), m.cov(t[0]), m.corrcoef(t), m.corrcoef(t[0])), x, device=device)
    agree(lambda m, t, f: m.cov(t, fweights=f), x, count, device=device)
    agree(lambda m, t, f, a: (m.cov(t, aweights=a), m.cov(t, fweights=f, aweights=a, correction=2)), x, count, weight,
          device=device, tolerance=1e-5)


def test_negative_weights(device):
    x = mt.ones(3, device=device)
    with pytest.raises(RuntimeError, match="fweights.*negative"):
        mt.cov(x, fweights=mt.tensor([1, -1, 2], device=device))


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "bfloat16", "float32", "float64"])
def test_hash_values(dtype, device):
    x = numbers(dtype, (3, 4, 5))
    for dim in ((), 1, (0, 2)):
        agree(lambda m, t, d=dim: m.hash_tensor(t, d).to(m.int64), x, dtype=dtype, device=device)
