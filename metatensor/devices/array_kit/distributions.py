"""Kernels of random sampling.

Element i of a result depends only on i, the seed and the ticket, which is the number of the random op since the
generator was seeded (see `metatensor.devices.array_kit.random`).

Most distributions are sampled by inverting their distribution function, so each element consumes a fixed number of
words of the stream. Only `randperm` and `multinomial` need all elements together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from metatensor._core import philox as host
from metatensor.devices.array_kit.copy import store
from metatensor.devices.array_kit.random import DEVICE_PIECE, HOST_PIECE, fill_in_parts
from metatensor.devices.array_kit.registry import kernel
from metatensor.devices.threads import share_out

# Significand bits by dtype. If the array library has no bfloat16, it is stored as an integer.
_DIGITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
_DIGITS_BY_CHAR = {"f": 24, "d": 53}
_WIDE_INTEGERS = {np.dtype(np.int64).char, np.dtype(np.uint64).char}
_GOLDEN = 0x9E3779B97F4A7C15


def _half(array: Any) -> str | None:
    """Return the half dtype that an array stores, or None for an array of another dtype."""
    if array.dtype == np.float16:
        return "float16"
    if array.dtype.itemsize == 2:
        return "bfloat16"
    return "complex32" if array.dtype == np.uint32 else None


def _fill(kit: Any, out: Any, draw: Callable[[int, int], Any], format: str | None = None) -> None:
    """Write ``draw(count, first)`` for all elements of ``out`` in logical order, in chunks."""
    flat = out.reshape(-1) if out.flags.c_contiguous else kit.xp.empty(out.size, out.dtype)
    piece = HOST_PIECE if kit.on_host else DEVICE_PIECE

    def fill(start: int, length: int) -> None:
        for first in range(start, start + length, piece):
            count = min(piece, start + length - first)
            values = draw(count, first)
            if format is None:
                flat[first : first + count] = values
            else:
                store(kit.xp, flat[first : first + count], kit.formats[format], values)

    if kit.on_host:
        share_out(fill, out.size)
    else:
        fill(0, out.size)
    if not out.flags.c_contiguous:
        out[...] = flat.reshape(out.shape)


# Uniform and normal ---------------------------------------------------------------------------


def _uniform(kit: Any, out: Any, ticket: Any, low: float, high: float) -> None:
    """Sample uniformly from [low, high). A sample has as many random bits as the significand of the dtype."""
    char = out.dtype.char
    if kit.on_host and char in _DIGITS_BY_CHAR and out.flags.c_contiguous:
        fill_in_parts(host.fill_uniform, out, ticket, out.itemsize, _DIGITS_BY_CHAR[char], low, high)
        return
    stream = kit.random(ticket)
    format = _half(out)
    name = format or out.dtype.name
    if name.startswith("complex"):
        parts = {"complex32": np.float32, "complex64": np.float32, "complex128": np.float64}[name]
        digits = 11 if name == "complex32" else _DIGITS[np.dtype(parts).name]
    else:
        parts, digits = (np.float64 if name == "float64" else np.float32), _DIGITS[name]
    half = kit.formats[format] if format in ("float16", "bfloat16") else None
    span = parts(high - low)

    def draw(count: int, first: int) -> Any:
        values = stream.leading(count, first, parts, digits)
        if (low, high) == (0, 1):
            return values
        values *= span
        values += parts(low)
        # Adding or storing may round up to the upper end, which is excluded.
        stored = values if half is None else half.decode(kit.xp, half.encode(kit.xp, values))
        if high > low:
            kit.xp.copyto(values, parts(low), where=stored >= high)
        return values

    if not name.startswith("complex"):
        _fill(kit, out, lambda count, first: draw(count, first + stream.first), format)
        return
    pairs = draw(2 * out.size, 2 * stream.first).reshape(-1, 2)
    values = (pairs[:, 0] + 1j * pairs[:, 1]).reshape(out.shape)
    store(kit.xp, out, kit.formats[name], values)


@kernel("rand", half="native")
def rand(kit: Any, out: Any, size: Any, ticket: Any, *options: Any) -> None:
    _uniform(kit, out, ticket, 0, 1)


@kernel("rand_like", half="native")
def rand_like(kit: Any, out: Any, input: Any, ticket: Any, *options: Any) -> None:
    _uniform(kit, out, ticket, 0, 1)


@kernel("uniform_", half="native")
def uniform_(kit: Any, out: Any, input: Any, low: float, high: float, ticket: Any) -> None:
    _uniform(kit, out, ticket, low, high)


def _normal(kit: Any, out: Any, ticket: Any, mean: float = 0.0, std: float = 1.0) -> None:
    """Sample a normal distribution. Each part of a complex value has the given mean and half the variance."""
    if kit.on_host and out.dtype.char in _DIGITS_BY_CHAR and out.flags.c_contiguous:
        fill_in_parts(host.fill_normal, out, ticket, out.itemsize, mean, std)
        return
    stream = kit.random(ticket)
    if out.dtype.kind == "c":
        parts = stream.normal(2 * out.size, 2 * stream.first).reshape(-1, 2) * (std / math.sqrt(2)) + mean
        out[...] = (parts[:, 0] + 1j * parts[:, 1]).reshape(out.shape)
    else:
        # Apply mean and standard deviation in float64, so that only the final value is rounded.
        _fill(kit, out, lambda count, first: stream.normal(count, first + stream.first, out.dtype, mean, std))


@kernel("randn")
def randn(kit: Any, out: Any, size: Any, ticket: Any, *options: Any) -> None:
    _normal(kit, out, ticket)


@kernel("randn_like")
def randn_like(kit: Any, out: Any, input: Any, ticket: Any, *options: Any) -> None:
    _normal(kit, out, ticket)


@kernel("normal_")
def normal_(kit: Any, out: Any, input: Any, mean: float, std: float, ticket: Any) -> None:
    _normal(kit, out, ticket, mean, std)


@kernel("normal.float_float")
def normal_sized(kit: Any, out: Any, mean: float, std: float, size: Any, ticket: Any, *options: Any) -> None:
    _normal(kit, out, ticket, mean, std)


@kernel("normal", "normal.Tensor_float", "normal.float_Tensor")
def normal(kit: Any, out: Any, mean: Any, std: Any, ticket: Any) -> Any:
    if hasattr(std, "min") and std.size and not float(std.min()) >= 0:
        raise RuntimeError("normal(): argument 'std' must not be negative")
    kit.xp.copyto(out, 0)
    _normal(kit, out, ticket)
    return out * std + mean


# Integers --------------------------------------------------------------------------------------


def _integers(kit: Any, ticket: Any, low: int, high: int, count: int, first: int) -> Any:
    """Return unbiased integers in [low, high). Words at or above the largest multiple of ``high - low`` are redrawn."""
    xp, span = kit.xp, high - low
    seed, number = ticket
    if kit.on_host:
        drawn: Any = np.empty(count, np.int64)
        host.fill_integers(drawn, low, high, seed, number, first)
        return drawn
    words = kit.random(seed, number).bits(count, first)
    beyond = (1 << 64) % span
    if span >= 1 << 64:
        return words.astype(np.int64)
    attempt = 0
    while beyond:
        again = words >= np.uint64((1 << 64) - beyond)
        if not bool(again.any()):
            break
        attempt += 1
        words = xp.where(again, kit.random(seed + attempt * _GOLDEN, number).bits(count, first), words)
    words = words % np.uint64(span)
    # Addition modulo 2**64 is correct for all bounds that fit int64 or uint64.
    return (words + np.uint64(low % (1 << 64))).astype(np.int64)


def _fill_integers(kit: Any, out: Any, ticket: Any, low: int, high: int) -> None:
    if kit.on_host and out.dtype.char in _WIDE_INTEGERS and out.flags.c_contiguous:
        fill_in_parts(host.fill_integers, out, ticket, low, high)
        return
    kind = np.uint64 if out.dtype == np.uint64 else np.int64
    _fill(kit, out, lambda count, first: _integers(kit, ticket, low, high, count, first).astype(kind, copy=False))


@kernel("randint")
def randint(kit: Any, out: Any, high: int, size: Any, ticket: Any, *options: Any) -> None:
    _fill_integers(kit, out, ticket, 0, high)


@kernel("randint.low")
def randint_low(kit: Any, out: Any, low: int, high: int, size: Any, ticket: Any, *options: Any) -> None:
    _fill_integers(kit, out, ticket, low, high)


@kernel("randint_like")
def randint_like(kit: Any, out: Any, input: Any, high: int, ticket: Any, *options: Any) -> None:
    _fill_integers(kit, out, ticket, 0, high)


@kernel("randint_like.low")
def randint_like_low(kit: Any, out: Any, input: Any, low: int, high: int, ticket: Any, *options: Any) -> None:
    _fill_integers(kit, out, ticket, low, high)


@kernel("random_.to")
def random_to(kit: Any, out: Any, input: Any, to: int, ticket: Any) -> None:
    _fill_integers(kit, out, ticket, 0, to)


@kernel("random_.from")
def random_from(kit: Any, out: Any, input: Any, low: int, to: int, ticket: Any) -> None:
    _fill_integers(kit, out, ticket, low, to)


@kernel("randperm")
def randperm(kit: Any, out: Any, n: int, ticket: Any, *options: Any) -> Any:
    """Sort random words. Equal words, which hardly ever occur, keep their order."""
    stream = kit.random(ticket)
    if not kit.on_host:
        return stream.bits(n).argsort(kind="stable")
    fits = out.dtype == np.int64 and out.flags.c_contiguous
    drawn: Any = out if fits else np.empty(n, np.int64)
    host.fill_permutation(drawn, stream.seed, stream.ticket)
    return None if fits else drawn


# Other distributions, by inversion ----------------------------------------------------------------


def _inverted(kit: Any, out: Any, ticket: Any, inverse: Callable[[Any], Any]) -> None:
    stream = kit.random(ticket)
    _fill(kit, out, lambda count, first: inverse(stream.uniform(count, first)))


@kernel("exponential_")
def exponential_(kit: Any, out: Any, input: Any, lambd: float, ticket: Any) -> None:
    # Add half a step to u: for u = 0, log1p(0) would give 0, which is excluded.
    _inverted(kit, out, ticket, lambda u: -kit.xp.log1p(-(u + 2.0**-54)) / lambd)


@kernel("cauchy_")
def cauchy_(kit: Any, out: Any, input: Any, median: float, sigma: float, ticket: Any) -> None:
    _inverted(kit, out, ticket, lambda u: median + sigma * kit.xp.tan(math.pi * (u - 0.5)))


@kernel("log_normal_")
def log_normal_(kit: Any, out: Any, input: Any, mean: float, std: float, ticket: Any) -> None:
    stream = kit.random(ticket)
    _fill(kit, out, lambda count, first: kit.xp.exp(stream.normal(count, first) * std + mean))


@kernel("geometric_")
def geometric_(kit: Any, out: Any, input: Any, p: float, ticket: Any) -> None:
    _inverted(kit, out, ticket, lambda u: kit.xp.maximum(kit.xp.ceil(kit.xp.log1p(-u) / math.log1p(-p)), 1))


@kernel("bernoulli_", "bernoulli.p")
def bernoulli_p(kit: Any, out: Any, input: Any, p: Any, ticket: Any) -> Any:
    if not hasattr(p, "shape"):
        stream = kit.random(ticket)
        _fill(kit, out, lambda count, first: stream.below(count, first, p))
        return None
    return _bernoulli(kit, out, p, ticket)


@kernel("bernoulli")
def bernoulli(kit: Any, out: Any, input: Any, ticket: Any) -> Any:
    return _bernoulli(kit, out, input, ticket)


def _bernoulli(kit: Any, out: Any, p: Any, ticket: Any) -> Any:
    if p.size and not (float(p.min()) >= 0 and float(p.max()) <= 1):
        raise RuntimeError("bernoulli(): probabilities must lie in [0, 1]")
    return kit.random(ticket).uniform(out.size).reshape(out.shape) < p


def _smallest(xp: Any, low: Any, high: Any, enough: Callable[[Any], Any]) -> Any:
    """Return for each element the smallest integer in [low, high] for which ``enough`` holds, by bisection."""
    while True:
        middle = xp.floor((low + high) / 2)
        if not bool((low < high).any()):
            return low
        found = enough(middle)
        high, low = xp.where(found, middle, high), xp.where(found, low, xp.minimum(middle + 1, high))


@kernel("poisson")
def poisson(kit: Any, out: Any, input: Any, ticket: Any) -> Any:
    """Sample by inverting the distribution function, which is a regularized incomplete gamma function."""
    xp, rate = kit.xp, input.astype(np.float64).reshape(-1)
    if rate.size and not float(rate.min()) >= 0:
        raise RuntimeError("poisson(): rates must not be negative")
    u = kit.random(ticket).uniform(rate.size)
    # With uniform numbers of 53 bits, no value is farther than 12 standard deviations from the mean.
    spread = 12 * xp.sqrt(rate) + 60
    low, high = xp.floor(xp.maximum(rate - spread, 0)), xp.ceil(rate + spread)
    drawn = _smallest(xp, low, high, lambda k: kit.special.gammaincc(k + 1, xp.maximum(rate, 1e-300)) > u)
    return xp.where(rate == 0, 0, drawn).reshape(out.shape)


def _log_gamma_draws(kit: Any, name: str, shape: Any, ticket: Any) -> Any:
    """Return the logarithm of gamma variates with rate 1, by inverting the regularized incomplete gamma function.

    If a variate is too small for float64, its distribution function equals x**a / gamma(a + 1) to full precision.
    """
    xp, a = kit.xp, shape.astype(np.float64).reshape(-1)
    if a.size and not float(a.min()) >= 0:
        raise RuntimeError(f"{name}(): concentrations must not be negative")
    u = kit.random(ticket).uniform(a.size) + 2.0**-54
    drawn = kit.special.gammaincinv(a, u)
    positive = xp.maximum(a, 1e-300)
    near_zero = (xp.log(u) + kit.special.gammaln(positive + 1)) / positive
    return xp.where(drawn > 1e-290, xp.log(xp.maximum(drawn, 1e-290)), xp.where(xp.isnan(drawn), drawn, near_zero)).reshape(shape.shape)


@kernel("_standard_gamma")
def standard_gamma(kit: Any, out: Any, input: Any, ticket: Any) -> Any:
    drawn = kit.xp.exp(_log_gamma_draws(kit, "_standard_gamma", input, ticket))
    return kit.xp.maximum(drawn, kit.xp.finfo(out.dtype).tiny)


@kernel("_sample_dirichlet")
def sample_dirichlet(kit: Any, out: Any, input: Any, ticket: Any) -> Any:
    logs = _log_gamma_draws(kit, "_sample_dirichlet", input, ticket)
    if logs.size == 0:
        return logs
    parts = kit.xp.exp(logs - logs.max(axis=-1, keepdims=True))
    return parts / parts.sum(axis=-1, keepdims=True)


@kernel("binomial")
def binomial(kit: Any, out: Any, count: Any, prob: Any, ticket: Any) -> Any:
    """Sample by inverting the distribution function, which is a regularized incomplete beta function."""
    xp = kit.xp
    count, prob = (xp.broadcast_to(v, out.shape).astype(np.float64).reshape(-1) for v in (count, prob))
    if prob.size and not (float(prob.min()) >= 0 and float(prob.max()) <= 1):
        raise RuntimeError("binomial(): probabilities must lie in [0, 1]")
    u = kit.random(ticket).uniform(out.size)

    def enough(k: Any) -> Any:
        return (k >= count) | (kit.special.betainc(xp.maximum(count - k, 1e-300), k + 1, 1 - prob) > u)

    drawn = _smallest(xp, xp.zeros_like(count), xp.floor(count), enough)
    return xp.where(prob == 0, 0, xp.where(prob == 1, count, drawn)).reshape(out.shape)


@kernel("multinomial")
def multinomial(kit: Any, out: Any, input: Any, num_samples: int, replacement: bool, ticket: Any) -> Any:
    """Sample categories.

    With replacement, the cumulative distribution function is inverted. Without replacement, each category gets an
    exponential variate whose rate is its weight, and the smallest variates win.
    """
    xp, stream = kit.xp, kit.random(ticket)
    weights = input.reshape(-1, input.shape[-1]).astype(np.float64)
    total = weights.sum(axis=1)
    if weights.size and not (float(weights.min()) >= 0 and math.isfinite(float(total.max())) and float(total.min()) > 0):
        raise RuntimeError("multinomial(): probabilities must be finite, not negative, and not all zero in a row")
    rows, categories = weights.shape
    if replacement:
        u = stream.uniform(rows * num_samples).reshape(rows, num_samples) * total[:, None]
        bounds = xp.cumsum(weights, axis=1)
        last = categories - 1 - (weights[:, ::-1] > 0).argmax(axis=1)
        drawn = [xp.minimum(xp.searchsorted(bounds[i], u[i], side="right"), last[i]) for i in range(rows)]
        return xp.stack(drawn).reshape(out.shape) if drawn else xp.zeros(out.shape, np.int64)
    if weights.size and int((weights > 0).sum(axis=1).min()) < num_samples:
        raise RuntimeError(f"multinomial(): there are fewer than {num_samples} categories with a probability above zero")
    clocks = -xp.log1p(-stream.uniform(weights.size).reshape(weights.shape)) / weights
    clocks = xp.where(weights > 0, clocks, np.inf)
    return clocks.argsort(axis=1)[:, :num_samples].reshape(out.shape)
