"""Counter-based random numbers: the same bits everywhere, independent slices, and the right distributions.

The compiled generator is compared with `random.philox`, which computes the same with array operations.
"""

import itertools
import math

import numpy as np
import pytest

from devices.fake_cupy import FakeCupy
from metatensor._core import philox as compiled
from metatensor.devices.array_kit.random import HOST_PIECE as PIECE
from metatensor.devices.array_kit.random import UNIFORM_DIGITS, Stream, philox

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
    start //= 2  # near the limits of 64 bits there are not twice as many words
    stream, arrays = Stream(np, seed, ticket), Stream(FakeCupy(), seed, ticket)
    for dtype in ("float32", "float64"):
        assert stream.uniform(n, start, dtype).tolist() == arrays.uniform(n, start, dtype).tolist()
        assert stream.below(n, start, 0.3, dtype).tolist() == arrays.below(n, start, 0.3, dtype).tolist()
        assert stream.normal(n, start, dtype).tolist() == arrays.normal(n, start, dtype).tolist()
        assert stream.normal(n, start, dtype, 5, 0.1).tolist() == arrays.normal(n, start, dtype, 5, 0.1).tolist()
    assert stream.leading(n, start, "float32", 8).tolist() == arrays.leading(n, start, "float32", 8).tolist()


@pytest.mark.parametrize("dtype, error", [("float32", 2.0**-24), ("float64", 1e-14)])
@pytest.mark.parametrize("mean, std", [(0.0, 1.0), (0.5, 0.02), (-3.0, 1e-3)])
def test_normal_numbers_are_the_transform_of_their_words(dtype, error, mean, std):
    """The compiled series for logarithm, cosine and sine agree with NumPy's functions."""
    n, stream = 100_000, Stream(np, 5, 7)
    words, digits = stream.bits(n), 32
    radial, angular = words >> np.uint64(32), words & np.uint64(0xFFFFFFFF)
    if dtype == "float64":
        more, digits = stream.bits(n, compiled.FURTHER), 52
        radial = radial * np.uint64(2**20) + more // np.uint64(2**44)
        angular = angular * np.uint64(2**20) + more % np.uint64(2**20)
    radius = np.sqrt(-2.0 * np.log((radial + 0.5) * 2.0**-digits))
    angle = (angular + 0.5) * 2.0**-digits * (2 * np.pi) - np.pi / 4
    expected = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).reshape(-1) * std + mean
    values = stream.normal(2 * n, dtype=dtype, mean=mean, std=std)
    assert (np.abs(values - expected) <= error * (np.abs(expected) + 6 * std)).all()


def test_normal_doubles_are_the_floats_but_for_rounding():
    stream, n = Stream(np, 5, 7), 1_000_000
    doubles = stream.normal(n, 1)
    assert np.abs(doubles - stream.normal(n, 1, "float32")).max() < 1e-5
    assert len(np.unique(doubles)) == n and (doubles.astype("float32") != doubles).mean() > 0.999


class Chosen(Stream):
    """A stream with given words."""

    def bits(self, n, start=0):
        words = [0, 2**64 - 1, 0xFFFFFFFF, 2**64 - 2**32, 1 << 63, 0x7FFFFFFF7FFFFFFF]
        return self.xp.asarray(np.array(words[start % compiled.FURTHER :][:n], np.uint64))


@pytest.mark.parametrize("dtype, farthest", [("float32", 6.76), ("float64", 8.58)])
def test_extreme_words(dtype, farthest):
    """The largest and smallest words give finite numbers, beyond 6 standard deviations, and none gives exactly 0."""
    cupy = FakeCupy()
    values = cupy.asnumpy(Chosen(cupy, 0, 0).normal(12, dtype=dtype))
    assert np.isfinite(values).all() and (values != 0).all()
    assert np.abs(values).max() < farthest < np.hypot(values[0], values[1]) + 0.01


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("low, high", [(-0.5, 0.25), (1.0, 1.0 + 2.0**-20), (3.0, 3.0), (-2.0, -1e-3), (1e30, 2e30)])
def test_bounds_of_uniform_numbers(dtype, low, high):
    """The compiled numbers are those of array operations, and never the upper bound."""
    n, digits, of = 3000, UNIFORM_DIGITS[dtype], np.dtype(dtype).type
    out = np.empty(n, dtype)
    compiled.fill_uniform(out, out.itemsize, digits, low, high, 8, 9, 5)
    expected = Stream(np, 8, 9).uniform(n, 5, dtype) * of(high - low) + of(low)
    expected[expected >= of(high)] = of(low)
    assert out.tolist() == expected.tolist()
    assert (out >= low).all() and ((out < high).all() or low == high)


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
        (lambda: compiled.fill_uniform(short, 1, 4, 0, 1, 0, 0, 0), ValueError),
        (lambda: compiled.fill_below(short, 30, 0.5, 0, 0, 0), ValueError),
        (lambda: compiled.fill_normal(np.empty(4, np.float16), 2, 0, 1, 0, 0, 0), ValueError),
        (lambda: compiled.fill_normal(short, 4, 0, 1, 0, 0, 0), ValueError),
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
    assert scipy_stats.kstest(values[::2], "norm").pvalue > 1e-3 and scipy_stats.kstest(values[1::2], "norm").pvalue > 1e-3
    # Neighbours are not correlated, and neither are their squares, although pairs have a common distance.
    for part in (values, values**2, np.abs(values)):
        for step in (1, 2, 3):
            assert abs(np.corrcoef(part[:-step], part[step:])[0, 1]) < 0.01
    assert abs(np.corrcoef(values[::2], values[1::2] ** 2)[0, 1]) < 0.015
    assert scipy_stats.kstest(np.exp(-(values[::2].astype(float) ** 2 + values[1::2].astype(float) ** 2) / 2), "uniform").pvalue > 1e-3


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_moments_and_tails_of_normal_numbers(dtype):
    """Each statistic is within five of its standard deviations."""
    n = 1 << 21
    values = Stream(np, 3, 4).normal(n, dtype=dtype).astype(np.float64)
    variances = {1: 1.0, 2: 2.0, 3: 15.0, 4: 96.0, 5: 945.0, 6: 10170.0}  # of the powers of a normal variable
    powers = np.ones(n)
    for power, variance in variances.items():
        powers *= values
        expected = math.prod(range(power - 1, 0, -2)) if power % 2 == 0 else 0
        assert abs(powers.mean() - expected) < 5 * math.sqrt(variance / n)
    for bound in (0.01, 1.0, 2.0, 3.0, 4.0, 4.5):
        p = math.erfc(bound / math.sqrt(2)) / 2
        for beyond in ((values > bound).sum(), (values < -bound).sum()):
            assert abs(beyond - n * p) < 5 * math.sqrt(n * p * (1 - p))
    assert 4.6 < np.abs(values).max() < 6


@pytest.mark.parametrize("call, error", [
    (lambda stream: stream.bits(-1), ValueError), (lambda stream: stream.bits(1, -1), ValueError),
    (lambda stream: stream.bits(1.5), TypeError), (lambda stream: stream.uniform(2, dtype="int64"), ValueError),
    (lambda stream: stream.normal(2, dtype="complex64"), ValueError), (lambda stream: stream.normal(-5), ValueError),
])
def test_errors(call, error):
    with pytest.raises(error):
        call(Stream(np, 0, 0))
