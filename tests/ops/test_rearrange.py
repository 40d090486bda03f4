"""Repeating and reordering elements: metadata compared with PyTorch, values on every device, errors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metatensor as mt
from ops.arrays import numbers
from ops.layouts import conform, dims, layouts
from ops.pairs import pair, same

SOME = settings(max_examples=100)
DTYPES = ("bool", "uint8", "int16", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128")


def agree(call, array, dtype=None, device="cpu"):
    """Check that ``call(module, tensor)`` has PyTorch's values, or raises if PyTorch raises."""
    import torch

    ours, theirs = pair(array, dtype, device)
    try:
        expected = call(torch, theirs)
    except (RuntimeError, IndexError):
        with pytest.raises((RuntimeError, IndexError)):
            call(mt, ours)
        return
    same(call(mt, ours), expected, 0)


# Metadata -------------------------------------------------------------------------------------


@pytest.mark.torch
@SOME
@given(layouts(), st.lists(st.integers(-1, 3), max_size=5))
def test_repeat_and_tile(layout, times):
    conform(lambda lib, t: t.repeat(times), (layout, "float32"))
    conform(lambda lib, t: lib.tile(t, tuple(times)), (layout, "float16"))


@pytest.mark.torch
@SOME
@given(st.data(), layouts(), st.integers(-1, 3), st.sampled_from([None, 0, 4]))
def test_repeat_interleave(data, layout, times, length):
    d = data.draw(st.none() | dims(len(layout[0])))
    conform(lambda lib, t: lib.repeat_interleave(t, times, d), (layout, "float32"))
    conform(lambda lib, t: t.repeat_interleave(times, dim=d, output_size=length), (layout, "int64"))


@pytest.mark.torch
@SOME
@given(st.data(), layouts())
def test_roll(data, layout):
    along = data.draw(st.lists(dims(len(layout[0])), max_size=3))
    shifts = data.draw(st.lists(st.integers(-9, 9), max_size=3))
    conform(lambda lib, t: lib.roll(t, shifts, along), (layout, "float32"))
    conform(lambda lib, t: t.roll(3), (layout, "float32"))


@pytest.mark.torch
@SOME
@given(st.data(), layouts())
def test_flips(data, layout):
    along = data.draw(st.lists(dims(len(layout[0])), max_size=3))
    conform(lambda lib, t: lib.flip(t, along), (layout, "float32"))
    conform(lambda lib, t: t.fliplr(), (layout, "bool"))
    conform(lambda lib, t: lib.flipud(t), (layout, "complex64"))


@pytest.mark.torch
@SOME
@given(st.data(), layouts(max_dims=3), st.integers(-5, 5))
def test_rot90(data, layout, turns):
    plane = data.draw(st.lists(dims(len(layout[0])), min_size=1, max_size=3))
    conform(lambda lib, t: lib.rot90(t, turns, plane), (layout, "float32"))


@pytest.mark.torch
@SOME
@given(layouts(max_dims=2, max_size=6), st.integers(-1, 4), st.booleans())
def test_combinations(layout, r, again):
    conform(lambda lib, t: lib.combinations(t, r, again), (layout, "float32"))


# Values -----------------------------------------------------------------------------------------


CALLS = {
    "repeat": lambda lib, t: t.repeat(2, 1, 3),
    "repeat, new dimensions": lambda lib, t: t.repeat(2, 1, 1, 1, 2),
    "repeat, never": lambda lib, t: t.repeat(1, 0, 2),
    "tile": lambda lib, t: lib.tile(t, (2,)),
    "interleave": lambda lib, t: lib.repeat_interleave(t, 3),
    "interleave, dim": lambda lib, t: t.repeat_interleave(2, -2),
    "interleave, never": lambda lib, t: t.repeat_interleave(0, 1),
    "interleave, tensor": lambda lib, t: t.repeat_interleave(lib.tensor([2, 0, 3, 1]).to(t.device), 2),
    "interleave, one": lambda lib, t: t.repeat_interleave(lib.tensor([2]).to(t.device), 0),
    "interleave, 0-d": lambda lib, t: t.repeat_interleave(lib.tensor(2, dtype=lib.int32).to(t.device)),
    "roll": lambda lib, t: lib.roll(t, 5),
    "roll, dim": lambda lib, t: t.roll(-1, 1),
    "roll, dims": lambda lib, t: lib.roll(t, (1, -7, 4), (0, 2, 0)),
    "flip": lambda lib, t: lib.flip(t, (0, -1)),
    "flip, none": lambda lib, t: lib.flip(t, ()),
    "fliplr": lambda lib, t: lib.fliplr(t),
    "flipud": lambda lib, t: t.flipud(),
    "rot90": lambda lib, t: lib.rot90(t),
    "rot90, back": lambda lib, t: t.rot90(-1, (1, 2)),
    "rot90, twice": lambda lib, t: t.rot90(2, (2, 0)),
    "combinations": lambda lib, t: lib.combinations(t[0, :, 1]),
    "combinations, 3": lambda lib, t: lib.combinations(t.flatten()[:5], 3),
    "combinations again": lambda lib, t: lib.combinations(t[1, 1], 2, True),
    "combinations of none": lambda lib, t: lib.combinations(t[0, 0], 0),
    "combinations of too few": lambda lib, t: lib.combinations(t[:, 0, 0], 3),
}


@pytest.mark.torch
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CALLS)
def test_values(name, dtype, device):
    agree(CALLS[name], numbers(dtype, (2, 3, 4)), dtype, device)


