"""Activation functions: values compared with PyTorch and their definitions, inplace flags, dtypes and errors."""

import numpy as np
import pytest

import metatensor as mt
from ops.pairs import COMPLEX, FLOATS, INTS, outcome, pair, same, samples, values

F = mt.nn.functional

PLAIN = (
    "relu", "relu6", "gelu", "silu", "mish", "elu", "selu", "celu", "leaky_relu", "hardtanh", "hardswish",
    "hardsigmoid", "softplus", "softshrink", "hardshrink", "softsign", "tanhshrink", "logsigmoid", "sigmoid", "tanh",
    "rrelu",
)  # fmt: skip
OPTIONS = [
    ("gelu", {"approximate": "tanh"}), ("elu", {"alpha": 2.0}), ("celu", {"alpha": 2.0}), ("celu", {"alpha": -2.0}),
    ("leaky_relu", {"negative_slope": 0.3}), ("hardtanh", {"min_val": -0.3, "max_val": 0.4}),
    ("softplus", {"beta": 2.0, "threshold": 3.0}), ("softshrink", {"lambd": 1.0}), ("hardshrink", {"lambd": 1.0}),
    ("threshold", {"threshold": 0.4, "value": 9.0}), ("rrelu", {"lower": 0.2, "upper": 0.4}),
]  # fmt: skip
SWITCHED = (
    "relu", "relu6", "silu", "mish", "elu", "selu", "celu", "leaky_relu", "hardtanh", "hardswish", "hardsigmoid", "rrelu",
)  # fmt: skip
UNDERSCORED = ("relu", "elu", "selu", "celu", "leaky_relu", "hardtanh", "rrelu")


def meta(dtype="float32", shape=(3,)):
    return mt.empty(shape, dtype=getattr(mt, dtype), device="meta")


@pytest.mark.torch
@pytest.mark.parametrize("op", PLAIN)
def test_values_of_torch(op):
    import torch

    for dtype in (*FLOATS, *INTS, *COMPLEX):
        array = samples(dtype)
        if op == "gelu":
            array = array[~np.isinf(array)]  # PyTorch returns NaN
        if op == "softsign" and dtype in INTS:
            array = array[(array > -100) & (array < 100)]  # PyTorch wraps around
        ours, theirs = pair(array, dtype)
        reference = outcome(getattr(torch.nn.functional, op), theirs)
        if not isinstance(reference, Exception):
            same(getattr(F, op)(ours), reference)


