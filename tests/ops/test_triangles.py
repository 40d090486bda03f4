"""Triangles, diagonals, searchsorted, and predicates of tensors, compared with PyTorch."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metatensor as mt
from metatensor._core.op import registry
from ops.against import agree, tensors_of
from ops.layouts import conform, dims, layouts
from ops.pairs import DTYPES

SOME = settings(max_examples=150)


@pytest.mark.torch
@SOME
@given(layouts(max_dims=4, max_size=3), st.integers(-4, 4), st.data())
def test_metadata(layout, offset, data):
    n = len(layout[0]) + 1
    d1, d2 = data.draw(dims(n)), data.draw(dims(n))
    conform(lambda lib, t: lib.tril(t, offset), (layout, "float32"))
    conform(lambda lib, t: t.triu(offset), (layout, "float32"))
    conform(lambda lib, t: lib.diag_embed(t, offset, d1, d2), (layout, "float32"))
    conform(lambda lib, t: lib.diag(t, offset), (layout, "float32"))
    conform(lambda lib, t: lib.diagflat(t, offset), (layout, "float32"))


@pytest.mark.torch
@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "bool"])
@pytest.mark.parametrize("offset", [-2, 0, 1])
def test_values(dtype, offset):
    import torch

    t = torch.arange(24).reshape(2, 3, 4).to(getattr(torch, dtype))
    agree(lambda lib, t: lib.tril(t, offset), t)
    agree(lambda lib, t: t.clone().triu_(offset), t)
    agree(lambda lib, t: lib.diag_embed(t, offset), t)
    agree(lambda lib, t: lib.diag_embed(t, offset, 0, -2), t)
    agree(lambda lib, t: lib.diag(t[0], offset), t)
    agree(lambda lib, t: lib.diagflat(t, offset), t[0])


@pytest.mark.torch
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("out_int32", [False, True])
def test_sorted_search(right, out_int32):
    rows, values = tensors_of(0, (3, 5), (3, 4))
    rows = rows.sort(dim=1).values
    rows[0, 1] = rows[0, 2] = values[0, 0]
    agree(lambda lib, s, v: lib.searchsorted(s, v, right=right, out_int32=out_int32), rows, values)
    agree(lambda lib, s, v: lib.searchsorted(s[0], v, right=right), rows, values)
    agree(lambda lib, s, v: lib.searchsorted(s[0], 0.5, side="right" if right else "left"), rows, values)
    agree(lambda lib, s, v: lib.bucketize(v, s[0], right=right, out_int32=out_int32), rows, values)
    agree(lambda lib, s, v: lib.bucketize(0.25, s[0], right=right), rows, values)
    agree(lambda lib, s, v: lib.searchsorted(s.flip(1), v, sorter=lib.arange(4, -1, -1, device=s.device).expand(3, 5)), rows, values)


@pytest.mark.parametrize("bad", [-1, 3])
def test_sorters_out_of_range(bad, device):
    rows = mt.arange(3.0, device=device)
    with pytest.raises(RuntimeError, match="searchsorted"):
        mt.searchsorted(rows, rows, sorter=mt.tensor([0, 1, bad], device=device))


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda t: mt.tril(t[0]), r"at least 2 dimensions are needed, got shape \[3\]"),
        (lambda t: mt.diag(t[None]), "a vector or a matrix is needed"),
        (lambda t: mt.diag_embed(t, 0, 1, 1), "the two dimensions must differ"),
        (lambda t: mt.searchsorted(t, t[:1]), r"\[1, 3\] must match the sequence of shape \[2, 3\]"),
        (lambda t: mt.searchsorted(t, 1.0), "a number can be searched only in a vector"),
        (lambda t: mt.searchsorted(t[0], t[0], right=True, side="left"), "contradicts"),
        (lambda t: mt.bucketize(t, t), r"the boundaries must be a vector, got shape \[2, 3\]"),
    ],
)
def test_errors(call, message):
    with pytest.raises(RuntimeError, match=message):
        call(mt.empty(2, 3, device="meta"))


def test_questions():
    t = mt.empty(2, 3, dtype=mt.complex64, device="meta")
    assert mt.numel(t) == 6 and mt.is_complex(t) and not mt.is_floating_point(t) and mt.is_signed(t)
    assert mt.is_conj(t.conj()) and not mt.is_conj(t) and not mt.is_neg(t) and mt.get_device(t) == -1
    assert not t.is_pinned() and not t.is_shared()
    assert mt.is_same_size(t, mt.empty(2, 3)) and not t.is_same_size(t.t())
    assert t.is_set_to(t.view(2, 3)) and not t.is_set_to(t.clone())
    assert t.t().dim_order() == (1, 0)
    assert mt.result_type(t, 1.0) is mt.complex64 and mt.result_type(mt.ones(2, dtype=mt.int8, device="meta"), 1) is mt.int8


@pytest.mark.torch
def test_fill_diagonal():
    (square, tall, cube) = tensors_of(0, (3, 3), (7, 2), (2, 2, 2))
    for t in (square, tall, cube, tall.t()):
        for wrap in (False, True):
            agree(lambda lib, t: t.clone().fill_diagonal_(9, wrap), t)
    with pytest.raises(RuntimeError, match="all sizes must be equal"):
        mt.empty(2, 2, 3, device="meta").fill_diagonal_(1)


def test_fill_diagonal_of_a_huge_matrix_takes_no_time():
    t = mt.empty(1, 3, device="meta").expand(2**50, 3)
    assert t.fill_diagonal_(1, wrap=True) is t


def test_parts_of_a_real_tensor_have_no_view():
    for part in ("_real", "_imag"):
        with pytest.raises(RuntimeError, match="complex"):
            registry[part](mt.empty(3, device="meta"))
