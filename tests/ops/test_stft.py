"""Short-time Fourier transforms: metadata, values and errors compared with PyTorch."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metatensor as mt
from ops.fourier import agree, example

PAD_MODES = ("reflect", "constant", "replicate", "circular")
maybe = st.sampled_from((None, True, False))


def meta(*shape, dtype=mt.float32):
    return mt.empty(shape, dtype=dtype, device="meta")


@st.composite
def signals(draw):
    """Draw a layout of a signal or a batch of signals."""
    sizes = (*draw(st.sampled_from(((), (), (2,), (3,), (1,)))), draw(st.integers(1, 20)))
    strides, step = [0] * len(sizes), draw(st.integers(1, 2))
    for d in draw(st.permutations(range(len(sizes)))):
        strides[d] = step
        step *= sizes[d]
    return sizes, tuple(strides)


@st.composite
def frames(draw):
    """Draw n_fft, the other lengths, and the layout and dtype of a window, or None."""
    n_fft = draw(st.integers(1, 9))
    win_length = draw(st.none() | st.integers(1, n_fft))
    lengths = {"hop_length": draw(st.none() | st.integers(1, 5)), "win_length": win_length}
    window = draw(st.sampled_from((None, "float32", "float64", "complex64")))
    return n_fft, lengths, window and (((n_fft if win_length is None else win_length,), (1,)), window)


@pytest.mark.torch
@settings(max_examples=300)
@given(signals(), st.sampled_from(("float32", "float64", "complex64")), frames(), st.booleans(), maybe, st.data())
def test_stft(layout, dtype, shape_of_frames, normalized, onesided, data):
    n_fft, lengths, window = shape_of_frames
    options = {"normalized": normalized, "onesided": onesided, "return_complex": data.draw(maybe), **lengths}
    if data.draw(st.booleans()):
        options |= {"center": True, "pad_mode": data.draw(st.sampled_from(PAD_MODES))}
    else:
        # If n_fft - win_length is odd, the last window may extend past the signal. PyTorch rejects that on cpu only.
        even = (n_fft - (lengths["win_length"] or n_fft)) % 2 == 0
        options |= {"center": False, "align_to_window": data.draw(maybe) if even else None}
    tensors = [example(layout, dtype)]
    if window is not None:
        tensors.append(example(*window, seed=1))
    agree(lambda lib, t, w=None: lib.stft(t, n_fft, window=w, **options), *tensors)


@pytest.mark.torch
@settings(max_examples=300)
@given(frames(), st.integers(1, 6), st.sampled_from(((), (1,), (3,))), st.booleans(), st.booleans(), maybe, st.data())
def test_istft(shape_of_frames, count, batch, half, normalized, onesided, data):
    n_fft, lengths, window = shape_of_frames
    sizes = (*batch, n_fft // 2 + 1 if half else n_fft, count)
    options = {"normalized": normalized, "onesided": onesided, "center": data.draw(st.booleans()), **lengths}
    options |= {"return_complex": data.draw(st.booleans()), "length": data.draw(st.none() | st.integers(0, 30))}
    spectrum = example((sizes, tuple(np.cumprod((1, *sizes[:0:-1]))[::-1].tolist())), "complex128")
    tensors = [spectrum] if window is None else [spectrum, example(*window, seed=1).abs().double() + 0.5]
    try:
        agree(lambda lib, t, w=None: lib.istft(t, n_fft, window=w, **options), *tensors, metadata=False)
    except AssertionError as error:
        # On meta it is unknown whether the windows cover the signal.
        if "window overlap add min" not in str(error):
            raise


def test_there_and_back(device):
    signal = mt.from_numpy(np.random.default_rng(0).standard_normal((2, 50))).to(device)
    window = mt.hann_window(16, dtype=mt.float64, device=device)
    for options in ({}, {"hop_length": 5}, {"normalized": True}, {"win_length": 16, "window": window}, {"onesided": False}):
        there = mt.stft(signal, 16, return_complex=True, **options)
        back = mt.istft(there, 16, length=50, **options)
        assert (back - signal).abs().max().item() < 1e-12
        assert (there.istft(16, length=50, **options) - back).abs().max().item() == 0


def test_they_are_methods_too():
    assert meta(2, 40).stft(16, return_complex=True).shape == (2, 9, 11)
    assert meta(40).stft(16, 8, return_complex=False).shape == (9, 6, 2)
    assert meta(2, 9, 11, dtype=mt.complex64).istft(16).shape == (2, 40)
    assert meta(40).stft(16, return_complex=True)._base is None


def test_a_signal_that_the_windows_do_not_cover(device):
    frames = mt.ones(9, 3, dtype=mt.complex64, device=device)
    with pytest.raises(RuntimeError, match="do not cover"):
        mt.istft(frames, 16, window=mt.hann_window(16, device=device), center=False)
    assert mt.istft(frames.to("meta"), 16, window=mt.hann_window(16, device="meta"), center=False).shape == (24,)


def test_a_length_beyond_the_frames(device):
    with pytest.warns(UserWarning, match="fewer than length=40"):
        signal = mt.istft(mt.ones(9, 3, dtype=mt.complex64, device=device), 16, length=40)
    assert signal.shape == (40,) and not signal[16:].any()


def test_overlap_add(device):
    frames = mt.ones(1, 3, 5, device=device)
    assert mt._overlap_add(frames, 2).tolist() == [[1, 1, 2, 2, 3, 2, 2, 1, 1]]
    assert mt._overlap_add(frames, 6).tolist() == [[1, 1, 1, 1, 1, 0] * 2 + [1] * 5]
    with pytest.raises(RuntimeError, match=r"got shape \[3, 5\] and step 2"):
        mt._overlap_add(frames[0], 2)


C64 = mt.complex64


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: meta(8).stft(4), RuntimeError, "return_complex must be given"),
        (lambda: meta(8, dtype=mt.int64).stft(4, return_complex=True), RuntimeError, "floating-point or complex, got int64"),
        (lambda: meta(2, 2, 8).stft(4, return_complex=True), RuntimeError, r"got shape \[2, 2, 8\]"),
        (lambda: meta(8).stft(9, center=False, return_complex=True), RuntimeError, "n_fft must be from 1 to 8"),
        (lambda: meta(8).stft(4, 0, return_complex=True), RuntimeError, "hop_length must be positive"),
        (lambda: meta(8).stft(4, win_length=5, return_complex=True), RuntimeError, "win_length must be from 1 to n_fft=4, got 5"),
        (lambda: meta(8).stft(4, window=meta(3), return_complex=True), RuntimeError, r"win_length=4 values, got shape \[3\]"),
        (lambda: meta(8).stft(4, return_complex=True, align_to_window=True), RuntimeError, "requires center=False"),
        (lambda: meta(8, dtype=C64).stft(4, onesided=True), RuntimeError, "onesided=True is not supported"),
        (lambda: meta(8).stft(4, pad_mode="other", return_complex=True), NotImplementedError, "'other'"),
        (
            lambda: meta(8).stft(4, 1, 1, center=False, align_to_window=True, return_complex=True),
            RuntimeError,
            "the last window of 1 points would exceed the signal of 8",
        ),
        (lambda: meta(5, 3).istft(8), RuntimeError, "must be complex, as stft"),
        (lambda: meta(3, dtype=C64).istft(8), IndexError, r"at least 2 dimensions, got shape \[3\]"),
        (lambda: meta(1, 1, 5, 3, dtype=C64).istft(8), RuntimeError, r"got shape \[1, 1, 5, 3\]"),
        (lambda: meta(5, 0, dtype=C64).istft(8), RuntimeError, "must not be empty"),
        (lambda: meta(4, 3, dtype=C64).istft(8), RuntimeError, "4 frequencies, but n_fft=8 with onesided=True requires 5"),
        (lambda: meta(5, 3, dtype=C64).istft(8, 9), RuntimeError, "hop_length must be from 1 to win_length=8, got 9"),
        (lambda: meta(5, 3, dtype=C64).istft(8, return_complex=True), RuntimeError, "requires onesided=False"),
        (lambda: meta(5, 3, dtype=C64).istft(8, window=meta(8, dtype=C64)), RuntimeError, "return_complex must be True"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_window_of_bools_counts_as_numbers(device):
    x = mt.ones(5, 6, dtype=mt.complex64, device=device)
    found, wanted = (mt.istft(x, 8, window=mt.ones(8, dtype=d, device=device)) for d in (mt.bool, mt.float32))
    assert mt.allclose(found, wanted)