@pytest.mark.torch
@pytest.mark.parametrize("op, options", OPTIONS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_options(op, options, dtype):
    import torch

    array = samples(dtype)
    ours, theirs = pair(array[~np.isinf(array)], dtype)
    same(getattr(F, op)(ours, **options), getattr(torch.nn.functional, op)(theirs, **options))


def test_relu(device):
    t = mt.from_numpy(np.array([-1.0, 0.0, 2.0, np.nan], "float32")).to(device)
    assert values(mt.relu(t))[:3].tolist() == [0, 0, 2]
    assert np.isnan(values(t.relu())[3])
    assert values(F.relu6(t * 5))[2] == 6


@pytest.mark.parametrize("op", SWITCHED)
def test_inplace(op, device):
    array = np.array([-1.0, 0.5, 2.0], "float32")
    expected = values(getattr(F, op)(mt.from_numpy(array).to(device)))
    t = mt.from_numpy(array.copy()).to(device)
    assert getattr(F, op)(t, inplace=True) is t
    np.testing.assert_array_equal(values(t), expected)
    if op in UNDERSCORED:
        t = mt.from_numpy(array.copy()).to(device)
        assert getattr(F, op + "_")(t) is t
        np.testing.assert_array_equal(values(t), expected)


def test_threshold_in_place(device):
    t = mt.from_numpy(np.array([-1.0, 0.5, 2.0], "float32")).to(device)
    assert F.threshold(t, 1.0, 7.0, True) is t
    assert values(t).tolist() == [7, 7, 2]


def test_rrelu_draws_slopes(device):
    t = mt.from_numpy(np.full(1000, -1.0, "float32")).to(device)
    result = values(F.rrelu(t, 0.25, 0.5, training=True))
    assert ((result <= -0.25) & (result >= -0.5)).all()
    assert result.std() > 0.01
    assert mt.rrelu(meta(), training=True).shape == (3,)


@pytest.mark.torch
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_glu(dim):
    import torch

    ours, theirs = pair(np.linspace(-3, 3, 24).reshape(2, 6, 2))
    same(F.glu(ours, dim), torch.nn.functional.glu(theirs, dim))


def test_glu_shapes():
    assert F.glu(meta(shape=(2, 6))).shape == (2, 3)
    assert F.glu(mt.empty_strided((4, 6), (1, 4), device="meta")).stride() == (1, 4)
    for shape, dim, error in (((3,), 0, RuntimeError), ((), 0, RuntimeError), ((2, 2), 2, IndexError)):
        with pytest.raises(error, match="glu"):
            F.glu(meta(shape=shape), dim)


@pytest.mark.torch
@pytest.mark.parametrize("shape, weights", [((2, 3), (3,)), ((2, 3, 2), (3,)), ((2, 3), (1,)), ((4,), (1,)), ((2, 3), ())])
def test_prelu(shape, weights):
    import torch

    count = int(np.prod(shape))
    (a, x), (w, v) = pair(np.linspace(-3, 3, count).reshape(shape)), pair(np.linspace(-1, 0.5, int(np.prod(weights))).reshape(weights))
    same(F.prelu(a, w), torch.nn.functional.prelu(x, v))
    same(a.prelu(w), x.prelu(v))


@pytest.mark.parametrize("shape, weights", [((), (2,)), ((2, 8, 3), (9,)), ((2, 8, 3), (2, 4)), ((4,), (4,))])
def test_prelu_weights_that_do_not_fit(shape, weights):
    with pytest.raises(RuntimeError, match="prelu"):
        F.prelu(meta(shape=shape), meta(shape=weights))


@pytest.mark.parametrize(
    "call, error",
    [
        (lambda: mt.relu(meta("bool")), RuntimeError), (lambda: F.relu6(meta("bool")), RuntimeError),
        (lambda: F.relu(meta("complex64")), NotImplementedError), (lambda: F.gelu(meta("int32")), NotImplementedError),
        (lambda: F.gelu(meta(), approximate="fast"), RuntimeError), (lambda: F.celu(meta(), alpha=0), RuntimeError),
        (lambda: F.hardtanh(meta(), 1.0, -1.0), ValueError), (lambda: F.hardtanh(meta("uint8")), RuntimeError),
        (lambda: F.softshrink(meta(), -1.0), RuntimeError), (lambda: F.rrelu(meta(), 0.5, 0.1), RuntimeError),
        (lambda: F.prelu(meta(), meta("float64", (1,))), RuntimeError),
    ],
)  # fmt: skip
def test_errors(call, error):
    with pytest.raises(error) as caught:
        call()
    assert caught.type is error


def test_dtypes():
    assert F.silu(meta("complex64")).dtype is mt.complex64
    assert F.softsign(meta("int32")).dtype is F.tanhshrink(meta("int8")).dtype is mt.float32
    assert F.relu(meta("int8")).dtype is mt.int8


def test_numbers_that_the_dtype_does_not_hold():
    byte = mt.ones(2, dtype=mt.uint8)
    for bound, value in ((0, -4.5), (0, 256), (-1.5, 2), (0, 1j)):
        with pytest.raises(RuntimeError):
            mt.threshold(byte, bound, value)
    assert mt.threshold(byte, 1, 3 + 0j).tolist() == [3, 3]
    assert mt.nn.functional.hardtanh(byte, -0.5, 0.5).tolist() == [0, 0]
    with pytest.raises(RuntimeError):
        mt.nn.functional.hardtanh(byte, -1, 0.5)
