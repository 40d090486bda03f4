"""Views of all elements with other shapes, compared with PyTorch; errors, gradients and modes."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import metatensor as mt
from ops.layouts import layouts
from ops.viewing import agree

SOME = settings(max_examples=200)


@st.composite
def factored(draw, layout):
    """Draw sizes with nearly or exactly the number of elements of a layout, sometimes with a -1."""
    total = 1
    for n in layout[0]:
        total *= n
    sizes = []
    rest = total
    for _ in range(draw(st.integers(0, 4))):
        n = draw(st.sampled_from([d for d in range(1, rest + 1) if rest % d == 0] or [0, 1, 2]))
        sizes.append(n)
        rest //= n or 1
    sizes.insert(draw(st.integers(0, len(sizes))), rest)
    if draw(st.integers(0, 3)) == 0:
        sizes[draw(st.integers(0, len(sizes) - 1))] = -1
    if draw(st.integers(0, 9)) == 0:
        sizes[0] += 1
    return tuple(sizes)


@pytest.mark.torch
@SOME
@given(layouts(), st.data())
def test_view_and_reshape(layout, data):
    sizes = data.draw(factored(layout))
    agree(lambda lib, t: t.view(sizes), layout)
    agree(lambda lib, t: lib.reshape(t, sizes), layout)
    agree(lambda lib, t: t.reshape(*sizes), layout)


@pytest.mark.torch
@SOME
@given(layouts(), st.integers(-5, 4), st.integers(-5, 4))
def test_flatten(layout, first, last):
    agree(lambda lib, t: lib.flatten(t, first, last), layout)
    agree(lambda lib, t: t.ravel(), layout)


@pytest.mark.torch
@SOME
@given(layouts(max_size=2), st.lists(st.integers(-5, 4), max_size=3))
def test_squeeze(layout, dims):
    agree(lambda lib, t: t.squeeze(), layout)
    agree(lambda lib, t: lib.squeeze(t, tuple(dims)), layout)
    for d in dims:
        agree(lambda lib, t: t.squeeze(d), layout)
        agree(lambda lib, t: t.unsqueeze(d), layout)


@pytest.mark.torch
@SOME
@given(layouts(max_size=2), st.lists(st.integers(-1, 3), max_size=5))
def test_expand(layout, sizes):
    assume(layout[0] or -1 not in sizes)  # PyTorch treats -1 as a size here
    agree(lambda lib, t: t.expand(sizes), layout)
    agree(lambda lib, t: lib.broadcast_to(t, sizes), layout)


@pytest.mark.torch
@SOME
@given(layouts(), st.integers(-5, 4), st.lists(st.integers(-1, 4), max_size=3))
def test_unflatten(layout, dim, sizes):
    agree(lambda lib, t: t.unflatten(dim, sizes), layout)


@pytest.mark.torch
@pytest.mark.parametrize("to", ["int8", "float16", "int32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("layout", [((4,), (1,)), ((3, 4), (4, 1)), ((3, 4), (8, 1)), ((4, 3), (1, 4)), ((), ()), ((0, 4), (4, 1))])
def test_view_as_another_dtype(to, layout):
    def call(lib, t):
        # The offset is divisible by every element size.
        shape, strides = layout
        whole = lib.zeros(64, dtype=lib.float32, device=t.device).as_strided(shape, strides, 4)
        return whole.view(getattr(lib, to)).shape, whole.view(getattr(lib, to)).stride(), whole.view(getattr(lib, to)).storage_offset()

    import torch

    def outcome(lib, device):
        try:
            return call(lib, lib.empty(0, device=device))
        except RuntimeError:
            return RuntimeError

    assert outcome(mt, "meta") == outcome(mt, "cpu") == outcome(torch, "cpu")


def test_as_other_tensor():
    t, other = mt.empty(2, 6, device="meta"), mt.empty(3, 4, device="meta")
    assert t.view_as(other).shape == t.reshape_as(other).shape == (3, 4)
    assert mt.empty(3, 1, device="meta").expand_as(other).stride() == (1, 0)


def test_a_reshape_that_needs_a_copy_owns_its_memory():
    t = mt.empty(2, 3, device="meta").t()
    flat = t.reshape(6)
    for flat in (t.reshape(6), t.flatten(), t.ravel(), t.reshape_as(mt.empty(6, device="meta"))):
        assert flat._base is None and not flat._is_view()
    assert flat.untyped_storage()._cdata != t.untyped_storage()._cdata
    with pytest.raises(RuntimeError, match=r"without a copy; use reshape\(\)"):
        t.view(6)


@pytest.mark.parametrize(
    "sizes, message",
    [
        ((5,), r"shape \[5\] is invalid for a tensor of shape \[2, 3\] with 6 elements"),
        ((-1, -1), "only one size can be -1"),
        ((-2, 3), "a size is negative"),
    ],
)
def test_errors_say_what_does_not_fit(sizes, message):
    with pytest.raises(RuntimeError, match=message):
        mt.empty(2, 3, device="meta").view(sizes)


def test_in_place_variants_change_the_object():
    t = mt.empty(2, 1, 3, device="meta")
    assert t.squeeze_(1) is t and t.shape == (2, 3)
    assert t.unsqueeze_(0) is t and t.shape == (1, 2, 3)


def test_bytes_seen_as_another_dtype_carry_no_gradient():
    t = mt.empty(2, 4, requires_grad=True, device="meta")
    for dtype in (mt.float32, mt.float64, mt.int32, mt.float16):
        view = t.view(dtype)
        assert view._base is t and not view.requires_grad and view.is_leaf


def test_views_of_what_requires_grad():
    t = mt.empty(2, 3, device="meta", requires_grad=True)
    view = t.view(6)
    assert view.requires_grad and not view.is_leaf and view._base is t
    with mt.no_grad():
        assert not t.view(6).requires_grad


def test_modes_see_the_parts_of_reshape():
    seen = []

    class Record(mt.DispatchMode):
        def dispatch(self, op, args, kwargs):
            seen.append(op.name)
            return op(*args, **kwargs)

    t = mt.empty(2, 3, device="meta")
    with Record():
        t.reshape(6)
        t.t().reshape(6)
    assert seen == ["view", "t", "clone", "view"]


def test_sizes_beyond_63_bits_are_refused():
    t = mt.empty(1, device="meta").expand(2**31, 2**31)
    with pytest.raises(RuntimeError):
        t.expand(2**31, 2**31, 2**31)


def test_the_shape_of_another_tensor_has_no_gradient():
    assert not mt.ones(1).expand_as(mt.ones(3, requires_grad=True)).requires_grad
    assert mt.ones(1, requires_grad=True).expand_as(mt.ones(3)).requires_grad
