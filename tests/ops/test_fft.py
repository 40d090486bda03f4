"""Fourier transforms: metadata, values and errors compared with PyTorch."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metatensor as mt
from metatensor.rules import flops
from ops.fourier import agree, example
from ops.layouts import dims, layouts

ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
MANY = tuple(f"{name}{end}" for name in ONE for end in "2n")
DTYPES = ("float32", "float64", "complex64", "complex128")
NORMS = (None, "backward", "ortho", "forward")

points = st.one_of(st.none(), st.integers(-1, 6))
sizes = st.one_of(st.none(), st.lists(st.integers(-1, 6), max_size=3).map(tuple))


@st.composite
def distinct_dims(draw, ndim):
    """Draw None, an int or a tuple of distinct dimensions, sometimes invalid."""
    if draw(st.integers(0, 3)) == 0:
        return None
    if draw(st.integers(0, 9)) == 0:
        return draw(dims(ndim))
    order = draw(st.permutations(range(ndim)))[: draw(st.integers(0, ndim))]
    return tuple(d - ndim * draw(st.integers(0, 1)) for d in order)


def meta(*shape, dtype=mt.float32):
    return mt.empty(shape, dtype=dtype, device="meta")


@pytest.mark.torch
@settings(max_examples=300)
@given(layouts(max_dims=4), st.sampled_from((*DTYPES, "int64", "bool")), st.sampled_from(ONE), points, st.sampled_from(NORMS), st.data())
def test_one_dimension(layout, dtype, name, n, norm, data):
    dim = data.draw(dims(len(layout[0])))
    agree(lambda lib, t: getattr(lib.fft, name)(t, n, dim, norm), example(layout, dtype))


@pytest.mark.torch
@settings(max_examples=400)
@given(layouts(max_dims=4), st.sampled_from((*DTYPES, "uint8")), st.sampled_from(MANY), sizes, st.sampled_from(NORMS), st.data())
def test_several_dimensions(layout, dtype, name, s, norm, data):
    dim = data.draw(distinct_dims(len(layout[0])))
    options = {} if dim is None else {"dim": dim}
    if isinstance(dim, tuple) and s is not None and data.draw(st.booleans()):
        s = (*s, *([3] * len(dim)))[: len(dim)]
    agree(lambda lib, t: getattr(lib.fft, name)(t, s, norm=norm, **options), example(layout, dtype))


@pytest.mark.torch
@settings(max_examples=150)
@given(layouts(min_dims=4, max_dims=6, min_size=1, max_size=3), st.sampled_from(("fftn", "ifftn", "rfftn", "irfftn", "hfftn")), st.data())
def test_more_dimensions_than_a_library_takes_at_once(layout, name, data):
    order = data.draw(st.permutations(range(len(layout[0]))))
    dim = tuple(order[: data.draw(st.integers(3, len(order)))])
    agree(lambda lib, t: getattr(lib.fft, name)(t, dim=dim), example(layout, "float32"))


@pytest.mark.torch
@settings(max_examples=100)
@given(layouts(min_dims=1, max_dims=4), st.sampled_from(("fft", "irfft", "hfft", "fftn", "irfftn", "hfftn")))
def test_conjugate_views(layout, name):
    agree(lambda lib, t: getattr(lib.fft, name)(t.conj()), example(layout, "complex64"))


@pytest.mark.torch
@settings(max_examples=100)
@given(layouts(min_dims=1, max_dims=4), st.sampled_from(("fft", "hfft", "fftn", "rfft2", "irfftn")), st.sampled_from(DTYPES), st.data())
def test_out(layout, name, dtype, data):
    shape = data.draw(st.sampled_from(((0,), (2, 3))))
    target = data.draw(st.sampled_from(DTYPES))

    def call(lib, t):
        out = lib.empty(shape, dtype=getattr(lib, target), device=t.device)
        result = getattr(lib.fft, name)(t, out=out)
        assert result is out
        return out.to(lib.complex64 if out.is_complex() else lib.float32)  # the tolerance for complex128 would be too small

    agree(call, example(layout, dtype))


def test_out_of_the_right_shape_keeps_its_strides(device):
    out = mt.empty(5, 4, dtype=mt.complex128, device=device).t()
    assert mt.fft.fft(mt.ones(4, 5, device=device), out=out) is out and out.stride() == (1, 4)
    assert out[:, 0].tolist() == [5] * 4 and not out[:, 1:].abs().max()


@pytest.mark.torch
@settings(max_examples=100)
@given(layouts(max_dims=3), st.sampled_from(("fftshift", "ifftshift")), st.data())
def test_shifts(layout, name, data):
    dim = data.draw(distinct_dims(len(layout[0])).filter(lambda dim: dim != ()))
    agree(lambda lib, t: getattr(lib.fft, name)(t, dim), example(layout, "float32"))


@pytest.mark.torch
@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
@pytest.mark.parametrize("d", [1.0, 0.25, -3.0, 0.0])
@pytest.mark.parametrize("n", [0, 1, 2, 5, 8, -1, -4])
def test_frequencies(name, n, d):
    for dtype in ("float32", "float64"):
        agree(lambda lib: getattr(lib.fft, name)(n, d, dtype=getattr(lib, dtype), device="cpu"))


def test_frequencies_as_a_factory():
    assert mt.fft.fftfreq(4, device="meta").dtype is mt.float32
    assert mt.fft.rfftfreq(4, dtype=mt.float16, device="meta", requires_grad=True).requires_grad
    out = mt.empty(0, dtype=mt.float64, device="cpu")
    assert mt.fft.fftfreq(4, out=out) is out and out.tolist() == [0, 0.25, -0.5, -0.25]
    with pytest.raises(RuntimeError, match="floating-point dtype is needed, got int64"):
        mt.fft.fftfreq(4, dtype=mt.int64, device="meta")
    with pytest.raises(NotImplementedError, match="complex64 is not supported"):
        mt.fft.fftfreq(4, dtype=mt.complex64, device="meta")


def test_half_precision_is_not_for_the_cpu():
    half, chalf = meta(4, dtype=mt.float16), meta(4, dtype=mt.complex32)
    assert mt.fft.fft(half).dtype is mt.complex32 and mt.fft.fft(chalf).dtype is mt.complex32
    assert mt.fft.rfft(half).shape == (3,) and mt.fft.irfft(chalf).dtype is mt.float16
    for dtype in (mt.float16, mt.complex32):
        with pytest.raises(RuntimeError, match="not supported on cpu"):
            mt.fft.fft(mt.ones(4, dtype=dtype, device="cpu"))
    with pytest.raises(RuntimeError, match="bfloat16"):
        mt.fft.fft(meta(4, dtype=mt.bfloat16))


def test_integers_are_of_the_default_dtype():
    assert mt.fft.fft(meta(4, dtype=mt.int64)).dtype is mt.complex64
    mt.set_default_dtype(mt.float64)
    assert mt.fft.fft(meta(4, dtype=mt.bool)).dtype is mt.complex128
    assert mt.fft.irfft(meta(4, dtype=mt.uint8)).dtype is mt.float64


def test_there_and_back(device):
    x = mt.from_numpy(np.random.default_rng(0).standard_normal((3, 4, 5))).to(device)
    for there, back, options in (("fftn", "ifftn", {}), ("rfftn", "irfftn", {"s": x.shape}), ("ihfft", "hfft", {"n": 5})):
        again = getattr(mt.fft, back)(getattr(mt.fft, there)(x), **options)
        assert (again - x).abs().max().item() < 1e-12


def test_gradients_are_recorded():
    x = meta(4).requires_grad_()
    assert mt.fft.fft(x).requires_grad and not mt.fft.ifft(x).is_leaf
    with pytest.raises(RuntimeError, match="out="):
        mt.fft.fft(x, out=meta(4, dtype=mt.complex64))


@pytest.mark.torch
@pytest.mark.parametrize("shape, strides", [((2, 3, 4), (12, 4, 1)), ((2, 3, 4), (1, 2, 6)), ((5, 1, 2, 2), (4, 4, 1, 2))])
def test_primitives(shape, strides):
    real, complex_ = example((shape, strides), "float64"), example((shape, strides), "complex128")
    for order in ((0,), (0, 1), (1, 0), (2, 0, 1)):
        for norm in range(3):
            for flag in (True, False):
                agree(lambda lib, t: lib._fft_c2c(t, order, norm, flag), complex_)
                agree(lambda lib, t: lib._fft_r2c(t, order, norm, flag), real)
        size = 2 * (shape[order[-1]] - 1)
        if size:
            agree(lambda lib, t: lib._fft_c2r(t, order, 1, size), complex_)


def test_they_are_seen_in_their_parts_and_not_counted():
    seen = []

    class Record(mt.DispatchMode):
        def dispatch(self, op, args, kwargs):
            seen.append(op)
            return op(*args, **kwargs)

    with Record():
        mt.fft.rfft2(meta(3, 4, dtype=mt.int64))
    assert [op.name for op in seen][-1] == "_fft_r2c"
    assert flops.classify(seen[-1])[0] == flops.UNCOUNTED


C64 = mt.complex64


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: mt.fft.fft(meta(4), 0), RuntimeError, "number of data points must be positive, got 0"),
        (lambda: mt.fft.fft(meta(4, 0)), RuntimeError, "must be positive, got 0"),
        (lambda: mt.fft.irfft(meta(4, 1)), RuntimeError, "must be positive, got 0"),
        (lambda: mt.fft.fft(meta(4), dim=1), IndexError, "dimension 1 is out of range"),
        (lambda: mt.fft.fft(meta()), IndexError, "without dimensions"),
        (lambda: mt.fft.rfftn(meta()), RuntimeError, "at least one dimension"),
        (lambda: mt.fft.rfft(meta(4, dtype=C64)), RuntimeError, "must be real, got complex64"),
        (lambda: mt.fft.ihfft2(meta(4, 4, dtype=C64)), RuntimeError, "floating-point tensor is needed, got complex64"),
        (lambda: mt.fft.fft(meta(4), norm="other"), RuntimeError, "'ortho', got 'other'"),
        (lambda: mt.fft.fft2(meta(4, 4), dim=(0, 0)), RuntimeError, "appears twice"),
        (lambda: mt.fft.fft2(meta(4, 4), s=(1, 2, 3)), RuntimeError, "the same length, got 3 and 2"),
        (lambda: mt.fft.fftn(meta(4, 4), s=(1, 2, 3)), RuntimeError, r"shape \[4, 4\]"),
        (lambda: mt.fft.fftn(meta(4), s=(-2,)), RuntimeError, "must be positive, got -2"),
        (lambda: mt.fft.fft(meta(4), out=meta(4)), RuntimeError, "must be complex, got float32"),
        (lambda: mt.fft.irfft(meta(4), out=meta(6, dtype=C64)), RuntimeError, "must be floating-point, got complex64"),
        (lambda: mt.fft.ifft(meta(4), out=meta(4, dtype=mt.complex128)), RuntimeError, "must be complex64, got complex128"),
        (lambda: mt.fft.fftshift(meta()), RuntimeError, "roll"),
        (lambda: mt._fft_c2c(meta(4, dtype=C64), (0,), 3, True), RuntimeError, "normalization must be 0, 1 or 2, got 3"),
        (lambda: mt._fft_c2r(meta(4, dtype=C64), (0,), 0, 0), RuntimeError, "last_dim_size must be positive"),
        (lambda: mt._fft_r2c(meta(4), (), 0, True), RuntimeError, "at least one dimension"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_the_result_of_ifft_of_real_numbers_is_a_conjugate_view(device):
    t = mt.arange(4.0, device=device)
    assert mt.fft.ifft(t).is_conj() and mt.fft.ihfft(t).is_conj() and not mt.fft.fft(t).is_conj()


def test_frequencies_keep_the_shape_of_out():
    assert mt.fft.fftfreq(4, out=mt.empty(2, 2)).tolist() == [[0.0, 0.25], [-0.5, -0.25]]
    assert mt.fft.rfftfreq(4, out=mt.empty(3, 1)).shape == (3, 1)
