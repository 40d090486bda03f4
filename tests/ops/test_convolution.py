"""Convolution: values and metadata compared with PyTorch, the definition on every device, errors, memory."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import metatensor as mt
from ops.against import agree, tensors_of, twin
from ops.pairs import values

F = mt.nn.functional


def steps(n, low, high):
    """Draw one number for all dimensions, or one for each."""
    number = st.integers(low, high)
    return number | st.tuples(*[number] * n)


@st.composite
def convolutions(draw, transposed=False):
    n = draw(st.integers(1, 3))
    groups = draw(st.integers(1, 3))
    inner, outer = groups * draw(st.integers(1, 2)), groups * draw(st.integers(1, 2))
    if draw(st.integers(0, 9)) == 0:
        groups += 1  # usually an error
    space = draw(st.lists(st.integers(1, 7), min_size=n, max_size=n))
    kernel = draw(st.lists(st.integers(1, 3), min_size=n, max_size=n))
    weight = (inner, max(outer // groups, 1), *kernel) if transposed else (outer, max(inner // groups, 1), *kernel)
    lead = draw(st.sampled_from([(), (2,), (0,), (1,)]))
    bias = draw(st.sampled_from([None, outer, outer + 1])) if draw(st.booleans()) else None
    options = {
        "stride": draw(steps(n, 0 if draw(st.integers(0, 19)) == 0 else 1, 3)),
        "padding": draw(steps(n, 0, 3)),
        "dilation": draw(steps(n, 1, 2)),
        "groups": groups,
    }
    if transposed:
        options["output_padding"] = draw(steps(n, 0, 1))
    elif draw(st.integers(0, 4)) == 0:
        options["padding"] = draw(st.sampled_from(["same", "valid", "odd"]))
    if transposed:
        if 0 in lead:
            options["output_padding"] = 0  # PyTorch does not check this there
        stride, padding, dilation, extra = (
            v if isinstance(v, tuple) else (v,) * n
            for v in (options["stride"], options["padding"], options["dilation"], options["output_padding"])
        )
        sizes = [(space[d] - 1) * stride[d] - 2 * padding[d] + dilation[d] * (kernel[d] - 1) + extra[d] + 1 for d in range(n)]
        assume(0 not in sizes)  # PyTorch's devices disagree
    return n, (*lead, inner, *space), weight, bias, options


def check(case, name, seed=0):
    n, shape, kernel, bias, options = case
    arguments = tensors_of(seed, shape, kernel, *([] if bias is None else [(bias,)]))
    agree(lambda lib, *t: getattr(lib.nn.functional, f"{name}{n}d")(*t, **options), *arguments, tolerance=1e-4)


@pytest.mark.torch
@given(convolutions())
@settings(max_examples=150)
def test_against_torch(case):
    check(case, "conv")


@pytest.mark.torch
@given(convolutions(transposed=True))
@settings(max_examples=100)
def test_transposed_against_torch(case):
    check(case, "conv_transpose")


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["float64", "int64", "complex64", "bfloat16", "float16"])
def test_dtypes(dtype):
    image, weight = tensors_of(3, (2, 4, 6, 5), (6, 2, 3, 3), dtype=dtype)
    agree(lambda lib, x, w: lib.conv2d(x, w, padding=1, groups=2), image, weight, tolerance={"bfloat16": 5e-2, "float16": 1e-2}.get(dtype))


@pytest.mark.torch
@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("name", ["conv", "conv_transpose"])
@pytest.mark.parametrize("which", [(0,), (1,), (0, 1)])
def test_channels_last(n, name, which):
    import torch

    arguments = tensors_of(2, (2, 8, *[7, 6, 5][:n]), (8, 8, *[3] * n))
    for i in which:
        arguments[i] = arguments[i].to(memory_format=torch.channels_last if n == 2 else torch.channels_last_3d)
    agree(lambda lib, *t: getattr(lib.nn.functional, f"{name}{n}d")(*t, padding=1), *arguments, tolerance=1e-4)
    ours = getattr(F, f"{name}{n}d")(*[twin(t, "meta") for t in arguments])
    assert ours.stride(1) == 1


@pytest.mark.torch
def test_tiles_do_not_show(monkeypatch):
    from metatensor.devices.array_kit import convolution

    monkeypatch.setattr(convolution, "HOST_TILE", 100)
    check((2, (3, 4, 9, 8), (6, 2, 3, 2), 6, {"stride": (2, 1), "padding": 1, "dilation": 1, "groups": 2}), "conv")
    check((3, (2, 2, 5, 4, 3), (2, 3, 2, 1, 2), None, {"stride": 2, "padding": 0, "dilation": 1, "groups": 1}), "conv_transpose")


@pytest.mark.torch
@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("groups", [1, 2])
def test_no_channels(n, groups):
    agree(lambda lib, *t: getattr(lib.nn.functional, f"conv{n}d")(*t, groups=groups), *tensors_of(0, (2, 0, *[5] * n), (6, 0, *[3] * n)))


def test_definition(device):
    """Each output element is the sum over its window of input times weight."""
    generator = np.random.default_rng(0)
    x, w = generator.standard_normal((2, 3, 5, 4)), generator.standard_normal((4, 3, 2, 3))
    got = values(F.conv2d(mt.from_numpy(x).to(device), mt.from_numpy(w).to(device), padding=1, stride=2))
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    for i, j in np.ndindex(got.shape[2:]):
        window = padded[:, :, 2 * i : 2 * i + 2, 2 * j : 2 * j + 3]
        np.testing.assert_allclose(got[:, :, i, j], np.einsum("nchw,ochw->no", window, w), rtol=1e-12)


def test_transposed_is_the_adjoint(device):
    """<conv(x), y> = <x, conv_transpose(y)>."""
    generator = np.random.default_rng(1)
    x, w, y = (generator.standard_normal(s) for s in ((2, 4, 9), (6, 2, 3), (2, 6, 4)))
    tensors = [mt.from_numpy(a).to(device) for a in (x, w, y)]
    there = values(F.conv1d(tensors[0], tensors[1], stride=2, dilation=1, groups=2))
    back = values(F.conv_transpose1d(tensors[2], tensors[1], stride=2, groups=2))
    np.testing.assert_allclose((there * y).sum(), (x * back).sum(), rtol=1e-12)


def test_unfold_and_fold(device):
    image = mt.from_numpy(np.arange(2 * 3 * 4 * 4, dtype="float32").reshape(2, 3, 4, 4)).to(device)
    columns = F.unfold(image, 2, stride=2)
    assert columns.shape == (2, 12, 4)
    np.testing.assert_array_equal(values(F.fold(columns, 4, 2, stride=2)), values(image))


@pytest.mark.torch
@given(
    st.sampled_from([(2, 3, 5, 6), (3, 5, 6), (0, 3, 5, 6), (2, 0, 5, 6)]), steps(2, 1, 3), steps(2, 1, 2), steps(2, 0, 2),
    steps(2, 1, 2),
)  # fmt: skip
@settings(max_examples=60)
def test_unfold_against_torch(shape, kernel, dilation, padding, stride):
    import torch

    arguments = kernel, dilation, padding, stride
    agree(lambda lib, t: lib.nn.functional.unfold(t, *arguments), *tensors_of(0, shape))
    columns = torch.nn.functional.unfold(torch.zeros(1, 1, 5, 6), *arguments).shape[1:] if shape[-1] else None
    if columns is not None:
        for extra in (0, 1):
            back = tensors_of(1, (2, 3 * columns[0] + extra, columns[1]))
            agree(lambda lib, t: lib.nn.functional.fold(t, (5, 6), *arguments), *back, tolerance=1e-5)


BAD = {
    "groups": ({"groups": 3}, "multiple of groups"),
    "no groups": ({"groups": 0}, "positive"),
    "stride": ({"stride": 0}, "must be positive"),
    "padding": ({"padding": -1}, "non-negative"),
    "too many": ({"stride": (1, 1, 1)}, "2 ints"),
    "word": ({"padding": "odd"}, "'same', 'valid'"),
    "same": ({"padding": "same", "stride": 2}, "stride of 1"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_options(case):
    options, message = BAD[case]
    x, w = mt.empty(2, 4, 5, 5, device="meta"), mt.empty(4, 4, 3, 3, device="meta")
    with pytest.raises(RuntimeError, match=message) as error:
        F.conv2d(x, w, **options)
    assert "conv2d" in str(error.value)


@pytest.mark.parametrize(
    "shape, weight, bias, message",
    [
        ((2, 3, 5, 5), (4, 4, 3, 3), None, r"has 3 channels.*\[4, 4, 3, 3\].*expects 4"),
        ((2, 4, 2, 5), (4, 4, 3, 3), None, r"larger than the input \[2, 5\]"),
        ((2, 4, 5, 5), (4, 4, 3, 3), 5, r"bias must have shape \[4\].*got \[5\]"),
        ((2, 4, 5, 5, 5), (4, 4, 3, 3), None, r"3 dimensions \(no batch\) or 4"),
        ((2, 4, 5, 5), (4, 4, 3), None, "weight must have 4 dimensions"),
    ],
)
def test_bad_shapes(shape, weight, bias, message):
    tensors = [mt.empty(s, device="meta") for s in (shape, weight)]
    with pytest.raises(RuntimeError, match=message):
        F.conv2d(*tensors, None if bias is None else mt.empty(bias, device="meta"))


def test_bad_dtypes():
    x, w = mt.empty(2, 4, 5, 5, device="meta"), mt.empty(4, 4, 3, 3, device="meta", dtype=mt.float64)
    with pytest.raises(RuntimeError, match="float32.*float64"):
        F.conv2d(x, w)
    with pytest.raises(NotImplementedError, match="bool"):
        F.conv2d(x.to(mt.bool), w.to(mt.bool))
    with pytest.raises(TypeError, match="padding"):
        F.conv2d(x, w, padding=1.5)


def test_sizes_are_checked():
    x, w = mt.empty(1, 1, 8, 8, device="meta"), mt.empty(1, 1, 3, 3, device="meta")
    with pytest.raises(RuntimeError, match="63 bits"):
        F.conv2d(x, w, padding=1 << 62)


# Name, sizes of the input and the weight, options. Each is several tiles long.
LARGE = [
    ("conv1d", (2, 16, 60000), (16, 16, 7), {"padding": 3}),
    ("conv1d", (1, 64, 40000), (2, 64, 5), {"dilation": 4}),
    ("conv1d", (1, 3, 90000), (64, 3, 1), {"stride": 2}),
    ("conv2d", (4, 16, 96, 96), (16, 16, 3, 3), {"padding": 1}),
    ("conv2d", (2, 32, 64, 96), (32, 1, 5, 5), {"padding": 2, "groups": 32}),
    ("conv2d", (2, 16, 96, 96), (8, 8, 3, 3), {"padding": "same", "dilation": (2, 3), "groups": 2}),
    ("conv2d", (1, 256, 128, 128), (4, 256, 1, 1), {}),
    pytest.param("conv2d", (1, 128, 4, 40000), (2, 128, 3, 3), {"stride": (1, 2)}, marks=pytest.mark.slow),
    ("conv3d", (1, 16, 12, 56, 56), (8, 16, 3, 3, 3), {"padding": 1}),
    ("conv3d", (2, 4, 6, 40, 300), (4, 2, 1, 3, 3), {"groups": 2, "dilation": (1, 2, 2)}),
    ("conv_transpose1d", (2, 16, 30000), (16, 16, 7), {"stride": 2}),
    ("conv_transpose1d", (1, 256, 30000), (256, 1, 1), {}),
    ("conv_transpose2d", (4, 32, 64, 64), (32, 4, 3, 3), {"groups": 2, "padding": 1, "stride": 2}),
    ("conv_transpose2d", (2, 16, 80, 80), (16, 16, 3, 3), {"dilation": 2}),
    ("conv_transpose3d", (1, 16, 8, 48, 48), (16, 4, 3, 3, 3), {"stride": (1, 2, 2), "output_padding": (0, 1, 1)}),
]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("turned", [False, True], ids=["contiguous", "permuted"])
@pytest.mark.parametrize("name, sizes, kernels, options", LARGE)
def test_extra_memory(name, sizes, kernels, options, turned, dtype):
    """A convolution takes at most the memory of two outputs and one tile, for all layouts. The weights are small."""
    from metatensor.devices.array_kit.convolution import HOST_TILE

    x = mt.zeros(sizes[::-1] if turned else sizes, dtype=getattr(mt, dtype), device="cpu")
    x = x.permute(*range(len(sizes))[::-1]) if turned else x
    w = mt.zeros(kernels, dtype=x.dtype, device="cpu")
    function = getattr(F, name)
    channels = kernels[1] * options.get("groups", 1) if "transpose" in name else kernels[0]
    bias = mt.zeros(channels, dtype=x.dtype, device="cpu")
    function(x[..., :32], w, bias, **options)  # imports during the first call do not count
    tracemalloc.start()
    try:
        out = function(x, w, bias, **options)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= 2 * out.nbytes + 4 * HOST_TILE + 100_000


@pytest.mark.torch
def test_conv_tbc_and_convolution():
    x, w, b = tensors_of(5, (6, 2, 3), (3, 3, 4), (4,))
    agree(lambda lib, *t: lib.conv_tbc(*t, pad=1), x, w, b)
    x, w = tensors_of(6, (2, 4, 5, 5), (4, 2, 3, 3))
    agree(lambda lib, *t: lib.convolution(*t, None, [2, 1], [1, 0], [1, 1], False, [0, 0], 2), x, w, tolerance=1e-5)
    agree(lambda lib, *t: lib.convolution(*t, None, [2, 1], [1, 0], [1, 1], True, [1, 0], 2), x, w, tolerance=1e-5)


def test_twin_keeps_strides():
    pytest.importorskip("torch")
    t = tensors_of(0, (3, 4))[0].T
    assert twin(t, "meta").stride() == twin(t).stride() == t.stride()


def test_an_empty_batch_takes_any_output_padding():
    f = mt.nn.functional.conv_transpose2d
    w = mt.ones(3, 2, 3, 3)
    assert f(mt.ones(0, 3, 4, 4), w, output_padding=3).shape == (0, 2, 9, 9)
    with pytest.raises(RuntimeError, match="output_padding"):
        f(mt.ones(1, 3, 4, 4), w, output_padding=3)


def test_conv_tbc_of_integers_converts_the_bias():
    x, weight = mt.ones(2, 1, 2, dtype=mt.int32), mt.ones(1, 2, 1, dtype=mt.int32)
    assert mt.conv_tbc(x, weight, mt.tensor([1.7])).tolist() == [[[3]], [[3]]]
    with pytest.raises(RuntimeError):
        mt.conv_tbc(x, weight.float(), mt.ones(1))
