"""Pooling: values, indices and metadata compared with PyTorch, the definition on every device, errors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metatensor as mt
from ops.against import agree, tensors_of
from ops.pairs import values

F = mt.nn.functional


def steps(n, low, high):
    number = st.integers(low, high)
    return number | st.tuples(*[number] * n)


@st.composite
def images(draw, least=1):
    """Draw spatial dimensions and the shape of an image, sometimes without a batch or with an empty one."""
    n = draw(st.integers(1, 3))
    lead = draw(st.sampled_from([(2, 3), (3,), (0, 3), (2, 1)]))
    return n, (*lead, *draw(st.lists(st.integers(least, 8), min_size=n, max_size=n)))


@st.composite
def pools(draw, dilated):
    n, shape = draw(images())
    options = {
        "kernel_size": draw(steps(n, 1, 3)),
        "stride": draw(st.none() | steps(n, 1, 3)),
        "padding": draw(steps(n, 0, 1)),
        "ceil_mode": draw(st.booleans()),
    }
    if dilated:
        options |= {"dilation": draw(steps(n, 1, 2)), "return_indices": draw(st.booleans())}
    else:
        options["count_include_pad"] = draw(st.booleans())
        if n > 1:
            options["divisor_override"] = draw(st.sampled_from([None, 3, -2]))
    return n, shape, options


@pytest.mark.torch
@given(pools(dilated=True), st.integers(0, 3))
@settings(max_examples=150)
def test_max_pool(case, seed):
    n, shape, options = case
    agree(lambda lib, t: getattr(lib.nn.functional, f"max_pool{n}d")(t, **options), *tensors_of(seed, shape))


@pytest.mark.torch
@given(pools(dilated=False), st.integers(0, 3))
@settings(max_examples=150)
def test_avg_pool(case, seed):
    n, shape, options = case
    agree(lambda lib, t: getattr(lib.nn.functional, f"avg_pool{n}d")(t, **options), *tensors_of(seed, shape), tolerance=1e-5)


@pytest.mark.torch
@given(images(), st.data())
@settings(max_examples=100)
def test_adaptive(case, data):
    n, shape = case
    size = data.draw(steps(n, 0, 9)) if n == 1 else data.draw(steps(n, 0, 9) | st.tuples(*[st.none() | st.integers(1, 9)] * n))
    image = tensors_of(0, shape)
    agree(lambda lib, t: getattr(lib.nn.functional, f"adaptive_avg_pool{n}d")(t, size), *image, tolerance=1e-5)
    agree(lambda lib, t: getattr(lib.nn.functional, f"adaptive_max_pool{n}d")(t, size, return_indices=True), *image)


NORMS = [1.0, 2, 3, 3.5, float("inf"), float("-inf")]


@pytest.mark.torch
@given(images(3), st.sampled_from(NORMS), st.integers(1, 3), st.none() | st.integers(1, 3), st.booleans())
@settings(max_examples=60)
def test_lp_pool(case, p, kernel, stride, up):
    n, shape = case
    image = [t.abs() if p == 3.5 else t for t in tensors_of(1, shape)]
    kernel = kernel if n == 1 else (kernel,) * n
    agree(lambda lib, t: getattr(lib.nn.functional, f"lp_pool{n}d")(t, p, kernel, stride, up), *image, tolerance=1e-4)


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "bool"])
@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("p", [*NORMS, 0, 0.0, 1, -1, -1.0])
def test_lp_pool_of_integers(p, n, dtype):
    import torch

    x = (torch.arange(2 * 6**n) * 5 % 7).to(getattr(torch, dtype)).reshape(1, 2, *[6] * n)
    agree(lambda lib, t: getattr(lib.nn.functional, f"lp_pool{n}d")(t, p, 2, 3), x, tolerance=1e-5)


@pytest.mark.parametrize("p, values", [(2, [12**0.5, 0.0]), (2.0, [13**0.5, 1.0]), (1, [4.0, 0.0]), (1.0, [5.0, 1.0])])
def test_averages_of_powers_of_integers_are_integers(p, values):
    pytest.importorskip("metatensor_cpu")
    x = mt.tensor([[[2, 3, 1, 0]]], device="cpu")
    assert mt.nn.functional.lp_pool1d(x, p, 2).flatten().tolist() == pytest.approx(values)


@pytest.mark.torch
@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("name", ["max_pool", "avg_pool", "adaptive_avg_pool", "adaptive_max_pool"])
def test_channels_last(n, name):
    import torch

    (image,) = tensors_of(0, (2, 8, 6, 5, 4)[: n + 2])
    image = image.to(memory_format=torch.channels_last if n == 2 else torch.channels_last_3d)
    for size in (1, 2):
        agree(lambda lib, t: getattr(lib.nn.functional, f"{name}{n}d")(t, size), image, tolerance=1e-5)


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["float64", "int64", "int32", "bfloat16", "bool", "complex64"])
def test_dtypes(dtype):
    image = tensors_of(0, (2, 3, 6, 6), dtype=dtype)
    for name in ("max_pool2d", "avg_pool2d", "adaptive_avg_pool2d"):
        agree(lambda lib, t: getattr(lib.nn.functional, name)(t, 2), *image)


@pytest.mark.torch
@pytest.mark.parametrize("n", [2, 3])
def test_fractional(n):
    import torch

    image, samples = tensors_of(0, (2, 3, *[9, 8, 7][:n]), (2, 3, n))
    samples = torch.rand(samples.shape, generator=torch.Generator().manual_seed(0))
    for options in ({"output_size": 4}, {"output_ratio": (0.5,) * n}, {"output_size": 8}):
        agree(
            lambda lib, t, s: getattr(lib.nn.functional, f"fractional_max_pool{n}d")(
                t, 2, **options, return_indices=True, _random_samples=s
            ),
            image, samples,
        )  # fmt: skip


def test_fractional_draws(device):
    image = mt.from_numpy(np.arange(100.0, dtype="float32").reshape(1, 1, 10, 10)).to(device)
    mt.manual_seed(3)
    first = F.fractional_max_pool2d(image, 2, output_size=4)
    mt.manual_seed(3)
    np.testing.assert_array_equal(values(first), values(F.fractional_max_pool2d(image, 2, output_size=4)))
    assert values(first).max() == 99


@pytest.mark.torch
@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("size", [None, "one more"])
def test_unpool(n, size):
    import torch

    (image,) = tensors_of(0, (2, 3, *[8, 6, 4][:n]))
    pooled, indices = getattr(torch.nn.functional, f"max_pool{n}d")(image, 2, return_indices=True)
    size = None if size is None else [s + 1 for s in image.shape[2:]]
    agree(lambda lib, t, i: getattr(lib.nn.functional, f"max_unpool{n}d")(t, i, 2, output_size=size), pooled, indices)


def test_nan_is_the_largest(device):
    image = np.arange(16.0, dtype="float32").reshape(1, 4, 4)
    image[0, 1, 1] = np.nan
    t = mt.from_numpy(image).to(device)
    pooled, indices = F.max_pool2d(t, 2, return_indices=True)
    np.testing.assert_array_equal(values(pooled), [[[np.nan, 7], [13, 15]]])
    np.testing.assert_array_equal(values(indices), [[[5, 7], [13, 15]]])
    assert np.isnan(values(F.adaptive_max_pool2d(t, 2))[0, 0, 0])


def test_definition(device):
    image = np.random.default_rng(0).standard_normal((2, 3, 6, 6))
    blocks = image.reshape(2, 3, 3, 2, 3, 2)
    t = mt.from_numpy(image).to(device)
    np.testing.assert_array_equal(values(F.max_pool2d(t, 2)), blocks.max(axis=(3, 5)))
    np.testing.assert_allclose(values(F.avg_pool2d(t, 2)), blocks.mean(axis=(3, 5)), rtol=1e-12)
    np.testing.assert_allclose(values(F.adaptive_avg_pool2d(t, 3)), blocks.mean(axis=(3, 5)), rtol=1e-12)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda t: F.max_pool2d(t, 0), RuntimeError, "kernel_size.*positive"),
        (lambda t: F.max_pool2d(t, 2, stride=0), RuntimeError, "stride.*positive"),
        (lambda t: F.max_pool2d(t, 2, padding=2), RuntimeError, "at most half"),
        (lambda t: F.max_pool2d(t, 9), RuntimeError, r"larger than the input \[6, 5\]"),
        (lambda t: F.max_pool2d(t, (2, 2, 2)), RuntimeError, "2 ints"),
        (lambda t: F.avg_pool2d(t, 2, divisor_override=0), RuntimeError, "must not be zero"),
        (lambda t: F.max_pool3d(t[0], 2), RuntimeError, "4 dimensions"),
        (lambda t: F.adaptive_avg_pool2d(t, -1), RuntimeError, "must not be negative"),
        (lambda t: F.adaptive_avg_pool2d(t, "3"), TypeError, "output size"),
        (lambda t: F.adaptive_max_pool2d(t, (1, 2, 3)), RuntimeError, "2 values"),
        (lambda t: F.max_unpool2d(t, t, 2), RuntimeError, "int64"),
        (lambda t: F.fractional_max_pool2d(t, 2), ValueError, "output_size or an output_ratio"),
        (lambda t: F.max_pool2d(t, 2, 1 << 62, ceil_mode=True, padding=1), None, None),
    ],
)
def test_bad_arguments(call, error, message):
    t = mt.empty(2, 3, 6, 5, device="meta")
    if error is None:
        assert call(t).shape == (2, 3, 1, 1)
        return
    with pytest.raises(error, match=message) as caught:
        call(t)
    assert "nn.functional." in str(caught.value)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_unpooling_of_an_empty_batch(device, n):
    x = mt.zeros((0, 2, *[3] * n), device=device)
    unpool = getattr(mt.nn.functional, f"max_unpool{n}d")
    assert unpool(x, x.long(), 2).shape == (0, 2, *[6] * n)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("name", ["adaptive_avg_pool", "adaptive_max_pool"])
def test_an_image_without_a_batch_may_have_no_channels(device, name, n):
    pool = getattr(mt.nn.functional, f"{name}{n}d")
    assert pool(mt.zeros((0, *[4] * n), device=device), 2).shape == (0, *[2] * n)
    with pytest.raises(RuntimeError):
        getattr(mt.nn.functional, f"max_pool{n}d")(mt.zeros((0, *[4] * n), device=device), 2)


def test_integers():
    x = mt.tensor([[[3, 1, 4, 1]]], dtype=mt.int16)
    assert [t.tolist() for t in mt.max_pool1d_with_indices(x, 2)] == [[[[3, 4]]], [[[0, 2]]]]
    with pytest.raises(NotImplementedError):
        mt.max_pool1d(x, 2)
    with pytest.raises(NotImplementedError):
        mt.nn.functional.max_pool2d(x.to(mt.uint16), (1, 2))
    assert mt.nn.functional.lp_pool2d(x, 2.0, (1, 2)).dtype is mt.float32
    with pytest.raises(NotImplementedError):
        mt.nn.functional.lp_pool2d(x, 2, (1, 2))


def test_output_sizes_and_kernels_of_another_length():
    x = mt.ones(1, 2, 3, 3)
    with pytest.raises(ValueError):
        mt.nn.functional.adaptive_max_pool2d(x, (1, 1, 1, 1))
    with pytest.raises(RuntimeError):
        mt.nn.functional.fractional_max_pool2d(x, [2], 1)


@pytest.mark.parametrize("n", [2, 3])
def test_number_of_output_ratios(n):
    image = mt.zeros(1, 1, *[8] * n)
    pool = getattr(F, f"fractional_max_pool{n}d")
    for ratio in ((0.5,), [0.5] * (n + 1)):
        with pytest.raises(ValueError, match=f"a number or {n} of them"):
            pool(image, 2, output_ratio=ratio)
    with pytest.raises(TypeError):
        pool(image, 2, output_ratio="half")
