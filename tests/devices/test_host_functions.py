"""Compiled functions for host memory, compared with PyTorch's definitions in double precision, and reuse of arrays."""

import itertools

import numpy as np
import pytest

import metatensor as mt
from metatensor._core.device import backend_for
from metatensor.devices.array_kit import host

special = pytest.importorskip("scipy.special")
pytest.importorskip("metatensor_cpu")

EDGES = np.array([0.0, -0.0, 1e-38, 1e-45, -1e-30, 3.9, 3.92, 3.95, 4.0, -4.0, 30.0, -30.0, np.inf, -np.inf, np.nan], np.float32)


def sample(shape, scale=3.0):
    return (np.random.default_rng(0).standard_normal(shape) * scale).astype(np.float32)


def units(values, expected):
    """Return the errors of values in units in the last place of float32."""
    expected = np.asarray(expected, np.float64)
    return np.nanmax(np.abs(values - expected) / np.spacing(np.abs(expected).astype(np.float32) + np.float32(1e-38)))


def test_erf():
    x = np.concatenate([np.linspace(-6, 6, 100_001).astype(np.float32), sample(1000, 1e-3), EDGES[:-3]])
    out = np.empty_like(x)
    host.erf(x, out)
    assert units(out, special.erf(x.astype(np.float64))) < 0.6
    host.erf(EDGES, edges := np.empty_like(EDGES))
    assert edges[-3:-1].tolist() == [1.0, -1.0] and np.isnan(edges[-1]) and np.signbit(edges[1])


def test_gelu():
    x = np.concatenate([np.linspace(-9, 9, 100_001).astype(np.float32), EDGES[:-3]])
    out = np.empty_like(x)
    host.gelu(x, out)
    wide = x.astype(np.float64)
    assert np.abs(out - wide * special.ndtr(wide)).max() < 3e-7
    host.gelu(x, x)  # in place
    assert (x == out).all()


@pytest.mark.parametrize("rows, n", list(itertools.product([1, 7], [1, 2, 15, 16, 17, 33, 384, 1000])))
def test_softmax(rows, n):
    x = sample((rows, n))
    out = np.empty_like(x)
    host.softmax(x, out, n)
    np.testing.assert_allclose(out, special.softmax(x.astype(np.float64), 1), rtol=3e-6, atol=1e-37)
    assert np.abs(out.sum(1) - 1).max() < 1e-5


@pytest.mark.parametrize("n", [3, 20])
def test_softmax_of_what_is_not_finite(n):
    x = np.zeros((5, n), np.float32)
    x[0, 1], x[1, 0], x[2, -1], x[3], x[4, 0] = -np.inf, np.inf, np.nan, -np.inf, -1000
    out = np.empty_like(x)
    host.softmax(x, out, n)
    assert out[0, 1] == 0 and np.isfinite(out[0]).all() and np.isnan(out[1:4]).all() and out[4, 0] == 0
    host.softmax(x, out, n, True)
    assert np.isnan(out[1:3]).all() and (out[3] == 0).all()


