"""Functions that change the shape or order of elements, compared with array-api-strict."""

import numpy as np
import pytest

pytest.importorskip("array_api_strict")
pytest.importorskip("metatensor_cpu")

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import metatensor as mt
from array_api.strict import ALL, INTEGERS, agree, arrays, ours, some_shapes
from metatensor import array_api as xp

SOME = settings(max_examples=40)
dtypes = st.sampled_from(ALL)


def axis_of(x):
    return st.integers(-x.ndim, x.ndim - 1)


def axes_of(x, unique=True):
    """Draw distinct axes, counted from either end."""
    places = st.lists(st.integers(0, x.ndim - 1), unique=unique, max_size=x.ndim) if x.ndim else st.just([])
    return places.flatmap(lambda ps: st.tuples(*(st.sampled_from([p, p - x.ndim]) for p in ps)))


@pytest.mark.slow
@SOME
@given(st.data())
def test_broadcasting(data):
    given = data.draw(npst.mutually_broadcastable_shapes(num_shapes=3, max_dims=3, min_side=0, max_side=3))
    tensors = [data.draw(arrays(data.draw(dtypes), shape)) for shape in given.input_shapes]
    got = ours("broadcast_arrays", *tensors)
    assert isinstance(got, list)
    for a, b in zip(got, np.broadcast_arrays(*tensors)):
        np.testing.assert_array_equal(a.numpy(), b)
    assert xp.broadcast_arrays() == []
    agree("broadcast_to", tensors[0], given.result_shape)


@pytest.mark.parametrize("shape", [(3,), (2, 3, 4), (-1, 3), ()])
def test_what_does_not_broadcast(shape):
    with pytest.raises(ValueError, match="does not broadcast"):
        xp.broadcast_to(xp.ones((2, 3)), shape)


@pytest.mark.slow
@SOME
@given(st.data())
def test_joining(data):
    shape = data.draw(some_shapes)
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    kind = data.draw(st.sampled_from([INTEGERS[:4], INTEGERS[4:], ["float32", "float64"], ["float32", "complex128"], ["bool"]]))
    joined, stacked = [], []
    for _ in range(data.draw(st.integers(1, 3))):
        own = list(shape)
        own[axis] = data.draw(st.integers(0, 3))
        joined.append(data.draw(arrays(data.draw(st.sampled_from(kind)), tuple(own))))
        stacked.append(data.draw(arrays(data.draw(st.sampled_from(kind)), shape)))
    agree("concat", joined, axis=axis)
    agree("concat", tuple(joined), axis=None)
    agree("stack", stacked, axis=data.draw(st.integers(-len(shape) - 1, len(shape))))
    agree("unstack", stacked[0], axis=axis)


@pytest.mark.slow
@SOME
@given(st.data())
def test_axes(data):
    x = data.draw(arrays(data.draw(dtypes)))
    axes = data.draw(axes_of(x))
    agree("expand_dims", x, data.draw(st.integers(-x.ndim - 1, x.ndim)))
    agree("flip", x, axis=data.draw(st.none() | st.just(axes) | (axis_of(x) if x.ndim else st.none())))
    agree("permute_dims", x, tuple(data.draw(st.permutations(range(x.ndim)))))
    to = data.draw(st.permutations(range(x.ndim)))[: len(axes)]
    agree("moveaxis", x, axes, tuple(to))
    if axes:
        agree("moveaxis", x, axes[0], to[0])


@pytest.mark.slow
@SOME
@given(st.data())
def test_squeeze(data):
    shape = data.draw(npst.array_shapes(min_dims=0, max_dims=4, min_side=1, max_side=2))
    x = data.draw(arrays(data.draw(dtypes), shape))
    axes = data.draw(axes_of(x))
    if any(x.shape[a] != 1 for a in axes):
        with pytest.raises(ValueError, match="is not 1"):
            ours("squeeze", x, axes)
        axes = tuple(a for a in axes if x.shape[a] == 1)
    agree("squeeze", x, axes)
    if axes:
        agree("squeeze", x, axis=axes[0])


