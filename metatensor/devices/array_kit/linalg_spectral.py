"""Kernels of eigenvalues, singular values and pseudoinverses."""

from __future__ import annotations

from typing import Any

import numpy as np

from metatensor.devices.array_kit.matrices import adjoint, on_host, translated
from metatensor.devices.array_kit.registry import kernel
from metatensor.linalg import LinAlgError


def need_finite(name: str, array: np.ndarray) -> None:
    if not np.isfinite(array).all():
        raise RuntimeError(f"{name}(): there are infinities or NaNs in the matrices of shape {list(array.shape)}")


@kernel("linalg.eig")
@on_host
def eig(kit: Any, out: Any, a: Any) -> Any:
    need_finite("linalg.eig", a)
    try:
        return tuple(np.linalg.eig(a))
    except np.linalg.LinAlgError as error:
        raise LinAlgError(f"linalg.eig(): {error} (shape {list(a.shape)})") from error


@kernel("linalg.eigvals")
@on_host
def eigvals(kit: Any, out: Any, a: Any) -> Any:
    need_finite("linalg.eigvals", a)
    try:
        return np.linalg.eigvals(a)
    except np.linalg.LinAlgError as error:
        raise LinAlgError(f"linalg.eigvals(): {error} (shape {list(a.shape)})") from error


@kernel("linalg.eigh")
@translated("linalg.eigh()")
def eigh(kit: Any, out: Any, a: Any, uplo: str) -> Any:
    return tuple(kit.xp.linalg.eigh(a, uplo.upper()))


@kernel("linalg.eigvalsh")
@translated("linalg.eigvalsh()")
def eigvalsh(kit: Any, out: Any, a: Any, uplo: str) -> Any:
    return kit.xp.linalg.eigvalsh(a, uplo.upper())


@kernel("linalg.svd")
@translated("linalg.svd()")
def svd(kit: Any, out: Any, a: Any, full_matrices: bool, driver: str | None) -> Any:
    return tuple(kit.xp.linalg.svd(a, full_matrices))


@kernel("linalg.svdvals")
@translated("linalg.svdvals()")
def svdvals(kit: Any, out: Any, a: Any, driver: str | None) -> Any:
    return kit.xp.linalg.svd(a, compute_uv=False)


def inverted(xp: Any, values: Any, atol: Any, rtol: Any) -> Any:
    """Return reciprocals of the values with magnitude above max(atol, rtol * largest magnitude), and 0 for the rest."""
    magnitudes = xp.abs(values)
    limit = xp.maximum(xp.asarray(atol)[..., None], xp.asarray(rtol)[..., None] * magnitudes.max(-1, keepdims=True))
    above = magnitudes > limit
    return xp.where(above, 1 / xp.where(above, values, 1), 0).astype(values.dtype)


@translated("linalg.pinv()")
def pseudoinverse(kit: Any, out: Any, a: Any, atol: Any, rtol: Any, hermitian: bool) -> Any:
    xp = kit.xp
    if not a.size:
        return xp.zeros(out.shape, a.dtype)
    if hermitian:
        values, vectors = xp.linalg.eigh(a)
        return xp.matmul(vectors * inverted(xp, values, atol, rtol)[..., None, :], adjoint(xp, vectors))
    u, s, vh = xp.linalg.svd(a, full_matrices=False)
    return xp.matmul(adjoint(xp, vh) * inverted(xp, s, atol, rtol)[..., None, :], adjoint(xp, u))


@kernel("linalg.pinv", "linalg.pinv.numbers")
def pinv(kit: Any, out: Any, a: Any, atol: Any, rtol: Any, hermitian: bool) -> Any:
    if rtol is None:
        rtol = float(np.finfo(a.dtype).eps) * max(a.shape[-2:])
        if atol is not None:
            rtol = kit.xp.where(kit.xp.asarray(atol) > 0, 0.0, rtol)
    return pseudoinverse(kit, out, a, 0.0 if atol is None else atol, rtol, hermitian)


@kernel("linalg.pinv.rcond_tensor", "linalg.pinv.rcond")
def pinv_rcond(kit: Any, out: Any, a: Any, rcond: Any, hermitian: bool) -> Any:
    return pseudoinverse(kit, out, a, 0.0, rcond, hermitian)
