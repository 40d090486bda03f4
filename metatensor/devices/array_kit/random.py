"""Counter-based random streams: element i of a draw depends only on the seed, the ticket and i.

A ticket is the number of a draw. Every call of a random operator takes the next ticket from its generator. The random
numbers are those of Philox4x64-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011).
The key is (seed, ticket) and the counter is the block number. Any slice of any draw can therefore be generated
separately, in any order and on any device, with the same bits. Word j of a draw is word j % 4 of the block with counter
j // 4 + 1, because counters start at 1 as in NumPy's Philox. For NumPy arrays the words come from compiled code,
`metatensor._core.philox`.

The kernels that fill tensors are in `metatensor.devices.array_kit.distributions`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from metatensor._core import philox as host
from metatensor.devices.threads import LEAST, share_out

__all__ = ["Stream", "fill_in_parts", "philox"]

_MASK = (1 << 64) - 1
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
_KEY_STEPS = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)  # the golden ratio and sqrt(3) - 1, in 64 bits
_ROUNDS = 10

# Longer draws are generated in chunks. On the host a chunk should fit in the cache. On other devices, large
# chunks save kernel launches.
HOST_PIECE, DEVICE_PIECE = 1 << 14, 1 << 24
UNIFORM_DIGITS = {"float32": 24, "float64": 53}


class Stream:
    """The random numbers of one ticket, as arrays of the library ``xp``.

    ``seed`` and ``ticket`` are integers, taken modulo 2**64. Methods take the number of elements ``n`` and the index
    ``start`` of the first element, and return a new 1-d array. The bits are the same on every device. Floats computed
    from them without transcendental functions are the same too.
    """

    __slots__ = ("first", "seed", "ticket", "xp")

    def __init__(self, xp: Any, seed: int, ticket: int, first: int = 0) -> None:
        self.xp = xp
        self.first = first  # offset of a partial draw; the kernel adds it to its element indices
        self.seed = operator.index(seed) & _MASK
        self.ticket = operator.index(ticket) & _MASK

    def __repr__(self) -> str:
        return f"Stream(seed={self.seed}, ticket={self.ticket})"

    def bits(self, n: int, start: int = 0) -> Any:
        """Return ``n`` words of 64 random bits (uint64), beginning with word ``start``."""
        n, start = _span("bits", n, start)
        if self.xp is np:
            words: Any = np.empty(n, np.uint64)
            share_out(lambda first, count: host.fill_bits(words[first : first + count], self.seed, self.ticket, start + first), n)
            return words
        block = start // 4
        words = philox(self.xp, self.seed, self.ticket, block + 1, -(-(start + n) // 4) - block)
        return words[start - 4 * block : start - 4 * block + n]

    def uniform(self, n: int, start: int = 0, dtype: Any = "float64") -> Any:
        """Return ``n`` uniform floats in [0, 1). Each uses one word: 53 random bits for float64, 24 for float32."""
        dtype = np.dtype(dtype)
        if dtype.name not in UNIFORM_DIGITS:
            raise ValueError(f"uniform: dtype must be float32 or float64, got {dtype}")
        return self.leading(n, start, dtype, UNIFORM_DIGITS[dtype.name])

    def leading(self, n: int, start: int, dtype: Any, digits: int) -> Any:
        """Return the first ``digits`` bits of each word as floats in [0, 1): at most 24 for float32, 53 for float64."""
        n, start = _span("uniform", n, start)
        dtype = np.dtype(dtype)
        if self.xp is np:
            out = np.empty(n, dtype)
            host.fill_uniform(out, dtype.itemsize, digits, 0.0, 1.0, self.seed, self.ticket, start)
            return out
        shift, scale = np.uint64(64 - digits), dtype.type(2.0**-digits)
        return self._pieces(n, start, dtype, lambda count, first: (self.bits(count, first) >> shift).astype(dtype) * scale)

    def below(self, n: int, start: int, p: float, dtype: Any = "float64") -> Any:
        """Return ``uniform(n, start, dtype) < p`` as bools, with ``p`` rounded to ``dtype``."""
        dtype = np.dtype(dtype)
        if self.xp is not np:
            return self.uniform(n, start, dtype) < dtype.type(p)
        n, start = _span("uniform", n, start)
        out: Any = np.empty(n, np.bool_)
        host.fill_below(out, UNIFORM_DIGITS[dtype.name], float(dtype.type(p)), self.seed, self.ticket, start)
        return out

    def normal(self, n: int, start: int = 0, dtype: Any = "float64", mean: float = 0.0, std: float = 1.0) -> Any:
        """Return ``n`` normally distributed floats, computed in float64 and rounded to ``dtype``.

        Elements 2i and 2i + 1 are the two results of a Box-Muller transform. They come from word i, of which 32 bits give
        the distance from the origin and 32 the direction. For float64, both get 20 further bits from word
        ``host.FURTHER + i``. Therefore the numbers of all dtypes agree up to rounding. float16 is float32 rounded.
        """
        n, start = _span("normal", n, start)
        dtype = np.dtype(dtype)
        if dtype.kind != "f":
            raise ValueError(f"normal: dtype must be a float, got {dtype}")
        drawn = np.dtype(np.float32 if dtype.itemsize <= 4 else np.float64)
        if self.xp is np:
            out = np.empty(n, drawn)
            fill_in_parts(host.fill_normal, out, (self.seed, self.ticket, start), out.itemsize, mean, std)
        else:
            out = self._pieces(n, start, drawn, lambda count, first: self._normal(count, first, drawn, mean, std))
        return out.astype(dtype, copy=False)

    def _normal(self, count: int, first: int, dtype: Any, mean: float, std: float) -> Any:
        """Return elements of `normal` in float64. The steps are those of ``mt_normal_pair`` in ``philox.h``."""
        xp, begin, pairs = self.xp, first // 2, (first + count + 1) // 2 - first // 2
        words, digits = self.bits(pairs, begin), 32
        radial, angular = words >> np.uint64(32), words & np.uint64(0xFFFFFFFF)
        if dtype == np.float64:
            more, digits = self.bits(pairs, host.FURTHER + begin), 52
            radial = radial << np.uint64(20) | more >> np.uint64(44)
            angular = angular << np.uint64(20) | more & np.uint64(0xFFFFF)
        x = (radial.astype(np.float64) + 0.5) * 2.0**-digits
        fraction = angular & np.uint64((1 << (digits - 2)) - 1)
        turn = (fraction.astype(np.float64) + 0.5) * 2.0 ** (2 - digits) - 0.5
        quadrant = (angular >> np.uint64(digits - 2)).astype(np.int64)
        radius = xp.sqrt(_log(xp, x) * -2.0)
        cosine, sine = _cosine_and_sine(turn * (math.pi / 2))
        odd = quadrant % 2 == 1
        values = xp.empty((pairs, 2), np.float64)
        values[:, 0] = xp.where(odd, sine, cosine) * xp.where((quadrant == 1) | (quadrant == 2), -1.0, 1.0) * radius * std + mean
        values[:, 1] = xp.where(odd, cosine, sine) * xp.where(quadrant >= 2, -1.0, 1.0) * radius * std + mean
        return values.reshape(-1)[first - 2 * begin :][:count]

    def _pieces(self, n: int, start: int, dtype: Any, draw: Any) -> Any:
        piece = HOST_PIECE if self.xp is np else DEVICE_PIECE
        if n <= piece:
            return draw(n, start).astype(dtype, copy=False)
        out = self.xp.empty(n, dtype)
        for first in range(0, n, piece):
            count = min(piece, n - first)
            out[first : first + count] = draw(count, start + first)
        return out


def fill_in_parts(fill: Callable[..., Any], out: Any, ticket: tuple[int, ...], *arguments: Any) -> None:
    """Call ``fill(part, *arguments, seed, ticket, start)``, a function of `host`, for the parts of a C-contiguous array.

    ``ticket`` is what kernels receive: a seed, a ticket and sometimes the first element. Threads share long arrays.
    """
    if out.size < 2 * LEAST:
        fill(out, *arguments, *ticket)
        return
    flat = out.reshape(-1)
    seed, number, start = (*ticket, 0)[:3]
    share_out(lambda first, count: fill(flat[first : first + count], *arguments, seed, number, start + first), out.size)


def _log(xp: Any, x: Any) -> Any:
    """Return the natural logarithm of float64 numbers in (0, 1): ``mt_log`` of ``philox.h``."""
    root = np.uint64(0x3FE6A09E667F3BCD)  # sqrt(1/2): the mantissa will be in [sqrt(1/2), sqrt(2))
    moved = x.view(np.uint64) - root
    mantissa = ((moved & np.uint64((1 << 52) - 1)) + root).view(np.float64)
    exponent = (moved >> np.uint64(52)).astype(np.float64)
    exponent = xp.where(exponent > 0, exponent - 4096.0, exponent)
    s = (mantissa - 1.0) / (2.0 + (mantissa - 1.0))
    z = s * s
    series = _horner(z, [2.0 / k for k in range(19, 1, -2)])
    return exponent * 0.6931471805599453 + (s * 2.0 + s * z * series)


def _cosine_and_sine(r: Any) -> tuple[Any, Any]:
    """Return cosine and sine of float64 numbers within ±pi / 4, with the series of ``mt_normal_pair``."""
    z = r * r
    cosine = _horner(z, [(-1.0) ** (k // 2) / math.factorial(k) for k in range(16, 2, -2)])
    sine = _horner(z, [(-1.0) ** (k // 2) / math.factorial(k) for k in range(15, 1, -2)])
    return 1.0 - z * (0.5 - z * cosine), r + r * z * sine


def _horner(z: Any, coefficients: list[float]) -> Any:
    """Return a polynomial in ``z``. The coefficient of the highest power comes first."""
    result = z * coefficients[0] + coefficients[1]
    for coefficient in coefficients[2:]:
        result = result * z + coefficient
    return result


def _span(name: str, n: Any, start: Any) -> tuple[int, int]:
    n, start = operator.index(n), operator.index(start)
    if n < 0 or start < 0:
        raise ValueError(f"{name}: n and start must not be negative, got n={n}, start={start}")
    return n, start


def philox(xp: Any, seed: int, ticket: int, counter: int, blocks: int) -> Any:
    """Return ``blocks`` blocks of four words each as a flat array, beginning with block ``counter``.

    This is used for libraries other than NumPy. It requires only uint64 arithmetic that wraps around on overflow.
    """
    x0 = xp.arange(blocks, dtype=np.uint64) + np.uint64(counter & _MASK)
    x1 = xp.zeros(blocks, np.uint64)
    if counter >> 64 or (counter & _MASK) + blocks > _MASK:
        x1 = xp.where(x0 < np.uint64(counter & _MASK), np.uint64(1), np.uint64(0)) + np.uint64(counter >> 64)
    x2, x3 = xp.zeros(blocks, np.uint64), xp.zeros(blocks, np.uint64)
    keys = [seed, ticket]
    for _ in range(_ROUNDS):
        high0, low0 = _multiply(x0, _MULTIPLIERS[0])
        high1, low1 = _multiply(x2, _MULTIPLIERS[1])
        x0, x1, x2, x3 = high1 ^ x1 ^ np.uint64(keys[0]), low1, high0 ^ x3 ^ np.uint64(keys[1]), low0
        keys = [(key + step) & _MASK for key, step in zip(keys, _KEY_STEPS, strict=True)]
    return xp.stack([x0, x1, x2, x3], axis=1).reshape(-1)


def _multiply(words: Any, constant: int) -> tuple[Any, Any]:
    """Return the high and low 64 bits of words times a constant, computed from products of 32-bit halves."""
    low, high = np.uint64(constant & 0xFFFFFFFF), np.uint64(constant >> 32)
    word_low, word_high = words & _LOW, words >> _HALF
    low_low = word_low * low
    middle = word_high * low + (low_low >> _HALF)
    cross = word_low * high + (middle & _LOW)
    return word_high * high + (middle >> _HALF) + (cross >> _HALF), words * np.uint64(constant)
