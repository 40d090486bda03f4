"""Kernels of functions of square matrices such as determinants, of cross products and of Vandermonde matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from metatensor.devices.array_kit.linalg_factor import lu_factors
from metatensor.devices.array_kit.matrices import on_host
from metatensor.devices.array_kit.registry import kernel


@kernel("linalg.det", "det")
def det(kit: Any, out: Any, a: Any) -> Any:
    return kit.xp.linalg.det(a)


@kernel("linalg.slogdet", "slogdet")
def slogdet(kit: Any, out: Any, a: Any) -> Any:
    return tuple(kit.xp.linalg.slogdet(a))


def parity(pivots: np.ndarray) -> np.ndarray:
    """Return 1 for an even number of row exchanges, and -1 for an odd one."""
    return 1 - 2 * ((pivots != np.arange(1, pivots.shape[-1] + 1)).sum(-1) % 2)


@kernel("_linalg_det")
@on_host
def det_parts(kit: Any, out: Any, a: Any) -> Any:
    factors, pivots, _ = lu_factors(a)
    return np.diagonal(factors, axis1=-2, axis2=-1).prod(-1) * parity(pivots), factors, pivots


@kernel("_linalg_slogdet")
@on_host
def slogdet_parts(kit: Any, out: Any, a: Any) -> Any:
    factors, pivots, _ = lu_factors(a)
    diagonal = np.diagonal(factors, axis1=-2, axis2=-1)
    sizes = np.abs(diagonal)
    signs = np.where(sizes == 0, 0, diagonal / np.where(sizes == 0, 1, sizes))
    with np.errstate(divide="ignore"):
        return signs.prod(-1) * parity(pivots), np.log(sizes).sum(-1), factors, pivots


@kernel("logdet")
def logdet(kit: Any, out: Any, a: Any) -> Any:
    sign, logarithm = kit.xp.linalg.slogdet(a)
    if a.dtype.kind == "c":
        return kit.xp.log(sign) + logarithm
    return kit.xp.where(sign == -1, np.nan, logarithm)


# Degree of the Padé approximant of exp, and the largest norm for which it has full double precision: Higham, "The
# scaling and squaring method for the matrix exponential revisited", SIAM J. Matrix Anal. Appl. 26 (2005), table 2.3.
PADE = (13, 5.371920351148152)


def exponentials(xp: Any, a: Any) -> Any:
    """Return exp of finite double-precision matrices by scaling and squaring. Each matrix has its own scale."""
    degree, bound = PADE
    norms = xp.abs(a).sum(-2).max(-1)
    squarings = xp.ceil(xp.log2(xp.maximum(norms / bound, 1))).astype("int64")
    a = a / xp.exp2(squarings).astype(a.dtype)[..., None, None]
    # Coefficients of the numerator by ascending powers. The denominator has the odd coefficients negated.
    factors = [1.0]
    for k in range(1, degree + 1):
        factors.append(factors[-1] * (degree - k + 1) / (k * (2 * degree - k + 1)))
    square = xp.matmul(a, a)
    power = xp.zeros_like(a) + xp.eye(a.shape[-1], dtype=a.dtype)
    even, odd = power * factors[0], power * factors[1]
    for k in range(2, degree + 1, 2):
        power = xp.matmul(power, square)
        even = even + power * factors[k]
        if k < degree:
            odd = odd + power * factors[k + 1]
    odd = xp.matmul(a, odd)
    result = xp.linalg.solve(even - odd, even + odd)
    for i in range(int(squarings.max())):
        result = xp.where((squarings > i)[..., None, None], xp.matmul(result, result), result)
    return result


@kernel("linalg.matrix_exp")
def matrix_exp(kit: Any, out: Any, a: Any) -> Any:
    """Compute in double precision, because squaring amplifies rounding errors and small elements would lose digits."""
    xp, a = kit.xp, a.astype("complex128" if a.dtype.kind == "c" else "float64")
    if not a.size:
        return xp.zeros(a.shape, a.dtype)
    finite = xp.isfinite(a).all((-2, -1), keepdims=True)
    return xp.where(finite, exponentials(xp, xp.where(finite, a, 0).astype(a.dtype)), np.nan)


@kernel("linalg.cross", "cross")
def cross(kit: Any, out: Any, input: Any, other: Any, dim: int | None) -> Any:
    xp = kit.xp
    axis = input.shape.index(3) if dim is None else dim
    a, b = xp.moveaxis(input, axis, 0), xp.moveaxis(other, axis, 0)
    result = xp.moveaxis(out, axis, 0)
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        result[i] = a[j] * b[k] - a[k] * b[j]


@kernel("linalg.vander")
def vander(kit: Any, out: Any, x: Any, N: int | None) -> Any:
    powers = kit.xp.arange(out.shape[-1])
    return kit.xp.atleast_1d(x).astype(out.dtype)[..., None] ** powers
