"""Functions of square matrices, determinants among them; cross products and Vandermonde matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from metatensor.devices.array_kit.matrices import on_host
from metatensor.devices.array_kit.registry import kernel


@kernel("linalg.det", "det")
def det(kit: Any, out: Any, a: Any) -> Any:
    return kit.xp.linalg.det(a)


@kernel("linalg.slogdet", "slogdet")
def slogdet(kit: Any, out: Any, a: Any) -> Any:
    return tuple(kit.xp.linalg.slogdet(a))


@kernel("logdet")
def logdet(kit: Any, out: Any, a: Any) -> Any:
    sign, logarithm = kit.xp.linalg.slogdet(a)
    if a.dtype.kind == "c":
        return kit.xp.log(sign) + logarithm
    return kit.xp.where(sign == -1, np.nan, logarithm)


@kernel("linalg.matrix_exp")
@on_host
def matrix_exp(kit: Any, out: Any, a: Any) -> Any:
    """NaN where there are infinities or NaNs, which SciPy's scaling would follow without end."""
    from scipy.linalg import expm

    finite = np.isfinite(a).all((-2, -1), keepdims=True)
    result = expm(np.where(finite, a, 0).astype(a.dtype)) if a.size else np.zeros(a.shape, a.dtype)
    return np.where(finite, result, np.nan)


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