@pytest.mark.parametrize("rows, n", list(itertools.product([1, 5], [1, 2, 16, 31, 384])))
def test_layer_norm(rows, n):
    x, weight, bias = sample((rows, n)) + 100, sample(n), sample(n)
    wide = x.astype(np.float64)
    plain = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    for w, b in itertools.product((weight, None), (bias, None)):
        out = np.empty_like(x)
        host.layer_norm(x, w, b, out, n, 1e-5)
        expected = plain * (1 if w is None else w) + (0 if b is None else b)
        np.testing.assert_allclose(out, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_beyond(dtype):
    index = np.arange(6).astype(dtype).reshape(2, 3)
    top = np.iinfo(dtype).max
    for values, size, expected in [
        (index, 6, False), (index, 5, True), (index - 1, 6, True), (index - 1, 1 << 40, True), (index[:0], 0, False),
        (index, 0, True), (np.array(top, dtype), 1 << 40, top >= 1 << 40), (np.array([top, -top - 1], dtype), top, True),
    ]:
        assert host.beyond(values, size) is expected


def test_errors():
    x, out = sample((4, 6)), np.empty((4, 6), np.float32)
    for call in [
        lambda: host.erf(x, out[:3]), lambda: host.gelu(x.astype("f8"), out), lambda: host.softmax(x, out, 5),
        lambda: host.softmax(x, out, 0), lambda: host.layer_norm(x, x[0, :5], None, out, 6, 0.0),
        lambda: host.layer_norm(x, None, None, out[:2], 6, 0.0), lambda: host.erf(x[:, ::2], out[:, ::2]),
        lambda: host.beyond(x, 3), lambda: host.beyond(np.arange(6)[::2], 3),
    ]:  # fmt: skip
        with pytest.raises((ValueError, BufferError)):
            call()
    out.flags.writeable = False
    with pytest.raises((ValueError, BufferError)):
        host.gelu(x, out)


# Results of kernels ------------------------------------------------------------------------------------------------


def handle(tensor):
    return tensor.untyped_storage().data


def test_a_large_array_that_a_kernel_makes_is_the_result():
    """The array is counted in the memory statistics, can grow, and is shared with NumPy like other memory."""
    stats = backend_for("cpu").memory_stats
    x = mt.arange(100_000, dtype=mt.float32)
    before = stats()["allocated_bytes.all.current"]
    y = mt.where(x > 5, x, -x)
    assert isinstance(handle(y), np.ndarray) and not isinstance(handle(x), np.ndarray)
    assert stats()["allocated_bytes.all.current"] == before + 400_000
    view = y.numpy()
    y += 1
    assert view[2] == -1 and view[7] == 8
    y.untyped_storage().resize_(800_000)
    assert y.tolist()[:8] == view[:8].tolist()
    del y, view
    assert stats()["allocated_bytes.all.current"] == before


def test_results_that_exist_are_written_in_place():
    x = mt.arange(100_000, dtype=mt.float32)
    for target in (mt.empty(100_000), mt.empty(200_000)[::2]):
        memory = target.numpy()
        mt.where(x > 5, x, -x, out=target)
        assert memory[:7].tolist() == [0, -1, -2, -3, -4, -5, 6]


def test_an_argument_is_never_its_own_result():
    """If a kernel returns its argument, the values are copied."""
    x = mt.ones(100_000, dtype=mt.int64)
    y = mt.floor(x)
    y += 1
    assert int(x.sum()) == 100_000 and int(y.sum()) == 200_000


@pytest.mark.slow
def test_zeros_of_fresh_memory_and_of_used():
    n = 10_000_000  # large enough to come directly from the system
    x = mt.zeros(n)
    assert float(x.abs().sum()) == 0
    x += 1
    assert float(mt.zeros_like(x).abs().sum()) == 0 and float(x.sum()) == n
    y = mt.empty(n)
    y.fill_(3)
    assert float(y.zero_().sum()) == 0
    y.fill_(3)
    assert float(mt.zeros(n, out=y).sum()) == 0
    z = mt.empty(n)
    np.frombuffer(handle(z), np.uint8)[:4] = 255  # the address was exported
    assert float(mt.zeros(n, out=z).sum()) == 0


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e5m2", "float8_e4m3fn", "complex32", "int8", "complex128", "bool"])
def test_zeros_of_every_kind(name):
    made = mt.full((3, 4), 1, dtype=mt.float32).to(getattr(mt, name)) if name != "complex32" else mt.ones(3, 4, dtype=mt.complex32)
    assert bytes(backend_for("cpu").to_host(mt.zeros_like(made.T))) == bytes(12 * made.itemsize)
    made.zero_()
    assert bytes(backend_for("cpu").to_host(made)) == bytes(12 * made.itemsize)


def test_numbers_beside_arrays():
    """Numbers that NumPy would reject or round differently take the slow path."""
    assert mt.add(mt.ones(2, dtype=mt.int8), 300).tolist() == [45, 45]
    assert mt.mul(mt.ones(2, dtype=mt.uint8), -1).tolist() == [255, 255]
    assert mt.add(mt.ones(2, dtype=mt.int64), 1.5).tolist() == [2.5, 2.5]
    assert mt.add(mt.ones(2), 1 << 40).tolist() == [float(np.float32((1 << 40) + 1))] * 2
    assert mt.add(mt.ones(2), 1e300).tolist() == [float("inf")] * 2
    assert mt.add(mt.ones(2, dtype=mt.float16), 1).dtype is mt.float16
    assert mt.add(mt.ones(2, dtype=mt.float16), 2.0, alpha=0.5).tolist() == [2, 2]
    assert (mt.ones(2, dtype=mt.int32) > 0.5).tolist() == [True, True]
    assert (mt.ones(2, dtype=mt.bool) & True).tolist() == [True, True]


def test_float16_is_rounded_once():
    x = sample(10_000).astype(np.float16)
    y = mt.from_numpy(x)
    expected = (x.astype(np.float32) * x.astype(np.float32)).astype(np.float16)
    assert (mt.mul(y, y).numpy() == expected).all()
    assert (mt.mul(y[::3], y[::3]).numpy() == expected[::3]).all()
