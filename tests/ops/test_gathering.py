"""Reading elements by index tensors and masks, compared with PyTorch; errors."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metatensor as mt
from ops.against import agree, tensors_of
from ops.layouts import conform, dims, layouts, shapes


def index_of(*values, dtype="int64"):
    import torch

    return torch.tensor(values, dtype=getattr(torch, dtype))


@pytest.mark.torch
@settings(max_examples=200)
@given(layouts(max_size=3), shapes(max_size=3), st.data(), st.sampled_from(["int64", "int64", "int32", "float32"]))
def test_metadata(layout, index, data, dtype):
    d = data.draw(dims(len(layout[0])))
    index = (index, tuple(range(len(index), 0, -1)))
    conform(lambda lib, t, i: lib.gather(t, d, i), (layout, "float32"), (index, dtype))
    conform(lambda lib, t, i: lib.index_select(t, d, i), (layout, "float32"), (index, dtype))


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_values(dtype):
    t, cube = tensors_of(0, (3, 4), (2, 3, 4), dtype=dtype)
    agree(lambda lib, t, i: lib.index_select(t, 1, i), t, index_of(3, 0, 0))
    agree(lambda lib, t, i: t.index_select(-2, i), t.t(), index_of(2, dtype="int32"))
    agree(lambda lib, t, i: lib.index_select(t.sum(), 0, i), t, index_of(0), tolerance=0.1)
    agree(lambda lib, t, i: lib.gather(t, 0, i), t, index_of([0, 2], [1, 0]))
    agree(lambda lib, t, i: t.gather(2, i), cube, index_of([[0, 3, 1]], [[2, 2, 0]]))
    agree(lambda lib, t, i: lib.take(t, i), t.t(), index_of([0, -1], [5, 3]))
    agree(lambda lib, t, i: lib.take_along_dim(t, i, 1), t, index_of([0, 1]).reshape(1, 2))
    agree(lambda lib, t, i: lib.take_along_dim(t, i), t, index_of(0, 11, 5))
    agree(lambda lib, t: lib.masked_select(t, t > 0) if t.device.type == "cpu" else t, t, values=dtype == "float32")


def test_positions(device):
    t = mt.tensor([[0, 3, 0], [4, 0, 5]], device=device)
    assert t.nonzero().tolist() == mt.argwhere(t).tolist() == [[0, 1], [1, 0], [1, 2]]
    assert [p.tolist() for p in t.nonzero(as_tuple=True)] == [[0, 1, 1], [1, 0, 2]]
    assert mt.nonzero(mt.tensor(2.0, device=device)).shape == (1, 0)
    assert mt.tensor(2.0, device=device).nonzero(as_tuple=True)[0].tolist() == [0]
    assert mt.nonzero_static(t, size=2).tolist() == [[0, 1], [1, 0]]
    assert mt.nonzero_static(t, size=4, fill_value=-7).tolist() == [[0, 1], [1, 0], [1, 2], [-7, -7]]
    assert t.masked_select(t > 3).tolist() == [4, 5]
    assert t.half().masked_select(t > 3).dtype is mt.float16
    assert mt.zeros(0, 2, device=device).nonzero().shape == (0, 2)


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t.nonzero(),
        lambda t: t.nonzero(as_tuple=True),
        lambda t: mt.argwhere(t),
        lambda t: t.masked_select(t > 0),
        lambda t: t[t > 0],
    ],
)
def test_without_data_the_shape_is_unknown(call):
    with pytest.raises(mt.DataDependentError, match="no data"):
        call(mt.ones(2, 3, device="meta"))


def test_nonzero_static_without_data():
    assert mt.nonzero_static(mt.ones(2, 3, device="meta"), size=4).shape == (4, 2)


@pytest.mark.torch
def test_unravel_index():
    agree(lambda lib, i: lib.unravel_index(i, (3, 4)), index_of([0, 11], [5, 6]))
    agree(lambda lib, i: lib.unravel_index(i, 12), index_of(0, 11))
    with pytest.raises(ValueError, match="out of bounds for the shape"):
        mt.unravel_index(mt.tensor([12]), (3, 4))
    with pytest.raises(TypeError, match="must be integers"):
        mt.unravel_index(mt.empty(2, device="meta"), (3, 4))


def test_out(device):
    t, i = mt.arange(6.0, device=device).reshape(2, 3), mt.tensor([1], device=device)
    out = mt.empty(0, device=device)
    assert mt.index_select(t, 0, i, out=out) is out and out.tolist() == [[3, 4, 5]]
    with pytest.raises(RuntimeError, match="shares memory"):
        mt.take(t, i, out=t[0, :1])
    with pytest.raises(RuntimeError):
        mt.gather(t, 0, i.reshape(1, 1), out=mt.empty(1, 1, dtype=mt.float64, device=device))


I = mt.zeros(2, dtype=mt.int64, device="meta")


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda t: t.index_select(0, I.reshape(1, 2)), IndexError, r"the index must be a vector, got shape \[1, 2\]"),
        (lambda t: t.index_select(0, I.float()), RuntimeError, "must be int64 or int32, not float32"),
        (lambda t: t.gather(0, I), RuntimeError, r"got shapes \[2\] and \[2, 3\]"),
        (lambda t: t.gather(0, mt.zeros(2, 4, dtype=mt.int64, device="meta")), RuntimeError, r"\[2, 4\] does not fit in shape \[2, 3\]"),
        (lambda t: t.take(I.int()), RuntimeError, "must be int64, not int32"),
        (lambda t: mt.empty(0, device="meta").take(I), IndexError, "no elements to take"),
        (lambda t: mt.take_along_dim(t, I, 0), RuntimeError, "as many dimensions"),
        (lambda t: t.masked_select(t), RuntimeError, "the mask must be bool, not float32"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call(mt.empty(2, 3, device="meta"))


def test_indices_out_of_bounds(device):
    t, i = mt.zeros(2, 3, device=device), mt.tensor([5], device=device)
    for error, call in (
        (IndexError, lambda: t.index_select(0, i)),
        (IndexError, lambda: t.index_select(0, i - 6)),
        (IndexError, lambda: t[i]),
        (IndexError, lambda: t.take(mt.tensor([6], device=device))),
        (RuntimeError, lambda: t.gather(1, i.reshape(1, 1))),
        (RuntimeError, lambda: t.gather(1, i.reshape(1, 1) - 6)),
        (RuntimeError, lambda: mt.take_along_dim(t, i + 1)),
    ):
        with pytest.raises(error):
            call()


def test_take_along_a_dimension_wraps_around(device):
    t = mt.arange(4, device=device)
    assert mt.take_along_dim(t, mt.tensor([-1, 4, 9, -9], device=device), 0).tolist() == [3, 0, 1, 3]
    assert mt.take_along_dim(t[:0], t[:0], 0).tolist() == []


def test_an_index_on_cpu_goes_with_a_table_on_meta():
    table, index = mt.empty(5, 3, device="meta"), mt.tensor([0, 1], device="cpu")
    assert mt.nn.functional.embedding(index, table).is_meta
    assert table.index_select(0, index).is_meta
    assert mt.gather(table, 0, mt.zeros(2, 3, dtype=mt.int64, device="cpu")).is_meta
    for bad in (lambda: mt.nn.functional.embedding(index.to("meta"), mt.empty(5, 3, device="cpu")),
                lambda: mt.empty(5, 3, device="cpu").index_select(0, index.to("meta"))):  # fmt: skip
        with pytest.raises(RuntimeError, match="same device"):
            bad()


@pytest.mark.parametrize("shape", [2.0, (2, 2.0), mt.empty(3, device="meta"), [mt.empty((), device="meta")]])
def test_unravel_index_takes_a_shape_of_integers(shape):
    with pytest.raises(TypeError, match="the shape must be|sizes in the shape"):
        mt.unravel_index(mt.empty(1, dtype=mt.int64, device="meta"), shape)
