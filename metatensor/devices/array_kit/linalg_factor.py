"""Matrix factorizations in LAPACK's formats: Cholesky, LDL, LU and QR."""

from __future__ import annotations

from typing import Any

import numpy as np

from metatensor.devices.array_kit.matrices import adjoint, flat, lapack, on_host, raise_failed, stacks
from metatensor.devices.array_kit.registry import kernel

# Cholesky ------------------------------------------------------------------------------------


def cholesky_factors(a: np.ndarray, upper: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return Cholesky factors and the order of the first leading minor that is not positive (0 if all are positive)."""
    info = np.zeros(a.shape[:-2], np.int32)
    try:
        lower = np.linalg.cholesky(adjoint(np, np.triu(a)) if upper else a)
        factors = adjoint(np, lower) if upper else lower
    except np.linalg.LinAlgError:
        factors = np.empty(a.shape, a.dtype)
        potrf = lapack("potrf", a.dtype)
        for i, matrix in enumerate(flat(a)):
            flat(factors)[i], info.reshape(-1)[i] = potrf(matrix, lower=not upper, clean=True)
    # Not every LAPACK implementation stops at NaN.
    lost = np.isnan(np.diagonal(factors, axis1=-2, axis2=-1))
    if lost.any():
        first = np.where(lost.any(axis=-1), lost.argmax(axis=-1) + 1, a.shape[-1] + 1)
        info = np.where((info > 0) & (info < first), info, first % (a.shape[-1] + 1)).astype(np.int32)
    return factors, info


@kernel("linalg.cholesky_ex")
@on_host
def cholesky_ex(kit: Any, out: Any, a: Any, upper: bool, check_errors: bool) -> Any:
    factors, info = cholesky_factors(a, upper)
    if check_errors:
        raise_failed(info, "linalg.cholesky(): the matrix is not positive definite: its leading minor of order {} is not positive")
    return factors, info


@kernel("cholesky")
@on_host
def cholesky(kit: Any, out: Any, a: Any, upper: bool) -> Any:
    if not a.size:
        return a
    factors, info = cholesky_factors(a, upper)
    raise_failed(info, "cholesky(): the matrix is not positive definite: its leading minor of order {} is not positive")
    return factors


@kernel("cholesky_inverse")
@on_host
def cholesky_inverse(kit: Any, out: Any, factors: Any, upper: bool) -> Any:
    """Invert from the Cholesky factor. LAPACK's potri returns one triangle, from which the other one is copied."""
    inverses = np.zeros(factors.shape, factors.dtype)
    info = np.zeros(factors.shape[:-2], np.int32)
    if factors.size:
        potri = lapack("potri", factors.dtype)
        for i, matrix in enumerate(flat(factors)):
            flat(inverses)[i], info.reshape(-1)[i] = potri(matrix, lower=not upper)
    raise_failed(info, "cholesky_inverse(): the factor is singular: its diagonal element {} is zero")
    half = np.triu(inverses, 1) if upper else np.tril(inverses, -1)
    diagonal = np.eye(factors.shape[-1], dtype=factors.dtype) * inverses
    return half + adjoint(np, half) + diagonal


# LDL -------------------------------------------------------------------------------------------


@kernel("linalg.ldl_factor_ex")
@on_host
def ldl_factor_ex(kit: Any, out: Any, a: Any, hermitian: bool, check_errors: bool) -> Any:
    factors = np.zeros(a.shape, a.dtype)
    pivots, info = np.zeros(a.shape[:-1], np.int32), np.zeros(a.shape[:-2], np.int32)
    if a.size:
        routine = lapack("hetrf" if hermitian and a.dtype.kind == "c" else "sytrf", a.dtype)
        for i, matrix in enumerate(flat(a)):
            flat(factors)[i], flat(pivots, 1)[i], info.reshape(-1)[i] = routine(matrix, lower=True, lwork=blocked(matrix))
    if check_errors:
        raise_failed(info, "linalg.ldl_factor(): the factor D is singular: its diagonal element {} is zero")
    return np.tril(factors), pivots, info


# LU --------------------------------------------------------------------------------------------


def lu_factors(a: np.ndarray, pivot: bool = True, name: str = "") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return L and U in one matrix, the row exchanges, and the index of the first zero pivot (0 if there is none).

    Row numbers and the index of the pivot count from 1.
    """
    if not pivot and a.size:
        raise RuntimeError(f"{name}(): decompositions without pivoting are not supported; pass pivot=True (shape {list(a.shape)})")
    k = min(a.shape[-2:])
    factors = np.zeros(a.shape, a.dtype)
    pivots, info = np.zeros((*a.shape[:-2], k), np.int32), np.zeros(a.shape[:-2], np.int32)
    if a.size:
        getrf = lapack("getrf", a.dtype)
        for i, matrix in enumerate(flat(a)):
            flat(factors)[i], flat(pivots, 1)[i], info.reshape(-1)[i] = getrf(matrix)
    return factors, pivots + 1, info


@kernel("linalg.lu_factor_ex")
@on_host
def lu_factor_ex(kit: Any, out: Any, a: Any, pivot: bool, check_errors: bool) -> Any:
    factors, pivots, info = lu_factors(a, pivot, "linalg.lu_factor")
    if check_errors:
        raise_failed(info, "linalg.lu_factor(): the matrix is singular: the diagonal element {} of U is zero", RuntimeError)
    return factors, pivots, info


def check_pivots(pivots: np.ndarray, rows: int, name: str) -> None:
    """Raise RuntimeError unless all pivots are row numbers, counted from 1."""
    if pivots.size and (int(pivots.min()) < 1 or int(pivots.max()) > rows):
        raise RuntimeError(f"{name}(): pivots must lie in [1, {rows}], got {int(pivots.min())} to {int(pivots.max())}")


def permutations(pivots: np.ndarray, rows: int) -> np.ndarray:
    """Return the permutation matrices for the row exchanges in ``pivots``, which count from 1."""
    pivots = flat(pivots, 1)
    order = np.tile(np.arange(rows), (len(pivots), 1))
    batch = np.arange(len(pivots))
    for i in range(min(pivots.shape[1], rows)):
        other: Any = pivots[:, i] - 1
        order[batch, other], order[:, i] = order[:, i].copy(), order[batch, other]
    # Row order[i] of the matrix is row i of the product L U.
    return np.arange(rows)[:, None] == order[:, None, :]


def unpacked(out: Any, factors: np.ndarray, pivots: np.ndarray, data: bool, permuted: bool) -> Any:
    rows, columns = factors.shape[-2:]
    k = min(rows, columns)
    p = permutations(pivots, rows).reshape(out[0].shape) if permuted else np.zeros(0)
    if not data:
        return p, np.zeros(0), np.zeros(0)
    lower = np.tril(factors[..., :k], -1) + np.eye(rows, k, dtype=factors.dtype)
    return p, lower, np.triu(factors[..., :k, :])


@kernel("linalg.lu")
@on_host
def lu(kit: Any, out: Any, a: Any, pivot: bool) -> Any:
    factors, pivots, _ = lu_factors(a, pivot, "linalg.lu")
    return unpacked(out, factors, pivots, True, pivot)


@kernel("lu_unpack")
@on_host
def lu_unpack(kit: Any, out: Any, factors: Any, pivots: Any, unpack_data: bool, unpack_pivots: bool) -> Any:
    if not factors.size:
        pivots = np.zeros((*factors.shape[:-2], min(factors.shape[-2:])), np.int32)  # without elements: no exchanges
    elif unpack_pivots:
        check_pivots(pivots, factors.shape[-2], "lu_unpack")
    return unpacked(out, factors, pivots, unpack_data, unpack_pivots)


# QR --------------------------------------------------------------------------------------------


@kernel("linalg.qr")
def qr(kit: Any, out: Any, a: Any, mode: str) -> Any:
    if mode == "r":
        return kit.xp.zeros(0, a.dtype), kit.xp.linalg.qr(a, "r")
    if not kit.on_host or not a.size:
        return tuple(kit.xp.linalg.qr(a, mode))
    # NumPy's function takes three times as long, because it passes LAPACK too little workspace.
    rows, columns = a.shape[-2:]
    rank, width = min(rows, columns), rows if mode == "complete" else min(rows, columns)
    # The columns of a result are contiguous, as in LAPACK: these are the transposed matrices.
    q, r = np.zeros((*a.shape[:-2], width, rows), a.dtype), np.zeros((*a.shape[:-2], columns, width), a.dtype)
    factorize, expand = lapack("geqrf", a.dtype), lapack("orgqr", a.dtype)
    upper = np.tri(columns, rank, dtype=np.bool_)
    for i, matrix in enumerate(flat(a)):
        factors, tau = factorize(matrix, lwork=blocked(matrix))[:2]
        np.copyto(flat(r)[i, :, :rank], factors.T[:, :rank], where=upper)
        vectors = flat(q)[i].T
        vectors[:, :rank] = factors[:, :rank]
        vectors[:] = expand(vectors, tau, lwork=blocked(vectors), overwrite_a=True)[0]
    return q.swapaxes(-1, -2), r.swapaxes(-1, -2)


@kernel("geqrf")
@on_host
def geqrf(kit: Any, out: Any, a: Any) -> Any:
    factors, tau = np.zeros(a.shape, a.dtype), np.zeros((*a.shape[:-2], min(a.shape[-2:])), a.dtype)
    if a.size:
        routine = lapack("geqrf", a.dtype)
        for i, matrix in enumerate(flat(a)):
            flat(factors)[i], flat(tau, 1)[i] = routine(matrix, lwork=blocked(matrix))[:2]
    return factors, tau


def blocked(matrix: np.ndarray) -> int:
    """Return a workspace size for LAPACK's blocked algorithms."""
    return 64 * max(1, *matrix.shape)


@kernel("linalg.householder_product", "orgqr")
@on_host
def householder_product(kit: Any, out: Any, vectors: Any, tau: Any) -> Any:
    rows, columns = vectors.shape[-2:]
    if not vectors.size or not tau.size:
        return np.broadcast_to(np.eye(rows, columns, dtype=vectors.dtype), vectors.shape)
    result = np.empty(vectors.shape, vectors.dtype)
    routine = lapack("orgqr", vectors.dtype)
    for i, (matrix, factors) in enumerate(stacks(vectors, tau, keep=(2, 1))):
        flat(result)[i] = routine(matrix, factors, lwork=blocked(matrix))[0]
    return result


@kernel("ormqr")
@on_host
def ormqr(kit: Any, out: Any, vectors: Any, tau: Any, other: Any, left: bool, transpose: bool) -> Any:
    if not tau.size or not other.size:
        return other
    routine = lapack("ormqr", vectors.dtype)
    side, turn = "L" if left else "R", ("C" if vectors.dtype.kind == "c" else "T") if transpose else "N"
    result = np.empty(other.shape, other.dtype)
    for i, (matrix, factors, product) in enumerate(stacks(vectors, tau, other, keep=(2, 1, 2))):
        result_i = routine(side, turn, matrix[:, : len(factors)], factors, product, blocked(product))[0]
        flat(result)[i] = result_i
    return result
