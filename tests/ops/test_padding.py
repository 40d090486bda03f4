"""Padding and pixel shuffling: values and metadata compared with PyTorch and NumPy, errors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metatensor as mt
from ops.against import agree, tensors_of
from ops.layouts import conform, layouts
from ops.pairs import values

F = mt.nn.functional


@pytest.mark.torch
@given(st.lists(st.integers(0, 4), max_size=5), st.lists(st.integers(-3, 3), max_size=8), st.sampled_from([None, 2.5]))
@settings(max_examples=150)
def test_constant(shape, pad, value):
    agree(lambda lib, t: lib.nn.functional.pad(t, pad, value=value), *tensors_of(0, shape))


@pytest.mark.torch
@given(layouts(max_dims=4), st.lists(st.integers(-1, 1), max_size=8))
@settings(max_examples=150)
def test_strides(layout, pad):
    conform(lambda lib, t: lib.constant_pad_nd(t, pad), (layout, "float32"))


@pytest.mark.torch
@given(st.sampled_from(["reflect", "replicate", "circular"]), st.integers(1, 3), st.booleans(), st.data())
@settings(max_examples=150)
def test_borders(mode, n, batch, data):
    shape = [2, 3][1 - batch :] + data.draw(st.lists(st.integers(1, 5), min_size=n, max_size=n))
    pad = data.draw(st.lists(st.integers(-2, 4), min_size=2 * n, max_size=2 * n))
    # If one side is cropped and another is wrapped around, PyTorch leaves memory uninitialized.
    filled = mode != "circular" or min(pad) >= 0
    agree(lambda lib, t: lib.nn.functional.pad(t, pad, mode=mode), *tensors_of(0, shape), values=filled)


@pytest.mark.torch
@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("n", [2, 3])
def test_channels_last(mode, n):
    import torch

    (image,) = tensors_of(0, (2, 8, 6, 5, 4)[: n + 2])
    image = image.to(memory_format=torch.channels_last if n == 2 else torch.channels_last_3d)
    agree(lambda lib, t: lib.nn.functional.pad(t, (1, 2) * n, mode=mode), image)


@pytest.mark.parametrize("mode, numpy_mode", [("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")])
def test_definition(mode, numpy_mode, device):
    image = np.arange(24.0, dtype="float32").reshape(1, 2, 3, 4)
    got = F.pad(mt.from_numpy(image).to(device), (2, 1, 1, 2), mode=mode)
    np.testing.assert_array_equal(values(got), np.pad(image, ((0, 0), (0, 0), (1, 2), (2, 1)), mode=numpy_mode))


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["int64", "bool", "bfloat16", "complex64"])
def test_dtypes(dtype):
    (image,) = tensors_of(0, (2, 3, 4, 5), dtype=dtype)
    agree(lambda lib, t: lib.nn.functional.pad(t, (1, 2), value=1), image)
    agree(lambda lib, t: lib.constant_pad_nd(t, (1, -2, 0, 1), 3), image)
    agree(lambda lib, t: lib.nn.functional.pad(t, (1, 1, 1, 1), mode="circular"), image)


@pytest.mark.torch
@given(st.sampled_from([(), (2,), (2, 2)]), st.integers(1, 3), st.integers(1, 10), st.integers(1, 6), st.integers(1, 6))
@settings(max_examples=80)
def test_pixel_shuffles(lead, factor, channels, height, width):
    image = tensors_of(0, (*lead, channels, height, width))
    agree(lambda lib, t: lib.nn.functional.pixel_shuffle(t, factor), *image)
    agree(lambda lib, t: lib.pixel_unshuffle(t, factor), *image)


@pytest.mark.torch
@given(st.integers(1, 6), st.lists(st.integers(0, 3), max_size=3), st.integers(1, 4))
def test_channel_shuffle(channels, space, groups):
    agree(lambda lib, t: lib.nn.functional.channel_shuffle(t, groups), *tensors_of(0, (2, channels, *space)))


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda t: F.pad(t, (1, 2, 3)), RuntimeError, "even number"),
        (lambda t: F.pad(t, (1,) * 10), RuntimeError, r"too many for an input of shape \[2, 3, 4, 5\]"),
        (lambda t: F.pad(t, (-3, -3)), RuntimeError, "crops more elements than dimension 3"),
        (lambda t: F.pad(t, (5, 0, 0, 0), mode="reflect"), RuntimeError, "smaller than dimension 3"),
        (lambda t: F.pad(t, (6, 0, 0, 0), mode="circular"), RuntimeError, "more than once"),
        (lambda t: F.pad(t, (1, 1), mode="reflect"), NotImplementedError, "pads the last n = 1, 2 or 3"),
        (lambda t: F.pad(t, (1, 1), mode="mirror"), NotImplementedError, "'constant', 'reflect'"),
        (lambda t: F.pad(t, (1, 1, 1, 1), mode="reflect", value=1.0), RuntimeError, "only for mode='constant'"),
        (lambda t: F.pad(t, 1), TypeError, "pad"),
        (lambda t: F.pad(t, (1 << 62, 1 << 62)), RuntimeError, "63 bits"),
        (lambda t: F.pixel_shuffle(t, 2), RuntimeError, "multiple of 2 squared"),
        (lambda t: F.pixel_unshuffle(t, 0), RuntimeError, "positive"),
        (lambda t: F.channel_shuffle(t, 2), RuntimeError, "multiple of groups=2"),
    ],
)
def test_bad_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call(mt.empty(2, 3, 4, 5, device="meta"))


@pytest.mark.torch
@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular", "constant"])
@pytest.mark.parametrize("dtype", ["bool", "uint16", "uint8", "int64", "float16", "complex64"])
def test_dtypes_of_borders(mode, dtype):
    import torch

    for n in (1, 2, 3):
        x = torch.ones((1, 2, *[3] * n)).to(getattr(torch, dtype))
        agree(lambda m, t, n=n: m.nn.functional.pad(t, (1, 1) * n, mode=mode), x)
