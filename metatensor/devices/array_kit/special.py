"""Kernels of `special.*`: the array library's special functions, and orthogonal polynomials by recurrence."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from metatensor.devices.array_kit.pointwise import in_dtype
from metatensor.devices.array_kit.registry import kernel
from metatensor.devices.array_kit.unary import zeta_values


def _routine(kit: Any, op: str, name: str) -> Any:
    """Return a function of the array library, or SciPy's function on the host if the library does not have it."""
    return getattr(kit.special, name, None) or by_host(kit, op, name)


def by_host(kit: Any, op: str, name: str) -> Any:
    """Return SciPy's function, wrapped to copy its arguments to the host and its results back."""
    try:
        function = getattr(importlib.import_module("scipy.special"), name)
    except ImportError as error:
        raise NotImplementedError(f"special.{op}: {kit.special.__name__} has no {name}(), and SciPy is missing") from error

    def run(*arrays: Any) -> Any:
        result = function(*[kit.download(array) for array in arrays])
        return tuple(map(kit.upload, result)) if isinstance(result, tuple) else kit.upload(result)

    return run


def _special(name: str, function: str) -> None:
    @kernel(f"special.{name}")
    def run(kit: Any, out: Any, *operands: Any) -> Any:
        return _routine(kit, name, function)(*[in_dtype(value, out.dtype) for value in operands])


for _name, _function in (
    ("bessel_j0", "j0"), ("bessel_j1", "j1"), ("bessel_y0", "y0"), ("bessel_y1", "y1"), ("entr", "entr"),
    ("erfcx", "erfcx"), ("i0e", "i0e"), ("i1", "i1"), ("i1e", "i1e"), ("log_ndtr", "log_ndtr"),
    ("modified_bessel_i0", "i0"), ("modified_bessel_i1", "i1"), ("modified_bessel_k0", "k0"),
    ("modified_bessel_k1", "k1"), ("scaled_modified_bessel_k0", "k0e"), ("scaled_modified_bessel_k1", "k1e"),
    ("ndtr", "ndtr"), ("ndtri", "ndtri"), ("xlog1py", "xlog1py"),
):  # fmt: skip
    _special(_name, _function)


@kernel("special.airy_ai")
def airy_ai(kit: Any, out: Any, input: Any) -> Any:
    """Compute Ai. For x >= 1e6 it is 0. For x <= -1e6 it is the leading term of the asymptotic expansion."""
    xp, x = kit.xp, in_dtype(input, out.dtype)
    far = xp.minimum(xp.abs(x), 1e300).astype(np.float64)
    wave = xp.cos(2 / 3 * far * xp.sqrt(far) - math.pi / 4) / xp.sqrt(math.pi * xp.sqrt(far))
    near = _routine(kit, "airy_ai", "airy")(xp.where(xp.abs(x) < 1e6, x, x.dtype.type(0)))[0]
    values = xp.where(x >= 1e6, 0.0, xp.where(x <= -1e6, wave, near))
    return xp.where(xp.isfinite(x), values, math.nan)


@kernel("special.zeta")
def zeta(kit: Any, out: Any, input: Any, other: Any) -> Any:
    return zeta_values(kit, in_dtype(input, out.dtype), in_dtype(other, out.dtype))


@kernel("special.spherical_bessel_j0")
def spherical_bessel_j0(kit: Any, out: Any, input: Any) -> Any:
    xp = kit.xp
    x = in_dtype(input, out.dtype)
    result = xp.where(x == 0, x.dtype.type(1), xp.sin(x) / xp.where(x == 0, x.dtype.type(1), x))
    return xp.where(xp.isinf(x), x.dtype.type(0), result)


# Orthogonal polynomials ---------------------------------------------------------------------

# Stop the recurrences at this degree even if values are still finite.
_LARGEST_DEGREE = 1 << 20

Step = Callable[[Any, int, Any, Any], Any]


def _polynomial(name: str, first: Callable[[Any], Any], step: Step) -> None:
    """Register a polynomial: P0 = 1, P1 = first(x), P(k+1) = step(x, k, Pk, P(k-1)).

    The result is 0 for a degree that is negative, NaN, or beyond 64 bits.
    """

    @kernel(f"special.{name}")
    def run(kit: Any, out: Any, input: Any, n: Any) -> Any:
        xp, largest = kit.xp, np.finfo(out.dtype).max
        # Compute in double precision: the terms of the recurrences cancel.
        x = xp.broadcast_to(xp.asarray(in_dtype(in_dtype(input, out.dtype), np.float64)), out.shape)
        degree = xp.trunc(xp.broadcast_to(xp.asarray(in_dtype(n, out.dtype)), out.shape))
        degree = xp.where(degree < 2.0**63, degree, out.dtype.type(-1))
        before, current = xp.ones_like(x), first(x) + xp.zeros_like(x)
        result = xp.where(degree >= 1, current, xp.where(degree > -1, 1.0, 0.0))
        k = 1
        while bool((xp.isfinite(before) & (degree > k)).any()) and k < _LARGEST_DEGREE:
            before, current = current, step(x, k, current, before)
            # A value beyond the range of the result's dtype becomes infinite, and later values become NaN.
            current = xp.where(xp.abs(current) > largest, xp.copysign(math.inf, current), current)
            k += 1
            result = xp.where(degree == k, current, result)
        return xp.where(degree > k, math.nan, result)


def _chebyshev(kind: str, first: Callable[[Any], Any]) -> None:
    """Register Chebyshev polynomials of one kind and their shifted form. The kinds differ only in P1."""
    _polynomial(f"chebyshev_polynomial_{kind}", first, lambda x, k, p, q: 2 * x * p - q)
    _polynomial(f"shifted_chebyshev_polynomial_{kind}", lambda x: first(2 * x - 1), lambda x, k, p, q: 2 * (2 * x - 1) * p - q)


_chebyshev("t", lambda x: x)
_chebyshev("u", lambda x: 2 * x)
_chebyshev("v", lambda x: 2 * x - 1)
_chebyshev("w", lambda x: 2 * x + 1)
_polynomial("hermite_polynomial_h", lambda x: 2 * x, lambda x, k, p, q: 2 * (x * p - k * q))
_polynomial("hermite_polynomial_he", lambda x: x, lambda x, k, p, q: x * p - k * q)
_polynomial("laguerre_polynomial_l", lambda x: 1 - x, lambda x, k, p, q: ((2 * k + 1 - x) * p - k * q) / (k + 1))
_polynomial("legendre_polynomial_p", lambda x: x, lambda x, k, p, q: ((2 * k + 1) * x * p - k * q) / (k + 1))
