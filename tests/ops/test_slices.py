"""Views of a part of a tensor, compared with PyTorch; errors."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metatensor as mt
from ops.layouts import dims, layouts
from ops.viewing import agree

SOME = settings(max_examples=200)
SMALL = st.integers(-6, 6)


@pytest.mark.torch
@SOME
@given(layouts(), st.data(), SMALL, SMALL)
def test_select_and_narrow(layout, data, start, length):
    d = data.draw(dims(len(layout[0])))
    agree(lambda lib, t: t.select(d, start), layout)
    agree(lambda lib, t: lib.narrow(t, d, start, length), layout)


@pytest.mark.torch
@SOME
@given(layouts(), st.data(), SMALL, SMALL)
def test_diagonal_and_unfold(layout, data, a, b):
    d1, d2 = data.draw(dims(len(layout[0]))), data.draw(dims(len(layout[0])))
    agree(lambda lib, t: t.diagonal(a, d1, d2), layout)
    agree(lambda lib, t: t.unfold(d1, a, b), layout)


@pytest.mark.torch
@SOME
@given(layouts(max_dims=2), layouts(max_dims=3, max_size=3), st.integers(-1, 4))
def test_as_strided(layout, other, offset):
    agree(lambda lib, t: lib.as_strided(t, *other), layout)
    agree(lambda lib, t: t.as_strided(*other, offset), layout)


@pytest.mark.torch
@SOME
@given(layouts(max_size=6), st.data(), st.integers(-1, 7), st.lists(st.integers(-2, 5), max_size=4))
def test_splits(layout, data, n, sizes):
    d = data.draw(dims(len(layout[0])))
    agree(lambda lib, t: t.split(n, d), layout)
    agree(lambda lib, t: lib.split(t, sizes, dim=d), layout)
    agree(lambda lib, t: lib.split_with_sizes(t, sizes, d), layout)
    agree(lambda lib, t: t.chunk(n, d), layout)
    agree(lambda lib, t: lib.tensor_split(t, n, d), layout)
    agree(lambda lib, t: t.tensor_split(tuple(sizes), d), layout)
    agree(lambda lib, t: t.unbind(d), layout)
    for name in ("hsplit", "vsplit", "dsplit"):
        agree(lambda lib, t: getattr(lib, name)(t, n), layout)
        agree(lambda lib, t: getattr(t, name)(sizes), layout)


def test_results_are_tuples():
    t = mt.empty(4, 4, device="meta")
    for result in (t.split(2), t.chunk(2), t.unbind(), t.tensor_split(2), mt.hsplit(t, 2)):
        assert type(result) is tuple
    assert [row.shape for row in t] == [(4,)] * 4


def test_positions_in_tensors(device):
    t = mt.arange(6, device=device)
    assert t.narrow(0, mt.tensor(2, device=device), 2).tolist() == [2, 3]
    assert [p.tolist() for p in t.tensor_split(mt.tensor([1, 4], device=device))] == [[0], [1, 2, 3], [4, 5]]
    with pytest.raises(RuntimeError, match="narrow.*meta"):
        t.narrow(0, mt.tensor(2, device="meta"), 2)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda t: t.select(0, 5), IndexError, r"select\(\): index 5 is out of range for dimension 0 of shape \[2, 3\]"),
        (lambda t: t.select(2, 0), IndexError, "dimension 2 is out of range"),
        (lambda t: t.narrow(1, 2, 2), RuntimeError, "start 2 and length 2 exceed dimension 1"),
        (lambda t: t.diagonal(0, 0, -2), RuntimeError, "the two dimensions must differ"),
        (lambda t: t.as_strided((5,), (2,)), RuntimeError, "the layout needs 36 bytes, but the storage has 24"),
        (lambda t: t.split([1, 1], 1), RuntimeError, "add up to 2, not to the size of dimension 1, 3"),
    ],
)
def test_errors_name_the_shapes(call, error, message):
    with pytest.raises(error, match=message):
        call(mt.empty(2, 3, device="meta"))


def test_tensor_split_at_the_indices_in_a_tensor():
    x = mt.arange(4)
    assert [t.tolist() for t in x.tensor_split(mt.tensor([1]))] == [[0], [1, 2, 3]]
    assert [t.tolist() for t in mt.tensor_split(x, mt.tensor(2))] == [[0, 1], [2, 3]]
    for index in (mt.tensor([1.0]), mt.tensor([1 + 0j]), mt.tensor([[1]]), mt.tensor([1], dtype=mt.int32), mt.tensor(True)):
        with pytest.raises(RuntimeError):
            mt.tensor_split(x, index)
    with pytest.raises(IndexError):
        mt.slice_copy(mt.ones(()))
