"""Reordered dimensions and complex views: views compared with PyTorch, errors."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metatensor as mt
from ops.layouts import dims, layouts
from ops.viewing import agree

SOME = settings(max_examples=200)


@pytest.mark.torch
@SOME
@given(layouts(), st.data())
def test_permute(layout, data):
    n = len(layout[0])
    order = data.draw(st.one_of(st.permutations(range(n)), st.lists(st.integers(-n - 1, n), max_size=n)))
    agree(lambda lib, t: t.permute(*order) if order else t.permute(()), layout)
    agree(lambda lib, t: lib.permute(t, dims=tuple(order)), layout)


@pytest.mark.torch
@SOME
@given(layouts(), st.data())
def test_transpose(layout, data):
    a, b = data.draw(dims(len(layout[0]))), data.draw(dims(len(layout[0])))
    agree(lambda lib, t: t.transpose(a, b), layout)
    agree(lambda lib, t: lib.swapaxes(t, axis0=a, axis1=b), layout)
    agree(lambda lib, t: lib.swapdims(t, dim0=a, dim1=b), layout)
    agree(lambda lib, t: lib.movedim(t, a, b), layout)
    agree(lambda lib, t: t.moveaxis((a, b), (b, a)), layout)


@pytest.mark.torch
@SOME
@given(layouts())
def test_properties(layout):
    for name in ("T", "mT", "mH", "H"):
        agree(lambda lib, t: getattr(t, name), layout)
    agree(lambda lib, t: t.t(), layout)
    agree(lambda lib, t: t.adjoint(), layout)


def test_in_place():
    t = mt.empty(2, 3, 4, device="meta")
    assert t.transpose_(0, 2) is t and t.shape == (4, 3, 2) and t.stride() == (1, 4, 12)
    assert t.swapaxes_(0, 1).shape == (3, 4, 2)
    m = mt.empty(2, 3, device="meta")
    assert m.t_() is m and m.shape == (3, 2)


@pytest.mark.torch
@pytest.mark.parametrize("name", ["real", "imag"])
def test_parts_are_views(name):
    import torch

    for lib, device in ((mt, "meta"), (torch, "cpu")):
        t = lib.zeros(2, 3, dtype=lib.complex64, device=device)
        part = getattr(t, name)
        assert part.dtype is lib.float32 and tuple(part.stride()) == (6, 2)
        assert part.storage_offset() == (name == "imag")
        assert getattr(lib, name)(t).shape == part.shape


def test_parts_of_values(device):
    z = mt.tensor([1 + 2j, 3 - 4j], device=device)
    assert z.real.tolist() == [1, 3] and z.imag.tolist() == [2, -4]
    assert z.conj().imag.tolist() == [-2, 4] and z.conj().imag.is_neg()
    assert z.conj().tolist() == [1 - 2j, 3 + 4j]
    assert z.conj().resolve_conj().tolist() == [1 - 2j, 3 + 4j]
    assert not z.conj().clone().is_conj() and z.conj().clone().tolist() == [1 - 2j, 3 + 4j]
    assert mt.view_as_real(z).tolist() == [[1, 2], [3, -4]]
    assert mt.view_as_complex(mt.view_as_real(z)).tolist() == z.tolist()
    z.real = mt.tensor([5.0, 6.0], device=device)
    assert z.tolist() == [5 + 2j, 6 - 4j]


def test_writing_to_conjugate_and_negative_views(device):
    z = mt.zeros(2, dtype=mt.complex64, device=device)
    z.conj().copy_(mt.tensor([1 + 2j, 3 - 4j], device=device))
    assert z.tolist() == [1 - 2j, 3 + 4j]
    x = mt.zeros(2, device=device)
    x._neg_view().copy_(mt.tensor([1.0, -2.0], device=device))
    assert x.tolist() == [-1, 2]


def test_real_tensors_conjugate_to_themselves():
    t = mt.empty(2, device="meta")
    assert t.conj() is t and t.real is t and t.resolve_conj() is t
    with pytest.raises(RuntimeError, match="a complex tensor is needed"):
        t.imag
    with pytest.raises(RuntimeError, match="a complex tensor is needed"):
        mt.view_as_real(t)
    with pytest.raises(RuntimeError, match="size 2 and stride 1"):
        mt.view_as_complex(mt.empty(2, 3, device="meta"))


@pytest.mark.torch
@given(layouts())
def test_resolved_views_have_the_strides_of_copies(layout):
    import torch

    shape, strides = layout
    for device in ("meta", "cpu"):
        results = []
        for m in (mt, torch):
            t = m.empty_strided(shape, strides, dtype=m.complex64, device=device).conj()
            results.append([tuple(r.stride()) for r in (t.resolve_conj(), t.imag.resolve_neg(), t.resolve_neg())])
        assert results[0] == results[1]


def test_values_of_resolved_views():
    t = mt.tensor([[1 + 2j, 3 - 1j]]).t().conj()
    assert t.resolve_conj().tolist() == [[1 - 2j], [3 + 1j]] and not t.resolve_conj().is_conj()
    assert t.imag.resolve_neg().tolist() == [[-2], [1]] and not t.imag.resolve_neg().is_neg()


def test_parts_of_complex_numbers_can_be_set(device):
    z = mt.ones(2, dtype=mt.complex64, device=device)
    z.real, z.imag = 0, mt.arange(2, device=device)
    assert z.tolist() == [0j, 1j]
    x = mt.ones(2, device=device)
    x.real = 3
    assert x.tolist() == [3.0, 3.0]
    with pytest.raises(RuntimeError):
        x.imag = 0
