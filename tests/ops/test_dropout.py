"""Dropout: kept and dropped elements, their frequency, in-place, metadata and errors."""

import math

import numpy as np
import pytest

import metatensor as mt
from ops.against import attempt, metadata, raises_alike, shadow, tensors_of, twin
from ops.pairs import values

F = mt.nn.functional
NAMES = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 1.5])
def test_metadata_of_torch(name, training, p):
    for shape in ((2, 3), (2, 3, 4), (2, 3, 4, 5), (2, 3, 4, 5, 6), (3,), (), (0, 3, 4)):
        for dtype in ("float32", "int64", "bfloat16"):
            (t,) = tensors_of(0, shape, dtype=dtype)
            for u in (t, t.mT) if t.ndim > 1 else (t,):
                call = lambda lib, t: getattr(lib.nn.functional, name)(t, p, training=training)
                import torch

                there, ours = attempt(call, torch, [u]), attempt(call, mt, [twin(u, "meta")])
                there_meta = attempt(call, torch, [shadow(u)])
                if isinstance(there, Exception):
                    assert isinstance(ours, Exception) and raises_alike(ours, there, there_meta), (name, shape, dtype, there, ours)
                else:
                    assert metadata(ours) in (metadata(there), metadata(there_meta)), (name, shape, dtype)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_to_drop(name, device):
    t = mt.from_numpy(np.random.default_rng(0).standard_normal((2, 3, 4)).astype("float32")).to(device)
    before = values(t).copy()
    for options in ({"training": False}, {"p": 0.0, "training": True}):
        got = getattr(F, name)(t, **options)
        assert got is t
        np.testing.assert_array_equal(values(got), before)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_frequency(p, device):
    t = mt.from_numpy(np.full((100, 1000), 2.0, "float32")).to(device)
    got = values(F.dropout(t, p))
    kept = got != 0
    np.testing.assert_allclose(got[kept], 2 / (1 - p), rtol=1e-6)
    assert abs(kept.mean() - (1 - p)) < 5 * math.sqrt(p * (1 - p) / kept.size)
    assert not values(F.dropout(t, 1.0)).any()


@pytest.mark.parametrize(
    "name, shape, channels", [("dropout1d", (50, 40, 3), 2), ("dropout1d", (400, 3), 1), ("dropout2d", (20, 30, 3, 3), 2),
                              ("dropout3d", (20, 30, 2, 2, 2), 2), ("dropout3d", (400, 2, 2, 2), 1)],
)  # fmt: skip
def test_whole_channels(name, shape, channels, device):
    got = values(getattr(F, name)(mt.from_numpy(np.ones(shape, "float32")).to(device), 0.5))
    by_channel = got.reshape(*shape[:channels], -1)
    assert (by_channel == by_channel[..., :1]).all()
    assert 0.35 < (by_channel[..., 0] == 0).mean() < 0.65


def test_alpha_keeps_the_moments(device):
    t = mt.from_numpy(np.random.default_rng(0).standard_normal((400, 500))).to(device)
    for name in ("alpha_dropout", "feature_alpha_dropout"):
        got = values(getattr(F, name)(t, 0.3, training=True))
        assert abs(got.mean()) < 0.02
        assert abs(got.var() - 1) < 0.03


def test_in_place(device):
    t = mt.from_numpy(np.ones((20, 30), "float32")).to(device)
    mt.manual_seed(5)
    expected = values(F.dropout(t, 0.5))
    mt.manual_seed(5)
    assert F.dropout(t, 0.5, inplace=True) is t
    np.testing.assert_array_equal(values(t), expected)
    t = mt.from_numpy(np.ones((20, 30), "float32")).to(device)
    mt.manual_seed(5)
    assert mt.dropout_(t, 0.5, True) is t
    np.testing.assert_array_equal(values(t), expected)


def test_native_dropout(device):
    t = mt.from_numpy(np.ones((20, 30), "float32")).to(device)
    got, mask = mt.native_dropout(t, 0.5, True)
    assert mask.dtype is mt.bool
    np.testing.assert_array_equal(values(got), values(mask) * 2.0)
    got, mask = mt.native_dropout(t, 0.5, False)
    assert values(mask).all() and (values(got) == 1).all()


def test_leaf_stays_a_leaf():
    t = mt.empty(3, device="meta", requires_grad=True)
    assert F.dropout(t, training=False) is t
    assert t.is_leaf and t.requires_grad
    assert not F.dropout(t).is_leaf


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
def test_bad_probability(p):
    t = mt.empty(3, 4, device="meta")
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        F.dropout(t, p)
    with pytest.raises(RuntimeError, match=r"\[0, 1\]"):
        mt.dropout(t, p, True)


def test_bad_shapes():
    with pytest.raises(RuntimeError, match="2 or 3 dimensions"):
        F.dropout1d(mt.empty(3, device="meta"))
    with pytest.raises(RuntimeError, match="at least 2"):
        F.dropout2d(mt.empty(3, device="meta"))


@pytest.mark.parametrize("name", ["dropout", "alpha_dropout", "feature_dropout"])
def test_outside_training_the_input_is_left_alone(name):
    """The result is the input itself, even if it is lazily negated or requires grad."""
    x = mt.ones(2, 3)
    y = x._neg_view()
    assert getattr(mt, name)(y, 0.5, False).tolist() == [[-1.0] * 3] * 2 and x.eq(1.0).all()
    leaf = mt.ones(2, 3, requires_grad=True)
    assert getattr(mt, name)(leaf, 0.5, False) is leaf and leaf.is_leaf
