"""Writing elements by index tensors and masks, compared with PyTorch; in-place, errors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metatensor as mt
from ops.against import agree, tensors_of
from ops.layouts import conform, dims, layouts


def index_of(*values, dtype="int64"):
    import torch

    return torch.tensor(values, dtype=getattr(torch, dtype))


def whole(seed, shape, dtype):
    import torch

    return torch.from_numpy(np.random.default_rng(seed).integers(1, 5, shape)).to(getattr(torch, dtype))


@pytest.mark.torch
@settings(max_examples=150)
@given(layouts(max_size=3), layouts(max_size=2), layouts(max_size=3), st.data())
def test_metadata(layout, index, source, data):
    d = data.draw(dims(len(layout[0])))
    arguments = (layout, "float32"), ((index[0], index[1]), "int64"), (source, "float32")
    conform(lambda lib, t, i, s: lib.scatter(t, d, i, s), *arguments)
    conform(lambda lib, t, i, s: lib.scatter_add(t, d, i, s), *arguments)
    conform(lambda lib, t, i, s: lib.scatter(t, d, i, 1), *arguments)
    conform(lambda lib, t, i, s: lib.index_fill(t, d, i, 1), *arguments)


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["float32", "int64", "float16", "float64"])
def test_scatter_values(dtype):
    t, src, index = whole(0, (3, 4), dtype), whole(1, (2, 4), dtype), index_of([0, 2, 1, 0], [2, 1, 0, 1])
    agree(lambda lib, t, i, s: lib.scatter(t, 0, i, s), t, index, src)
    agree(lambda lib, t, i, s: t.clone().scatter_(0, i, s), t, index, src)
    agree(lambda lib, t, i: lib.scatter(t, 0, i, 7), t, index)
    agree(lambda lib, t, i, s: t.scatter_add(0, i, s), t, index, src)
    agree(lambda lib, t, i, s: lib.scatter(t, 0, i, s, reduce="add"), t, index, src)
    agree(lambda lib, t, i: lib.scatter(t, 0, i, 3, reduce="multiply"), t, index)
    for reduce in ("sum", "prod", "mean", "amax", "amin"):
        for include_self in (True, False):
            agree(lambda lib, t, i, s: lib.scatter_reduce(t, 0, i, s, reduce, include_self=include_self), t, index, src)


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["float32", "int64", "bfloat16"])
def test_index_values(dtype):
    t, src, index = whole(0, (3, 4), dtype), whole(1, (2, 4), dtype), index_of(2, 0)
    agree(lambda lib, t, i, s: lib.index_copy(t, 0, i, s), t, index, src)
    agree(lambda lib, t, i, s: t.clone().t().index_copy_(1, i, s.t()), t, index, src)
    agree(lambda lib, t, i, s: lib.index_add(t, 0, i, s, alpha=2), t, index_of(1, 1), src)
    agree(lambda lib, t, i: lib.index_fill(t, 1, i, 9), t, index)
    agree(lambda lib, t, i, s: lib.index_fill(t, 0, i, s[0, 0]), t, index, src)
    for reduce in ("prod", "mean", "amax", "amin"):
        for include_self in (True, False):
            agree(lambda lib, t, i, s: lib.index_reduce(t, 0, i, s, reduce, include_self=include_self), t, index_of(1, 1), src)
    for accumulate in (True, False):
        agree(lambda lib, t, i, s: lib.clone(t).put_(i, s, accumulate), t, index_of(0, -1, 5), whole(2, (3,), dtype))
        agree(lambda lib, t, i, s: lib.index_put(t, (i,), s, accumulate), t, index, src)
        agree(lambda lib, t, i, s: t.clone().index_put_([i, i], s[0, :2], accumulate), t, index, src)


@pytest.mark.torch
def test_masked_scatter_and_mask_put():
    import torch

    t, src = tensors_of(0, (3, 4), (12,))
    mask = torch.tensor([[True, False, True, False]] * 3)
    agree(lambda lib, t, m, s: lib.masked_scatter(t, m, s), t, mask, src)
    agree(lambda lib, t, m, s: t.clone().masked_scatter_(m[0], s), t, mask, src)
    agree(lambda lib, t, m, s: lib.index_put(t, (m,), s[:6]), t, mask, src)
    agree(lambda lib, t, m, s: lib.index_put(t, (m,), s[0], accumulate=True), t, mask, src)


def test_in_place_on_views(device):
    t = mt.zeros(3, 4, device=device)
    index = mt.tensor([0, 2], device=device)
    assert t[1].index_fill_(0, index, 5).tolist() == [5, 0, 5, 0]
    assert t.t().index_add_(0, index, mt.ones(2, 3, device=device)).t().tolist() == t.tolist()
    assert t.tolist() == [[1, 0, 1, 0], [6, 0, 6, 0], [1, 0, 1, 0]]
    assert t.scatter_(0, mt.tensor([[0, 1, 2, 0]], device=device), -1.0) is t
    assert t.tolist() == [[-1, 0, 1, -1], [6, -1, 6, 0], [1, 0, -1, 0]]


def test_indices_out_of_bounds(device):
    t, index = mt.zeros(3, device=device), mt.tensor([3], device=device)
    one = mt.ones(1, device=device)
    for error, call in (
        (RuntimeError, lambda: t.scatter(0, index, one)),
        (RuntimeError, lambda: t.scatter(0, index - 4, 1)),
        (RuntimeError, lambda: t.scatter_add(0, index, one)),
        (RuntimeError, lambda: t.scatter_reduce(0, index, one, "sum")),
        (IndexError, lambda: t.index_add(0, index, one)),
        (IndexError, lambda: t.index_copy(0, -1 - index, one)),
        (IndexError, lambda: t.put(index, one)),
        (IndexError, lambda: t.index_put((index,), one)),
    ):
        with pytest.raises(error):
            call()
    with pytest.raises(RuntimeError, match="the mask has 3 true elements, but the source has only 1"):
        t.masked_scatter(mt.ones(3, dtype=mt.bool, device=device), one)
    with pytest.raises(RuntimeError, match="do not broadcast"):
        t.index_put_((mt.ones(3, dtype=mt.bool, device=device),), mt.zeros(2, device=device))


I = mt.zeros(2, dtype=mt.int64, device="meta")
S = mt.zeros(2, 3, device="meta")


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda t: t.scatter(0, I.reshape(1, 2), S.double()), RuntimeError, "must have the input's dtype, float32, not float64"),
        (lambda t: t.scatter(0, I, S), RuntimeError, "as many dimensions"),
        (lambda t: t.scatter(0, I.reshape(2, 1).expand(2, 3), S[:1]), RuntimeError, r"does not fit in the source of shape \[1, 3\]"),
        (lambda t: t.scatter(0, I.reshape(1, 2), 1, reduce="mean"), RuntimeError, "reduce must be one of add, multiply"),
        (lambda t: t.scatter_reduce(0, I.reshape(1, 2), S, "add"), RuntimeError, "reduce must be one of sum, prod, mean"),
        (lambda t: t.index_add(0, I, S[:1]), RuntimeError, "one slice in dimension 0 for each of the 2 indices"),
        (lambda t: t.index_copy(0, I, S[:, :2]), RuntimeError, r"\[2, 2\] must match the input of shape \[4, 3\]"),
        (lambda t: t.index_fill(0, I, S), RuntimeError, "a number or a 0-d tensor"),
        (lambda t: t.put(I, S), IndexError, "same number of elements, got 2 and 6"),
        (lambda t: t.masked_scatter(I, S), RuntimeError, "the mask must be bool, not int64"),
        (lambda t: t.index_put((I, I, I), S), IndexError, "too many indices"),
        (lambda t: t.index_put((I,), S[:, :2]), RuntimeError, r"do not broadcast to the indexed part, of shape \[2, 3\]"),
        (lambda t: t.index_put((I,), S.double()), RuntimeError, "must have the input's dtype"),
        (lambda t: t.index_put(I, S), TypeError, "must be tuple of Tensors, not Tensor"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call(mt.empty(4, 3, device="meta"))


def test_index_fill_and_scatter_refuse():
    with pytest.raises(RuntimeError):
        mt.ones(1, dtype=mt.bool).index_fill(0, mt.tensor([0]), 1j)
    with pytest.raises(IndexError):
        mt.ones(2, 3).scatter(0, mt.tensor([[0, 0]]), mt.ones(1))


def test_parts_of_expanded_tensors_are_written_with_a_warning():
    for write in (lambda x: x.index_fill_(0, mt.tensor([1], device="cpu"), 2.0),
                  lambda x: x.masked_fill_(mt.tensor([False, True, False], device="cpu"), 2.0)):
        x = mt.zeros(1, device="cpu").expand(3)
        with pytest.warns(UserWarning, match="expanded tensor"):
            write(x)
        assert x.tolist() == [2, 2, 2]
