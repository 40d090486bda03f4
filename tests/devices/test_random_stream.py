"""Counter-based random numbers: the same bits everywhere, any slice alone, and the right distributions."""

import itertools

import numpy as np
import pytest

from metatensor.devices.array_kit.random import PIECE, Stream, philox

# Seeds, tickets and starts at the edges of 64 bits, where carries happen.
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
    """Philox4x64-10 of an all-zero key: the first block of the reference implementation, counted from 1."""
    expected = np.random.Philox(key=[0, 0], counter=[0, 0, 0, 0]).random_raw(8)
    assert philox(np, 0, 0, 1, 2).tolist() == expected.tolist()
    # The reference's known-answer vector for counter 0, key 0.
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
    # Neighbours come from different words: no correlation.
    assert abs(np.corrcoef(values[:-1], values[1:])[0, 1]) < 0.01


@pytest.mark.parametrize("call, error", [
    (lambda stream: stream.bits(-1), ValueError), (lambda stream: stream.bits(1, -1), ValueError),
    (lambda stream: stream.bits(1.5), TypeError), (lambda stream: stream.uniform(2, dtype="int64"), ValueError),
    (lambda stream: stream.normal(2, dtype="complex64"), ValueError), (lambda stream: stream.normal(-5), ValueError),
])
def test_errors(call, error):
    with pytest.raises(error):
        call(Stream(np, 0, 0))
