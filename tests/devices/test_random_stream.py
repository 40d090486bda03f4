"""Counter-based random numbers: the same bits everywhere, independent slices, and the right distributions.

The compiled generator is compared with `random.philox`, which computes the same with array operations.
"""

import itertools

import numpy as np
import pytest

from devices.fake_cupy import FakeCupy
from metatensor._core import philox as compiled
from metatensor.devices.array_kit.random import HOST_PIECE as PIECE
from metatensor.devices.array_kit.random import Stream, philox

# Seeds, tickets and starts near the limits of 64 bits, where carries occur.
EDGES = [
    (0, 0, 0), (7, 3, 5), (2**63 + 5, 2**64 - 1, 4 * (2**64 - 3) + 1), (-1, 9, 12345678901234567890123), (5, 5, 4 * 2**64 - 4),
]


@pytest.mark.parametrize("seed, ticket, start", EDGES)
@pytest.mark.parametrize("n", [0, 1, 4, 33])
def test_array_arithmetic_gives_the_bits_of_numpy(seed, ticket, start, n):
    stream = Stream(np, seed, ticket)
    block, skip = divmod(start, 4)
    words = philox(np, stream.seed, stream.ticket, block + 1, -(-(skip + n) // 4))
    assert stream.bits(n, start).tolist() == words[skip : skip + n].tolist()


def test_known_answer():
    """Philox4x64-10 with key 0 gives NumPy's words from counter 1, and Random123's known answer for counter 0."""
    expected = np.random.Philox(key=[0, 0], counter=[0, 0, 0, 0]).random_raw(8)
    assert philox(np, 0, 0, 1, 2).tolist() == expected.tolist()
    # NumPy increments the counter before each block, so its first block has counter 1. Random123 starts at counter 0.
    assert [hex(word) for word in philox(np, 0, 0, 0, 1).tolist()] == [
        "0x16554d9eca36314c", "0xdb20fe9d672d0fdc", "0xd7e772cee186176b", "0x7e68b68aec7ba23b",
    ]


@pytest.mark.parametrize("method, dtype", list(itertools.product(["uniform", "normal"], ["float32", "float64"])))
def test_a_slice_drawn_alone_is_the_slice(method, dtype):
    draw = getattr(Stream(np, 11, 12), method)
    n = 2 * PIECE + 100
    whole = draw(n, dtype=dtype)
    assert whole.dtype == dtype and whole.shape == (n,)
    for start, count in [(0, 1), (1, 2), (3, 5), (PIECE - 1, 3), (n - 1, 1), (17, PIECE + 9)]:
        assert (draw(count, start, dtype=dtype) == whole[start : start + count]).all()


@pytest.mark.slow
@pytest.mark.parametrize("seed, ticket, start", EDGES)
@pytest.mark.parametrize("n", [1, 7, 511, 1030])
def test_compiled_values_are_those_of_arrays(seed, ticket, start, n):
    start //= 2  # a normal value uses two words
    stream, arrays = Stream(np, seed, ticket), Stream(FakeCupy(), seed, ticket)
    for dtype in ("float32", "float64"):
        assert stream.uniform(n, start, dtype).tolist() == arrays.uniform(n, start, dtype).tolist()
        assert stream.below(n, start, 0.3, dtype).tolist() == arrays.below(n, start, 0.3, dtype).tolist()
        assert stream.normal(n, start, dtype).tolist() == arrays.normal(n, start, dtype).tolist()
        assert stream.normal(n, start, dtype, 5, 0.1).tolist() == arrays.normal(n, start, dtype, 5, 0.1).tolist()
    assert stream.leading(n, start, "float32", 8).tolist() == arrays.leading(n, start, "float32", 8).tolist()


@pytest.mark.parametrize("mean, std", [(0.0, 1.0), (0.5, 0.02), (-3.0, 1e-3)])
def test_normal_floats_are_the_rounded_doubles(mean, std):
    """Values near the midpoint between two floats are also right. The compiled functions leave them to NumPy."""
    n, stream = 3_000_000, Stream(np, 5, 7)
    out = np.empty(n, np.float32)
    doubtful = compiled.fill_normal(out, mean, std, 5, 7, 0)
    assert 0 <= len(doubtful) < n / 10_000
    values = stream.normal(n, dtype="float32", mean=mean, std=std)
    assert (values == (stream.normal(n) * std + mean).astype(np.float32)).all()


@pytest.mark.parametrize("p, digits", [
    (0.0, 24), (1.0, 24), (0.5, 24), (2.0**-24, 24), (2.0**-25, 24), (1 - 2.0**-24, 24), (2.0**-53, 53), (1 - 2.0**-53, 53),
    (0.1, 53), (-1.0, 53), (2.0, 53), (float("nan"), 53),
])
def test_below(p, digits):
    stream, n = Stream(np, 8, 9), 3000
    out = np.empty(n, np.bool_)
    compiled.fill_below(out, digits, p, 8, 9, 0)
    assert (out == (stream.uniform(n, dtype="float32" if digits == 24 else "float64") < np.float64(p))).all()


@pytest.mark.parametrize("low, high", [
    (0, 1), (0, 10), (-5, 3), (0, 3 << 62), (-(2**63), 2**63), (0, 2**64), (-(2**63), 2**63 - 1), (7, 7 + 2**32), (0, 2**63 + 1),
])
def test_integers(low, high):
    """Words beyond the largest multiple of the range are replaced by words of other seeds."""
    n, seed, ticket, start, span = 600, 2**64 - 3, 5, 4 * 2**64 - 301, high - low
    out = np.empty(n, np.uint64)
    compiled.fill_integers(out, low, high, seed, ticket, start)
    expected = []
    tries = [Stream(np, seed + i * 0x9E3779B97F4A7C15, ticket).bits(n, start).tolist() for i in range(20)]
    for words in zip(*tries, strict=True):
        word = next(word for word in words if word < (1 << 64) - (1 << 64) % span)
        expected.append((word % span + low) % (1 << 64))
    assert out.tolist() == expected


def test_compiled_errors():
    short, closed = np.empty(3, np.uint8), np.empty(2, np.uint64)
    closed.flags.writeable = False
    for call, error in [
        (lambda: compiled.fill_bits(short, 0, 0, 0), ValueError), (lambda: compiled.fill_bits(closed, 0, 0, 0), (BufferError, ValueError)),
        (lambda: compiled.fill_bits(np.empty((4, 4), np.uint64)[:, ::2], 0, 0, 0), (BufferError, ValueError)),
        (lambda: compiled.fill_uniform(short, 1, 4, 0, 0, 0), ValueError),
        (lambda: compiled.fill_below(short, 30, 0.5, 0, 0, 0), ValueError),
        (lambda: compiled.fill_polar(np.empty(2), np.empty(3), 0, 0, 0), ValueError),
        (lambda: compiled.fill_integers(np.empty(2, np.int64), 3, 3, 0, 0, 0), ValueError),
        (lambda: compiled.fill_bits(None, 0, 0, 0), TypeError),
    ]:
        with pytest.raises(error):
            call()


def test_streams_differ_by_seed_and_ticket():
    draws = {tuple(Stream(np, seed, ticket).bits(4).tolist()) for seed in range(5) for ticket in range(5)}
    assert len(draws) == 25
    assert Stream(np, -1, 0).bits(2).tolist() == Stream(np, 2**64 - 1, 0).bits(2).tolist()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_uniform(dtype):
    scipy_stats = pytest.importorskip("scipy.stats")
    values = Stream(np, 1, 2).uniform(200_000, dtype=dtype)
    assert values.min() >= 0 and values.max() < 1
    assert scipy_stats.kstest(values, "uniform").pvalue > 1e-3


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normal(dtype):
    scipy_stats = pytest.importorskip("scipy.stats")
    values = Stream(np, 1, 2).normal(200_000, dtype=dtype)
    assert np.isfinite(values).all()
    assert scipy_stats.kstest(values, "norm").pvalue > 1e-3
    # Neighbours are computed from different words, so they are not correlated.
    assert abs(np.corrcoef(values[:-1], values[1:])[0, 1]) < 0.01


@pytest.mark.parametrize("call, error", [
    (lambda stream: stream.bits(-1), ValueError), (lambda stream: stream.bits(1, -1), ValueError),
    (lambda stream: stream.bits(1.5), TypeError), (lambda stream: stream.uniform(2, dtype="int64"), ValueError),
    (lambda stream: stream.normal(2, dtype="complex64"), ValueError), (lambda stream: stream.normal(-5), ValueError),
])
def test_errors(call, error):
    with pytest.raises(error):
        call(Stream(np, 0, 0))