@pytest.mark.slow
@SOME
@given(st.data())
def test_repeating(data):
    x = data.draw(arrays(data.draw(dtypes)))
    agree("tile", x, tuple(data.draw(st.lists(st.integers(0, 3), max_size=4))))
    axis = data.draw(st.none() | axis_of(x)) if x.ndim else None
    agree("repeat", x, data.draw(st.integers(0, 3)), axis=axis)
    n = x.size if axis is None else x.shape[axis]
    counts = data.draw(arrays("int64", st.sampled_from([(1,), (n,)]), low=0, high=3))
    assume(n or counts.shape == (0,))
    agree("repeat", x, counts, axis=axis, meta=False)


@pytest.mark.slow
@SOME
@given(st.data())
def test_reshape(data):
    x = data.draw(arrays(data.draw(dtypes)))
    if x.ndim > 1 and data.draw(st.booleans()):
        x = x.T
    shape = data.draw(st.sampled_from([(x.size,), (1, x.size), x.shape[::-1], (-1,), (-1, *x.shape[:1])]))
    assume(-1 not in shape or x.size)
    for copy in (None, True):
        agree("reshape", x, shape, copy=copy)
    tensor = mt.from_numpy(x)
    made = xp.reshape(tensor, shape)
    assert not x.size or xp.reshape(tensor, shape, copy=True).data_ptr() != tensor.data_ptr()
    if made.untyped_storage() is tensor.untyped_storage():
        assert xp.reshape(tensor, shape, copy=False).untyped_storage() is tensor.untyped_storage()
    else:
        with pytest.raises(ValueError, match="only by a copy"):
            xp.reshape(tensor, shape, copy=False)


@pytest.mark.slow
@SOME
@given(st.data())
def test_roll(data):
    x = data.draw(arrays(data.draw(dtypes)))
    agree("roll", x, data.draw(st.integers(-5, 5)))
    axes = data.draw(axes_of(x, unique=False))
    if axes:
        shift = data.draw(st.integers(-5, 5) | st.tuples(*[st.integers(-5, 5)] * len(axes)))
        agree("roll", x, shift, axis=axes)
        agree("roll", x, 2, axis=axes[0])


@pytest.mark.slow
@SOME
@given(st.data())
def test_taking(data):
    x = data.draw(arrays(data.draw(dtypes), some_shapes))
    axis = data.draw(axis_of(x))
    n = x.shape[axis]
    kind = data.draw(st.sampled_from(["int8", "int64", "uint8", "int32"]))
    places = {"low": 0 if kind == "uint8" else -n, "high": n - 1}
    indices = data.draw(arrays(kind, st.tuples(st.integers(0, 4)), **places))
    agree("take", x, indices, axis=axis)
    if x.ndim == 1:
        agree("take", x, indices)
    shape = list(x.shape)
    shape[axis] = data.draw(st.integers(0, 4))
    agree("take_along_axis", x, data.draw(arrays(kind, tuple(shape), **places)), axis=axis)
    one = [1] * x.ndim
    one[axis] = 2
    indices = data.draw(arrays("int64", tuple(one), **places))
    np.testing.assert_array_equal(ours("take_along_axis", x, indices, axis=axis).numpy(), np.take_along_axis(x, indices, axis))


def test_what_is_no_axis():
    x = xp.ones((2, 3), device="meta")
    for call in (lambda: xp.expand_dims(x, 3), lambda: xp.flip(x, axis=2), lambda: xp.unstack(x, axis=2), lambda: xp.squeeze(x, 2),
                 lambda: xp.stack([x, x], axis=3), lambda: xp.repeat(x, 2, axis=2), lambda: xp.roll(x, 1, axis=2)):
        with pytest.raises(IndexError):
            call()
    for call in (lambda: xp.take(x, xp.ones(2, dtype=xp.int64, device="meta")), lambda: xp.flip(x, axis=(0, 0)),
                 lambda: xp.take(x, x.to(mt.int64), axis=0), lambda: xp.concat([x, x[0]]), lambda: xp.roll(x, (1, 2), axis=0),
                 lambda: xp.take_along_axis(x, x[0].to(mt.int64))):
        with pytest.raises(ValueError):
            call()


def test_views_share_memory():
    x = mt.ones(2, 3, device="cpu")
    for view in (xp.expand_dims(x, 0), xp.permute_dims(x, (1, 0)), xp.broadcast_to(x, (4, 2, 3)), xp.unstack(x)[0], xp.moveaxis(x, 0, 1)):
        assert view.untyped_storage() is x.untyped_storage()
