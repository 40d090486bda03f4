"""Normalization layers: metadata compared with PyTorch, errors, and values on every device."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metatensor as mt
from ops.arrays import agree, keeps_statistics, numbers
from ops.layouts import conform, dim_lists, layouts, shapes

F = mt.nn.functional
DTYPES = ("float16", "bfloat16", "float32", "float64")


def meta(*shape, dtype=mt.float32):
    return mt.empty(shape, dtype=dtype, device="meta")


def dense(*shape):
    return shape, tuple(meta(*shape).stride())


# Metadata ------------------------------------------------------------------------------


@pytest.mark.torch
@settings(max_examples=50)
@given(data=st.data())
def test_layer_norm(data):
    layout = data.draw(layouts(min_dims=1, min_size=1))
    n = data.draw(st.integers(0, len(layout[0])))
    shape = layout[0][len(layout[0]) - n :]
    x, w = (layout, data.draw(st.sampled_from(DTYPES))), (dense(*data.draw(st.sampled_from([shape, shape, (2,)]))), "float32")
    conform(lambda m, x: m.nn.functional.layer_norm(x, shape), x)
    conform(lambda m, x, w: m.nn.functional.layer_norm(x, shape, w, w), x, w)
    conform(lambda m, x, w: m.native_layer_norm(x, shape, w, w, 1e-5), x, w)
    if 1 not in layout[0]:  # in dimensions of size 1, PyTorch has the strides of its intermediate results
        conform(lambda m, x, w: m.nn.functional.rms_norm(x, shape, w), x, w)


@pytest.mark.torch
@settings(max_examples=50)
@given(data=st.data())
def test_group_norm(data):
    shape = data.draw(shapes(max_dims=5, min_size=1))
    layout = data.draw(layouts(shape=shape))
    groups, channels = data.draw(st.integers(0, 3)), shape[1] if len(shape) > 1 else 1
    conform(lambda m, x: m.nn.functional.group_norm(x, groups), (layout, data.draw(st.sampled_from(DTYPES))))
    w = dense(data.draw(st.sampled_from([channels, channels, 3])))
    conform(lambda m, x, w: m.nn.functional.group_norm(x, groups, w, w), (layout, "float32"), (w, "float32"))


@pytest.mark.torch
@given(data=st.data())
def test_normalize(data):
    layout = data.draw(layouts(min_size=1))
    dim = data.draw(dim_lists(len(layout[0])).filter(lambda d: d is not None))
    conform(lambda m, x: m.nn.functional.normalize(x, 2.0, dim), (layout, data.draw(st.sampled_from([*DTYPES, "complex64"]))))


@pytest.mark.torch
@settings(max_examples=50)
@given(data=st.data())
def test_local_response_norm(data):
    layout = dense(*data.draw(shapes(max_dims=5)))
    size = data.draw(st.integers(0, 3))
    conform(lambda m, x: m.nn.functional.local_response_norm(x, size), (layout, "float32"))


def test_memory_format():
    x = mt.empty(2, 4, 3, 3, device="meta").to(memory_format=mt.channels_last)
    stats = meta(4), meta(4)
    assert F.batch_norm(x, *stats).stride() == x.stride()
    assert F.group_norm(x, 2).is_contiguous()
    assert F.instance_norm(x).is_contiguous()
    assert F.layer_norm(x, (3,)).is_contiguous()


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: F.layer_norm(meta(2, 3), (4,)), RuntimeError, r"layer_norm.*\[4\].*\[2, 3\]"),
        (lambda: F.layer_norm(meta(2, 3), ()), RuntimeError, r"layer_norm.*normalized_shape.*\[\]"),
        (lambda: F.layer_norm(meta(2, 3), (3,), meta(2)), RuntimeError, r"layer_norm.*weight.*\[3\].*\[2\]"),
        (lambda: F.layer_norm(meta(2, 3), (3,), None, meta(2)), RuntimeError, r"layer_norm.*bias.*\[3\].*\[2\]"),
        (lambda: F.layer_norm(meta(3, dtype=mt.int64), (3,)), NotImplementedError, "layer_norm.*int64"),
        (lambda: F.layer_norm(meta(3), (3,), meta(3, dtype=mt.float64)), RuntimeError, "layer_norm.*weight.*float32.*float64"),
        (lambda: F.layer_norm(meta(3), 3), TypeError, "layer_norm.*normalized_shape"),
        (lambda: F.rms_norm(meta(2, 3), (4,)), RuntimeError, r"rms_norm.*\[4\].*\[2, 3\]"),
        (lambda: F.group_norm(meta(2, 3), 2), RuntimeError, r"group_norm.*\[2, 3\].*2"),
        (lambda: F.group_norm(meta(3), 1), RuntimeError, r"group_norm.*\[3\]"),
        (lambda: F.local_response_norm(meta(2, 3), 2), ValueError, r"local_response_norm.*\[2, 3\]"),
        (lambda: F.normalize(meta(2, 3), dim=2), IndexError, "normalize.*2"),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


# Values ---------------------------------------------------------------------------------


@pytest.mark.torch
@pytest.mark.parametrize("dtype", [*DTYPES, "complex64"])
def test_layer_values(dtype, device):
    x = numbers(dtype, (3, 4, 5))
    for n in (1, 2, 3):
        shape = x.shape[3 - n :]
        w, b = numbers(dtype, shape, 1), numbers(dtype, shape, 2)
        if dtype != "complex64":
            agree(lambda m, x, w, b, s=shape: m.nn.functional.layer_norm(x, s, w, b), x, w, b, dtype=dtype, device=device)
            if keeps_statistics(dtype, device):
                agree(lambda m, x, w, b, s=shape: m.native_layer_norm(x, s, w, b, 0.1), x, w, b, dtype=dtype, device=device)
        agree(lambda m, x, w, s=shape: m.nn.functional.rms_norm(x, s, w), x, w, dtype=dtype, device=device)
        agree(lambda m, x, s=shape: m.nn.functional.rms_norm(x.permute(0, 1, 2), s, eps=0.1), x, dtype=dtype, device=device)


@pytest.mark.torch
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5, 4), (2, 4, 3), (2, 4, 3, 5)])
def test_group_values(shape, dtype, device):
    x, w, b = numbers(dtype, shape), numbers(dtype, (4,), 1), numbers(dtype, (4,), 2)
    for groups in (1, 2, 4):
        agree(lambda m, x, w, b, g=groups: m.nn.functional.group_norm(x, g, w, b), x, w, b, dtype=dtype, device=device)
        if not keeps_statistics(dtype, device):
            continue
        agree(
            lambda m, x, g=groups: m.native_group_norm(x, None, None, shape[0], 4, x.numel() // (4 * shape[0]), g, 0.1),
            x, dtype=dtype, device=device,
        )  # fmt: skip


@pytest.mark.torch
@pytest.mark.parametrize("dtype", DTYPES)
def test_other_values(dtype, device):
    x = numbers(dtype, (2, 4, 3, 5))
    for p in (2.0, 1.0, 0.5):
        agree(lambda m, x, p=p: m.nn.functional.normalize(x, p, (1, 2)), x, dtype=dtype, device=device)
    agree(lambda m, x: m.nn.functional.local_response_norm(x, 3, 0.1, 0.6, 1.5), x, dtype=dtype, device=device)
    agree(lambda m, x: m.nn.functional.local_response_norm(x[0], 3, 0.1, 0.6, 1.5), x, dtype=dtype, device=device)


def test_far_from_zero(device):
    """Two passes give an accurate small variance for a large mean."""
    x = (np.random.default_rng(0).normal(size=(4, 1000)) + 10_000).astype(np.float32)
    wide = x.astype(np.float64)
    exact = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    found = F.layer_norm(mt.from_numpy(x).to(device), (1000,)).cpu().numpy()
    np.testing.assert_allclose(found, exact, atol=5e-3)
    batch = F.batch_norm(mt.from_numpy(np.ascontiguousarray(x.T)).to(device), None, None, training=True).cpu().numpy()
    np.testing.assert_allclose(batch.T, exact, atol=5e-3)


def test_parameters_of_half_precision():
    half, single = mt.ones(1, 2, dtype=mt.float16), mt.ones(2)
    assert mt.native_layer_norm(half, [2], None, single, 1e-5)[1].dtype is mt.float32
    assert mt.native_group_norm(half, None, single, 1, 2, 1, 1, 1e-5)[1].dtype is mt.float32
    assert mt.native_layer_norm(half, [2], None, None, 1e-5)[1].dtype is mt.float16
    for weight, bias in ((single, single.half()), (single.half(), single)):
        with pytest.raises(RuntimeError):
            mt.native_layer_norm(half, [2], weight, bias, 1e-5)
