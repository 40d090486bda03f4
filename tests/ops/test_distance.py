"""Similarities, distances and their losses: values and metadata compared with PyTorch, errors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metatensor as mt
from ops.against import agree, tensors_of
from ops.pairs import values

F = mt.nn.functional
REDUCTIONS = ("none", "mean", "sum")


@pytest.mark.torch
@given(
    st.sampled_from([((3, 4), (3, 4)), ((2, 3, 4), (4,)), ((3, 4), (1, 4)), ((4,), (4,)), ((3, 0), (3, 0)), ((2, 3), (4, 3))]),
    st.integers(-3, 3), st.sampled_from([0.0, 1.0, 2.0, 3.5, float("inf"), -float("inf")]), st.booleans(),
)  # fmt: skip
@settings(max_examples=100)
def test_pairs(shapes, dim, p, keepdim):
    arguments = tensors_of(0, *shapes)
    agree(lambda lib, a, b: lib.nn.functional.cosine_similarity(a, b, dim=dim), *arguments, tolerance=1e-5)
    agree(lambda lib, a, b: lib.nn.functional.pairwise_distance(a, b, p, keepdim=keepdim), *arguments, tolerance=1e-5)


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "int64", "complex64"])
def test_dtypes(dtype):
    arguments = tensors_of(0, (3, 4), (3, 4), dtype=dtype)
    for name in ("cosine_similarity", "pairwise_distance"):
        agree(lambda lib, a, b: getattr(lib, name)(a, b), *arguments, tolerance=5e-2 if dtype == "bfloat16" else 1e-5)


@pytest.mark.torch
@given(st.integers(0, 5), st.integers(0, 3), st.sampled_from([0.0, 1.0, 2.0, 3.5, float("inf")]))
@settings(max_examples=40)
def test_pdist(n, width, p):
    agree(lambda lib, t: lib.nn.functional.pdist(t, p), *tensors_of(0, (n, width)), tolerance=1e-5)


@pytest.mark.torch
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_losses(reduction):
    a, b, y = tensors_of(0, (3, 4), (3, 4), (3, 4))
    for margin in (0.0, 0.5):
        options = {"reduction": reduction, "margin": margin}
        agree(lambda lib, *t: lib.nn.functional.margin_ranking_loss(*t, **options), a, b, y.sign(), tolerance=1e-5)
        agree(lambda lib, *t: lib.nn.functional.cosine_embedding_loss(*t, **options), a, b, y[:, 0].sign(), tolerance=1e-5)
    agree(lambda lib, *t: lib.nn.functional.cosine_embedding_loss(*t, reduction=reduction), a[0], b[0], y[0, 0].sign(), tolerance=1e-5)
    for swap in (False, True):
        for p in (1.0, 2.0):
            options = {"reduction": reduction, "swap": swap, "p": p}
            agree(lambda lib, *t: lib.nn.functional.triplet_margin_loss(*t, **options), a, b, y, tolerance=1e-5)
    agree(lambda lib, *t: lib.nn.functional.triplet_margin_with_distance_loss(*t, reduction=reduction), a, b, y, tolerance=1e-5)


@pytest.mark.torch
@pytest.mark.parametrize(
    "name, shapes",
    [
        ("margin_ranking_loss", ((3, 4), (3, 4), (4,))),
        ("margin_ranking_loss", ((3, 1), (1, 4), (3, 4))),
        ("cosine_embedding_loss", ((3, 4), (3, 4), (4,))),
        ("cosine_embedding_loss", ((3, 4), (3, 4), (1,))),
        ("cosine_embedding_loss", ((3, 4), (4,), (3,))),
        ("cosine_embedding_loss", ((3, 4), (3, 4), (3, 1))),
        ("triplet_margin_loss", ((3, 4), (1, 4), (3, 4))),
        ("triplet_margin_loss", ((3, 4), (4,), (3, 4))),
        ("triplet_margin_loss", ((4,), (4,), (4,))),
        ("triplet_margin_loss", ((3, 4), (3, 4), (3, 5))),
    ],
)
def test_shapes(name, shapes):
    for reduction in REDUCTIONS:
        call = lambda lib, *t: getattr(lib.nn.functional, name)(*t, reduction=reduction)
        agree(call, *[t.sign() if i == 2 else t for i, t in enumerate(tensors_of(0, *shapes))], tolerance=1e-5)


def test_definition(device):
    a, b = np.random.default_rng(0).standard_normal((2, 3, 4))
    x, y = mt.from_numpy(a.copy()).to(device), mt.from_numpy(b.copy()).to(device)
    cosine = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    np.testing.assert_allclose(values(F.cosine_similarity(x, y)), cosine, rtol=1e-12)
    np.testing.assert_allclose(values(F.pairwise_distance(x, y, eps=0.0)), np.linalg.norm(a - b, axis=1), rtol=1e-12)


def test_own_distance(device):
    a, b, c = (mt.from_numpy(v).to(device) for v in np.random.default_rng(0).standard_normal((3, 3, 4)))
    far = lambda x, y: (x - y).abs().sum(dim=-1)
    got = F.triplet_margin_with_distance_loss(a, b, c, distance_function=far, reduction="none")
    assert got.shape == (3,)
    np.testing.assert_allclose(values(got), values(mt.clamp_min(1 + far(a, b) - far(a, c), 0)), rtol=1e-12)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda t: F.triplet_margin_loss(t, t, t, margin=0.0), ValueError, "positive"),
        (lambda t: F.triplet_margin_loss(t, t, t[0]), RuntimeError, "the same number of dimensions"),
        (lambda t: F.margin_ranking_loss(t, t, t[0]), RuntimeError, "the same number of dimensions"),
        (lambda t: F.cosine_embedding_loss(t, t, t), RuntimeError, "0 or 1 dimensions"),
        (lambda t: F.cosine_similarity(t, t, dim=2), IndexError, "out of range"),
        (lambda t: F.pdist(t[0]), RuntimeError, "2 dimensions"),
        (lambda t: F.pdist(t, -1.0), RuntimeError, "negative"),
        (lambda t: F.cosine_similarity(t.to(mt.int64), t.to(mt.int64)), RuntimeError, "floating-point"),
    ],
)
def test_bad_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call(mt.empty(3, 4, device="meta"))


def test_small_integers_do_not_wrap_around(device):
    x = mt.tensor([1, 200, 3], dtype=mt.uint8, device=device)
    y = mt.tensor([1.0, 2.0, 3.0], device=device)
    found, wanted = (mt.nn.functional.cosine_similarity(z, y, 0).item() for z in (x, x.float()))
    assert abs(found - wanted) < 1e-6


def test_bools_and_mixed_dtypes():
    f, i, b, y = mt.ones(2, 3), mt.ones(2, 3, dtype=mt.int64), mt.ones(2, 3, dtype=mt.bool), mt.ones(2, dtype=mt.int64)
    for arguments in ((b, f, f), (f, b, f), (f, f, b)):
        with pytest.raises(RuntimeError):
            mt.nn.functional.triplet_margin_loss(*arguments)
        with pytest.raises(RuntimeError):
            mt.nn.functional.margin_ranking_loss(*arguments)
    assert mt.nn.functional.cosine_embedding_loss(f.half(), i, y).dtype is mt.float32
