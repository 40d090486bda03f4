"""Copies of views, copies with a part replaced, and resizing, compared with PyTorch; aliasing, errors."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metatensor as mt
from ops.against import agree, tensors_of
from ops.layouts import conform, dims, layouts

SOME = settings(max_examples=100)
COPIES = [
    ("alias_copy", ()), ("detach_copy", ()), ("as_strided_copy", ((2, 2), (1, 2))), ("diagonal_copy", (1,)),
    ("expand_copy", ((2, 3, 4),)), ("permute_copy", ((1, 0),)), ("select_copy", (1, -1)), ("squeeze_copy", ()),
    ("squeeze_copy", (0,)), ("t_copy", ()), ("transpose_copy", (0, 1)), ("unfold_copy", (1, 2, 1)), ("unsqueeze_copy", (1,)),
    ("view_copy", ((12,),)), ("narrow_copy", (1, 1, 2)), ("split_with_sizes_copy", ([1, 3], 1)), ("unbind_copy", (0,)),
]  # fmt: skip


@pytest.mark.torch
@pytest.mark.parametrize("name, args", COPIES)
def test_copies(name, args):
    agree(lambda lib, t: getattr(lib, name)(t, *args), *tensors_of(0, (3, 4)))


@pytest.mark.parametrize("name, args", COPIES)
def test_copies_own_their_memory(name, args):
    t = mt.empty(3, 4, device="meta")
    made = getattr(mt, name)(t, *args)
    for item in made if isinstance(made, tuple) else (made,):
        assert item.untyped_storage()._cdata != t.untyped_storage()._cdata and item.is_contiguous()


def test_copies_into_out(device):
    t = mt.arange(6, device=device).reshape(2, 3)
    out = mt.empty(0, dtype=mt.int64, device=device)
    assert mt.permute_copy(t, (1, 0), out=out) is out and out.tolist() == [[0, 3], [1, 4], [2, 5]]
    outs = [mt.empty(3, dtype=mt.int64, device=device) for _ in range(2)]
    assert mt.unbind_copy(t, out=outs) is None and outs[1].tolist() == [3, 4, 5]
    with pytest.raises(RuntimeError, match="a list of 2 tensors"):
        mt.unbind_copy(t, out=outs[:1])


@pytest.mark.torch
@SOME
@given(layouts(), st.data(), st.integers(-4, 4), st.integers(-4, 4))
def test_scatters_on_meta(layout, data, a, b):
    d, e = data.draw(dims(len(layout[0]))), data.draw(dims(len(layout[0])))

    def part(lib, t):
        return lib.zeros_like(lib.select_copy(t, d, a))

    conform(lambda lib, t: lib.select_scatter(t, part(lib, t), d, a), (layout, "float32"))
    conform(lambda lib, t: lib.slice_scatter(t, t.narrow(d, 0, 1), d, 0, 1), (layout, "float32"))
    conform(lambda lib, t: lib.diagonal_scatter(t, lib.diagonal_copy(t, a, d, e), a, d, e), (layout, "float32"))


@pytest.mark.torch
def test_scatter_values():
    t, row, diagonal = tensors_of(0, (3, 4), (4,), (3,))
    agree(lambda lib, t, r: lib.select_scatter(t, r, 0, 1), t, row)
    agree(lambda lib, t, r: t.slice_scatter(r.reshape(1, 4), 0, 2), t, row)
    agree(lambda lib, t, d: lib.diagonal_scatter(t, d), t, diagonal)
    agree(lambda lib, t, d: lib.as_strided_scatter(t, d, (3,), (2,), 1), t, diagonal)
    agree(lambda lib, t, d: lib.select_scatter(t, d, 0, 1), t, diagonal)


@pytest.mark.torch
@SOME
@given(layouts(max_size=3), st.lists(st.integers(0, 3), max_size=4))
def test_resize(layout, sizes):
    conform(lambda lib, t: lib.clone(t).resize_(sizes), (layout, "float32"))
    conform(lambda lib, t: lib.clone(t).resize_(*sizes) if sizes else t, (layout, "float32"))


def test_resize_keeps_what_fits(device):
    t = mt.arange(4, device=device)
    assert t.resize_(2, 3) is t and t.flatten().tolist()[:4] == [0, 1, 2, 3]
    assert t.untyped_storage().nbytes() == 48
    assert t.resize_(2).tolist() == [0, 1] and t.untyped_storage().nbytes() == 48
    template = mt.empty(2, 2, 2, 2, device=device).to(memory_format=mt.channels_last)
    assert t.resize_as_(template, memory_format=mt.preserve_format).stride() == template.stride()
    with pytest.raises(RuntimeError, match="that requires gradients cannot be resized"):
        mt.zeros(2, device=device, requires_grad=True).resize_(3)


def test_set(device):
    source = mt.arange(6, dtype=mt.float32, device=device)
    t = mt.empty(0, device=device)
    assert t.set_(source) is t and t.tolist() == source.tolist()
    assert t.untyped_storage()._cdata == source.untyped_storage()._cdata
    assert t.set_(source.untyped_storage(), 1, (2, 2), (1, 2)).tolist() == [[1, 3], [2, 4]]
    assert t.set_(source.untyped_storage()).shape == (6,)
    assert t.set_().shape == (0,)
    with pytest.raises(RuntimeError, match="source and tensor must have the same dtype, got int64 and float32"):
        t.set_(source.long())
    assert t.set_(source.untyped_storage(), 0, (7,), (1,)).tolist()[:6] == source.tolist()  # the storage grows
    assert source.untyped_storage().nbytes() == 28
    with pytest.raises(TypeError, match="must be Tensor or storage, not int"):
        t.set_(3)


def test_an_override_that_declines():
    class Liar(mt.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    with pytest.raises(TypeError, match="squeeze_copy.*returned NotImplemented"):
        mt.squeeze_copy(mt.Tensor._make_subclass(Liar, mt.empty(2, device="meta")))


@pytest.mark.parametrize("place", ["meta", "cpu"])
def test_gradients_reach_a_copy_through_the_part_that_is_replaced(place):
    t, src = mt.ones(2, 2, device=place), mt.ones(2, device=place, requires_grad=True)
    assert mt.diagonal_scatter(t, src).requires_grad and mt.select_scatter(t, src, 0, 0).requires_grad
    assert mt.as_strided_scatter(t, src, (2,), (1,)).requires_grad and not t.requires_grad
    part = mt.ones(2, 2, device=place)
    part[0].copy_(src)
    assert part.requires_grad


def test_the_offset_of_a_part_counts_in_the_storage(device):
    t = mt.arange(10.0, device=device)[2:]
    found = mt.as_strided_scatter(t, mt.full((2,), -1.0, device=device), (2,), (1,), 4)
    assert found.tolist() == [2.0, 3.0, -1.0, -1.0, 6.0, 7.0, 8.0, 9.0] and found.storage_offset() == 2


def test_view_copy_of_what_has_no_view():
    x = mt.ones(5, 1, 5).expand(5, 5, 5)
    assert mt.view_copy(x, (25, 5)).stride() == (5, 1)
    assert mt.view_copy(x, mt.int32).dtype is mt.int32