@pytest.mark.torch
@pytest.mark.parametrize("name", [n for n in CALLS if "combinations" not in n])
def test_values_of_a_transposed_tensor(name, device):
    def transposed(lib, t):
        return CALLS[name](lib, t.permute(2, 0, 1)[:, :, :])

    array = numbers("float32", (3, 4, 2))
    agree(transposed, array, device=device)
    agree(lambda lib, t: CALLS[name](lib, t[:, :, ::2].expand(2, 3, 4)), numbers("float32", (2, 3, 2))[:, :, :1], device=device)


@pytest.mark.torch
@pytest.mark.parametrize("name", ["repeat", "interleave", "roll", "roll, dims", "flip", "rot90, twice"])
def test_no_elements_and_no_dimensions(name, device):
    agree(CALLS[name], np.zeros((2, 0, 3), np.float32), device=device)
    agree(CALLS[name], np.float32(1.5), device=device)


def test_moves_keep_the_bits(device):
    bits = mt.tensor([0x7F, 0xFF, 0x81, 0x00], dtype=mt.uint8, device=device)
    for dtype in (mt.float8_e5m2, mt.float8_e4m3fn, mt.float8_e4m3fnuz, mt.float8_e8m0fnu):
        x = bits.view(dtype)
        assert x.flip(0).view(mt.uint8).tolist() == [0x00, 0x81, 0xFF, 0x7F]
        assert x.roll(1).view(mt.uint8).tolist() == [0x00, 0x7F, 0xFF, 0x81]
        assert x.repeat(2).view(mt.uint8).tolist() == bits.tolist() * 2


def test_indices_from_repeats(device):
    repeats = mt.tensor([2, 0, 1], device=device)
    assert mt.repeat_interleave(repeats).tolist() == [0, 0, 2]
    assert mt.repeat_interleave(repeats, output_size=3).tolist() == [0, 0, 2]
    assert mt.repeat_interleave(repeats.int()).dtype is mt.int32
    x = mt.arange(6, device=device).reshape(3, 2)
    assert x.repeat_interleave(repeats, 0, output_size=3).tolist() == [[0, 1], [0, 1], [4, 5]]


def test_the_length_of_repeats_is_checked():
    x = mt.empty(4, 2, device="meta")
    for call in (lambda: x.repeat_interleave(2, 0, output_size=6), lambda: mt._repeat_interleave(x, 2, 0, 6)):
        with pytest.raises(RuntimeError, match="repeat_interleave.*output_size must be the length of the result, 8, got 6"):
            call()


def test_repeats_are_read_where_they_must_be():
    repeats = mt.empty(3, dtype=mt.int64, device="meta")
    x = mt.empty(3, 2, device="meta")
    with pytest.raises(mt.DataDependentError, match="repeat_interleave"):
        x.repeat_interleave(repeats, 0)
    assert x.repeat_interleave(repeats, 0, output_size=7).shape == (7, 2)
    assert mt.repeat_interleave(repeats, output_size=5).shape == (5,)


# Errors -------------------------------------------------------------------------------------------


def test_errors(device):
    x = mt.zeros(2, 3, device=device)
    for call, error, text in (
        (lambda: x.repeat(2), RuntimeError, r"repeat.*\[2\] has fewer values than shape \[2, 3\] has dimensions"),
        (lambda: x.repeat(2, -1), RuntimeError, "repeat.*negative"),
        (lambda: x.repeat_interleave(-1), RuntimeError, "repeat_interleave.*negative, got -1"),
        (lambda: x.repeat_interleave(2, 0, output_size=5), RuntimeError, "the length of the result, 4, got 5"),
        (lambda: x.repeat_interleave(mt.tensor([1, 2], device=device), 1), RuntimeError, "2 repeats do not match"),
        (lambda: x.repeat_interleave(mt.tensor([1, -2], device=device), 0), RuntimeError, "negative"),
        (lambda: x.repeat_interleave(mt.tensor([1.0, 2.0], device=device), 0), RuntimeError, "int32 or int64, not float32"),
        (lambda: x.repeat_interleave(mt.tensor([1, 2], device=device), 0, output_size=4), RuntimeError, "output_size=4"),
        (lambda: x.roll((1, 2), 0), RuntimeError, "2 shifts do not match 1 dimensions"),
        (lambda: x.roll(1, 2), IndexError, "roll.*2"),
        (lambda: x.flip((0, -2)), RuntimeError, "flip.*dimension 0 appears more than once"),
        (lambda: x[0].fliplr(), RuntimeError, r"fliplr.*2 dimensions are needed, got shape \[3\]"),
        (lambda: x.rot90(1, (0, 0)), RuntimeError, "rot90.*must differ"),
        (lambda: mt.combinations(x), RuntimeError, r"combinations.*vector is needed, got shape \[2, 3\]"),
        (lambda: mt.combinations(x[0], -1), RuntimeError, "combinations.*negative, got -1"),
    ):
        with pytest.raises(error, match=text):
            call()


def test_too_many_combinations():
    with pytest.raises(RuntimeError, match="too many combinations"):
        mt.combinations(mt.empty(10**9, device="meta"), 20)


def test_roll_without_dimensions(device):
    t = mt.arange(4, device=device)
    assert mt.roll(t, 1, dims=None).tolist() == t.roll(1, None).tolist() == [3, 0, 1, 2]
