"""batch_norm and instance_norm: metadata compared with PyTorch, running statistics, errors, and values on every device."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metatensor as mt
from ops.arrays import agree, keeps_statistics, numbers
from ops.layouts import conform, layouts

F = mt.nn.functional
DTYPES = ("float16", "bfloat16", "float32", "float64")


def meta(*shape, dtype=mt.float32):
    return mt.empty(shape, dtype=dtype, device="meta")


def dense(*shape):
    return shape, tuple(meta(*shape).stride())


@pytest.mark.torch
@settings(max_examples=50)
@given(data=st.data())
def test_batch_norm(data):
    layout = data.draw(layouts(min_dims=2, max_dims=5, min_size=2, max_size=3))
    channels = data.draw(st.sampled_from([layout[0][1]] * 5 + [1]))
    training, x, v = data.draw(st.booleans()), (layout, data.draw(st.sampled_from(DTYPES))), (dense(channels), "float32")

    def batch_norm(m, x, a, b, w, c):
        return m.nn.functional.batch_norm(x, a, b, w, c, training)

    conform(batch_norm, x, v, v, v, v)
    conform(lambda m, x: m.nn.functional.batch_norm(x, None, None, training=training), x)
    if channels == layout[0][1] and (np.prod(layout[0]) > channels or not training):
        conform(lambda m, x, a, b, w, c: m.native_batch_norm(x, w, c, a, b, training, 0.1, 1e-5), x, v, v, v, v)
    conform(lambda m, x, a, b, w, c: m.nn.functional.instance_norm(x, a, b, w, c, training), x, v, v, v, v)
    conform(lambda m, x: m.nn.functional.instance_norm(x, use_input_stats=training), x)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: F.batch_norm(meta(2, 3), None, None), RuntimeError, "batch_norm.*running_mean"),
        (lambda: F.batch_norm(meta(2, 3), meta(4), meta(3)), RuntimeError, r"batch_norm.*running_mean.*3.*4"),
        (lambda: F.batch_norm(meta(2, 3), meta(3), meta(3), meta(2)), RuntimeError, r"batch_norm.*weight.*3.*2"),
        (lambda: F.batch_norm(meta(1, 3), None, None, training=True), ValueError, r"batch_norm.*\[1, 3\]"),
        (lambda: F.instance_norm(meta(2, 3, 1)), ValueError, r"instance_norm.*\[2, 3, 1\]"),
        (lambda: F.instance_norm(meta(2, 3, 4), use_input_stats=False), RuntimeError, "instance_norm.*running_mean"),
        (lambda: F.batch_norm(meta(2, 3), meta(1, 3), meta(3)), RuntimeError, "1 dimension, got shapes"),
        (lambda: F.batch_norm(meta(2, 3), meta(3), meta(3, 1), training=True), RuntimeError, "1 dimension, got shapes"),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_training_writes_the_running_statistics():
    mean, var = meta(3), meta(3)
    versions = mean._version, var._version
    F.batch_norm(meta(4, 3), mean, var)
    assert (mean._version, var._version) == versions
    F.batch_norm(meta(4, 3), mean, var, training=True)
    assert mean._version > versions[0] and var._version > versions[1]


@pytest.mark.torch
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("shape", [(5, 4), (2, 4, 3), (2, 4, 3, 5)])
def test_batch_values(shape, training, dtype, device):
    x = numbers(dtype, shape)
    mean, var, w, b = (numbers(dtype, (4,), i) for i in range(4))

    def batch_norm(m, x, mean, var, w, b):
        return m.nn.functional.batch_norm(x, mean, var, w, b, training, 0.3, 1e-3), mean, var

    def instance_norm(m, x, mean, var, w, b):
        return m.nn.functional.instance_norm(x, mean, var, w, b, training, 0.3, 1e-3), mean, var

    agree(batch_norm, x, mean, abs(var), w, b, dtype=dtype, device=device)
    agree(lambda m, x: m.nn.functional.batch_norm(x, None, None, training=True), x, dtype=dtype, device=device)
    if len(shape) > 2:
        agree(instance_norm, x, mean, abs(var), w, b, dtype=dtype, device=device)
        agree(lambda m, x: m.nn.functional.instance_norm(x), x, dtype=dtype, device=device)
    if training and keeps_statistics(dtype, device):
        agree(
            lambda m, x, mean, var, w, b: m.native_batch_norm(x, w, b, mean, var, True, 0.3, 1e-3),
            x, mean, abs(var), w, b, dtype=dtype, device=device,
        )  # fmt: skip


@pytest.mark.parametrize("function", ["batch_norm", "instance_norm"])
def test_running_statistics_stay_out_of_gradients(function):
    mean, var = mt.zeros(3, device="meta"), mt.ones(3, device="meta")
    weight = mt.ones(3, device="meta", requires_grad=True)
    options = {"training": True} if function == "batch_norm" else {"use_input_stats": True}
    result = getattr(mt.nn.functional, function)(mt.empty(2, 3, 4, device="meta"), mean, var, weight, **options)
    assert result.requires_grad and not mean.requires_grad and not var.requires_grad
    assert mean.is_leaf and mt.is_grad_enabled()


@pytest.mark.torch
@pytest.mark.parametrize("shape", [(3, 2, 1, 2), (6, 2, 1, 3), (2, 3, 4, 1), (1, 2, 2, 3), (2, 1, 3)])
def test_strides_of_permuted_images(shape):
    """A dimension of size 1 does not determine the order in memory."""
    import itertools

    import torch

    for order in itertools.permutations(range(len(shape))):
        found = []
        for m in (torch, mt):
            x = m.ones(shape).permute(order)
            found.append((x.shape[1], m.nn.functional.batch_norm(x, m.zeros(x.shape[1]), m.ones(x.shape[1])).stride()))
        assert found[0] == found[1], order


def test_statistics_need_channels(device):
    with pytest.raises(RuntimeError, match="2 dimensions"):
        mt._core.op.registry["nn.functional._batch_statistics"](mt.ones((), device=device), None, 1e-5)
    for shape, error in (((), RuntimeError), ((3,), IndexError)):
        for training in (True, False):
            with pytest.raises(error, match="at least 2 dimensions"):
                mt._core.op.registry["native_batch_norm"](mt.ones(shape, device=device), None, None, None, None, training, 0.1, 1e-5)
