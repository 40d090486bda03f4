"""Sizes and strides as values, compared with NumPy and, if installed, PyTorch."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metatensor._core import layout

sizes = st.lists(st.integers(0, 4), max_size=5)


@given(sizes)
def test_contiguous_strides_are_those_of_numpy(shape):
    numpy = pytest.importorskip("numpy")
    array = numpy.empty([max(s, 1) for s in shape], numpy.uint8)
    assert layout.contiguous_strides([max(s, 1) for s in shape]) == array.strides or 1 in shape or 0 in shape
    dense = layout.contiguous_strides(shape)
    expected = 1
    for size, stride in zip(reversed(shape), reversed(dense)):
        assert stride == expected
        expected *= max(size, 1)


@pytest.mark.slow
@given(st.lists(sizes, min_size=1, max_size=4))
def test_broadcast_agrees_with_numpy(shapes):
    numpy = pytest.importorskip("numpy")
    try:
        expected = numpy.broadcast_shapes(*shapes)
    except ValueError:
        with pytest.raises(RuntimeError, match="broadcast"):
            layout.broadcast_shapes(*shapes)
    else:
        assert layout.broadcast_shapes(*shapes) == expected


def _reaches(shape, strides):
    """Return the offset of every element in row-major order."""
    return [sum(i * s for i, s in zip(index, strides)) for index in itertools.product(*map(range, shape))]


@pytest.mark.slow
@given(st.permutations(range(4)), st.lists(st.integers(1, 3), min_size=4, max_size=4),
       st.lists(st.integers(1, 6), min_size=1, max_size=5))
def test_a_view_shows_the_same_elements(order, shape, new_shape):
    base = layout.contiguous_strides(shape)
    shape, strides = [shape[i] for i in order], [base[i] for i in order]
    total = 1
    for s in shape:
        total *= s
    product = 1
    for s in new_shape:
        product *= s
    if product != total:
        with pytest.raises(ValueError):
            layout.compute_view_strides(shape, strides, new_shape)
        return
    found = layout.compute_view_strides(shape, strides, new_shape)
    if found is not None:
        assert _reaches(new_shape, found) == _reaches(shape, strides)
    else:
        # No strides are possible: the offsets are not a grid of that shape.
        flat = _reaches(shape, strides)
        steps = []
        block = total
        for s in new_shape:
            block //= s
            steps.append(flat[block] - flat[0] if s > 1 else 0)
        assert _reaches(new_shape, steps) != flat


@given(st.permutations(range(4)), st.lists(st.integers(0, 3), min_size=4, max_size=4))
def test_permutations_of_dense_layouts_are_dense(order, shape):
    base = layout.contiguous_strides(shape)
    assert layout.is_non_overlapping_and_dense([shape[i] for i in order], [base[i] for i in order])


def test_gaps_and_overlaps_are_not_dense():
    assert not layout.is_non_overlapping_and_dense((2, 3), (4, 1))
    assert not layout.is_non_overlapping_and_dense((2, 3), (0, 1))


def test_broadcast_takes_ints_and_refuses_negative_sizes():
    assert layout.broadcast_shapes(3, (2, 1)) == (2, 3)
    assert layout.broadcast_shapes() == ()
    with pytest.raises(RuntimeError, match="negative"):
        layout.broadcast_shapes((-1,))


def test_too_many_dimensions_are_refused():
    with pytest.raises(RuntimeError, match="72"):
        layout.contiguous_strides([1] * 73)


def test_strides_beyond_63_bits_are_an_error():
    with pytest.raises(RuntimeError, match="63 bits"):
        layout.contiguous_strides([2**40, 2**40, 2**40])
