"""Embedding, embedding bags and one-hot vectors: values and metadata compared with PyTorch, definitions, errors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metatensor as mt
from ops.against import agree, tensors_of
from ops.pairs import values

F = mt.nn.functional


def indices(seed, shape, high):
    import torch

    return torch.from_numpy(np.random.default_rng(seed).integers(0, high, shape))


@pytest.mark.torch
@given(st.lists(st.integers(0, 4), max_size=3), st.integers(1, 5), st.integers(0, 4), st.sampled_from([None, 0, -1, 9]))
@settings(max_examples=80)
def test_embedding(shape, rows, width, padding):
    arguments = indices(0, shape, rows), *tensors_of(0, (rows, width))
    agree(lambda lib, i, w: lib.nn.functional.embedding(i, w, padding_idx=padding), *arguments)
    agree(lambda lib, i, w: lib.nn.functional.embedding(i.int(), w), *arguments)


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "int8", "bool"])
def test_dtypes(dtype):
    (weight,) = tensors_of(0, (6, 3), dtype=dtype)
    agree(lambda lib, i, w: lib.nn.functional.embedding(i, w), indices(1, (2, 4), 6), weight)
    agree(lambda lib, i, w: lib.embedding(w, i), indices(1, (2, 4), 6), weight)


@pytest.mark.torch
def test_max_norm():
    import torch

    (weight,) = tensors_of(0, (6, 3))
    i = indices(0, (4,), 6)
    ours, theirs = mt.from_numpy(weight.numpy().copy()), weight.clone()
    mine = F.embedding(mt.from_numpy(i.numpy()), ours, max_norm=0.5, norm_type=1.0)
    np.testing.assert_allclose(mine.numpy(), torch.nn.functional.embedding(i, theirs, max_norm=0.5, norm_type=1.0).numpy(), rtol=1e-5)
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-5)


@pytest.mark.torch
@given(st.sampled_from(["sum", "mean", "max"]), st.booleans(), st.booleans(), st.sampled_from([None, 0, -1]), st.integers(0, 5))
@settings(max_examples=80)
def test_bags(mode, rows, last, padding, seed):
    (weight,) = tensors_of(seed, (6, 3))
    options = {"mode": mode, "padding_idx": padding}
    if rows:
        agree(lambda lib, i, w: lib.nn.functional.embedding_bag(i, w, **options), indices(seed, (4, 5), 6), weight, tolerance=1e-5)
        return
    import torch

    offsets = torch.tensor([0, 2, 2, 7] + [9] * last)
    options["include_last_offset"] = last
    agree(lambda lib, i, w, o: lib.nn.functional.embedding_bag(i, w, o, **options), indices(seed, (9,), 6), weight, offsets,
          tolerance=1e-5)  # fmt: skip


@pytest.mark.torch
def test_weighted_bags():
    weight, samples = tensors_of(0, (6, 3), (4, 5))
    call = lambda lib, i, w, s: lib.nn.functional.embedding_bag(i, w, mode="sum", per_sample_weights=s)
    agree(call, indices(0, (4, 5), 6), weight, samples, tolerance=1e-5)
    agree(lambda lib, i, w, s: lib.nn.functional.embedding_bag(i, w, per_sample_weights=s), indices(0, (4, 5), 6), weight, samples)


@pytest.mark.torch
@given(st.lists(st.integers(0, 3), max_size=3), st.integers(-2, 5))
def test_one_hot(shape, classes):
    if classes == -1:
        return
    agree(lambda lib, i: lib.nn.functional.one_hot(i, classes), indices(0, shape, max(classes, 1)))


def test_definition(device):
    table = np.random.default_rng(0).standard_normal((5, 3)).astype("float32")
    index = np.array([[4, 0], [2, 2]])
    got = F.embedding(mt.from_numpy(index).to(device), mt.from_numpy(table).to(device))
    np.testing.assert_array_equal(values(got), table[index])
    np.testing.assert_array_equal(values(F.one_hot(mt.from_numpy(index).to(device), 5)), np.eye(5)[index])


def test_one_hot_of_the_largest(device):
    index = mt.from_numpy(np.array([1, 3])).to(device)
    assert F.one_hot(index).shape == (2, 4)
    with pytest.raises(mt.DataDependentError, match="one_hot"):
        F.one_hot(mt.empty(2, dtype=mt.int64, device="meta"))


def test_values_out_of_range(device):
    table = mt.from_numpy(np.zeros((5, 3), "float32")).to(device)
    for bad in (5, -1):
        with pytest.raises(IndexError, match=r"\[0, 5\)"):
            F.embedding(mt.from_numpy(np.array([0, bad])).to(device), table)
        with pytest.raises(RuntimeError, match=r"\[0, 5\)"):
            F.embedding_bag(mt.from_numpy(np.array([[0, bad]])).to(device), table)
    with pytest.raises(RuntimeError, match=r"\[0, 2\)"):
        F.one_hot(mt.from_numpy(np.array([0, 2])).to(device), 2)


@pytest.mark.parametrize(
    "index, weight, options, error, message",
    [
        (mt.int16, (5, 3), {}, RuntimeError, "int64 or int32"),
        (mt.int64, (5,), {}, RuntimeError, r"2 dimensions, got shape \[5\]"),
        (mt.int64, (5, 3), {"padding_idx": 5}, AssertionError, "5 rows"),
        (mt.int64, (0, 3), {}, RuntimeError, "no rows"),
        (mt.int64, (5, 3), {"max_norm": "1"}, TypeError, "max_norm"),
    ],
)
def test_bad_arguments(index, weight, options, error, message):
    with pytest.raises(error, match=message):
        F.embedding(mt.empty(2, 2, dtype=index, device="meta"), mt.empty(weight, device="meta"), **options)


def test_bad_bags():
    index, weight = mt.empty(6, dtype=mt.int64, device="meta"), mt.empty(5, 3, device="meta")
    with pytest.raises(ValueError, match="offsets"):
        F.embedding_bag(index, weight)
    with pytest.raises(ValueError, match="'sum', 'mean' or 'max'"):
        F.embedding_bag(index.view(2, 3), weight, mode="min")
    for options in ({"scale_grad_by_freq": True}, {"sparse": True}):
        with pytest.raises(ValueError, match="mode='max'"):
            F.embedding_bag(index.view(2, 3), weight, mode="max", **options)
    with pytest.raises(ValueError, match="input's shape"):
        F.embedding_bag(index.view(2, 3), weight, mode="max", per_sample_weights=mt.empty(6, device="meta"))
    with pytest.raises(ValueError, match="input's shape"):
        F.embedding_bag(index.view(2, 3), weight, mode="sum", per_sample_weights=mt.empty(6, device="meta"))


def test_embedding_bag_promotes_indices_and_offsets():
    weight, index, offsets = mt.ones(5, 3), mt.tensor([0, 1, 2]), mt.tensor([0, 2])
    bag = mt.nn.functional.embedding_bag
    for dtype in (mt.uint8, mt.int16, mt.bool):
        assert bag(index.to(dtype), weight, offsets).tolist() == [[1.0] * 3] * 2
    assert bag(index, weight, offsets.to(mt.uint8), max_norm=1.0).shape == (2, 3)
    with pytest.raises(RuntimeError):
        bag(index.to(mt.uint8), weight, offsets.to(mt.uint8))
