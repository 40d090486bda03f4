"""Kernels of linear systems, inverses and least squares."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from metatensor.devices.array_kit.linalg_factor import check_pivots, lu_factors
from metatensor.devices.array_kit.matrices import adjoint, blas, flat, lapack, on_host, raise_failed, stacks
from metatensor.devices.array_kit.registry import kernel
from metatensor.linalg import LinAlgError

# General matrices --------------------------------------------------------------------------------


def solved(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Solve A X = B. Return X (NaN for a singular A) and the index from 1 of A's first zero pivot (0 if none)."""
    try:
        return np.linalg.solve(a, b), np.zeros(a.shape[:-2], np.int32)
    except np.linalg.LinAlgError:
        info = lu_factors(a)[2]
        singular = (info > 0)[..., None, None]
        result = np.linalg.solve(np.where(singular, np.eye(a.shape[-1], dtype=a.dtype), a), b)
        return np.where(singular, np.nan, result), info


@kernel("linalg.solve_ex")
@on_host
def solve_ex(kit: Any, out: Any, a: Any, b: Any, left: bool, check_errors: bool) -> Any:
    if vector := b.ndim == 1 or b.shape == a.shape[:-1]:
        b = b[..., None]
    if left:
        result, info = solved(a, b)
    else:
        result, info = solved(np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2))
        result = np.swapaxes(result, -1, -2)
    if check_errors:
        raise_failed(info, "linalg.solve(): the matrix A is singular: element {} of its diagonal is zero after elimination")
    return result[..., 0] if vector else result, info


@kernel("_linalg_solve_ex")
@on_host
def solve_parts(kit: Any, out: Any, a: Any, b: Any, left: bool, check_errors: bool) -> Any:
    factors, pivots, info = lu_factors(a)
    if check_errors:
        raise_failed(info, "linalg.solve(): the matrix A is singular: element {} of its diagonal is zero after elimination")
    if vector := b.ndim == 1 or b.shape == a.shape[:-1]:
        b = b[..., None]
    result = from_factors(factors, pivots, b, left, False)
    return result[..., 0] if vector else result, factors, pivots, info


@kernel("linalg.inv_ex")
@on_host
def inv_ex(kit: Any, out: Any, a: Any, check_errors: bool) -> Any:
    result, info = solved(a, np.eye(a.shape[-1], dtype=a.dtype))
    if check_errors:
        raise_failed(info, "linalg.inv(): the matrix is singular: element {} of its diagonal is zero after elimination")
    return result, info


# Given factors --------------------------------------------------------------------------------------


def triangular(a: np.ndarray, b: np.ndarray, left: bool, upper: bool, unit: bool, transpose: bool = False) -> np.ndarray:
    """Solve triangular systems. For singular matrices the solutions contain infinities."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    result = np.zeros(batch + b.shape[-2:], a.dtype)
    if result.size:
        trsm = blas("trsm", a.dtype)
        for i, (matrix, right) in enumerate(stacks(a, b)):
            flat(result)[i] = trsm(1.0, matrix, right, side=not left, lower=not upper, trans_a=int(transpose), diag=int(unit))
    return result


@kernel("linalg.solve_triangular")
@on_host
def solve_triangular(kit: Any, out: Any, a: Any, b: Any, upper: bool, left: bool, unitriangular: bool) -> Any:
    if b.dtype.kind == "c" and a.dtype.kind != "c":
        b = b.real
    return triangular(a, b.astype(a.dtype, copy=False), left, upper, unitriangular)


@kernel("triangular_solve")
@on_host
def triangular_solve(kit: Any, out: Any, b: Any, a: Any, upper: bool, transpose: bool, unitriangular: bool) -> Any:
    return triangular(a, b, True, upper, unitriangular, transpose), np.broadcast_to(a, out[1].shape)


def from_factors(factors: np.ndarray, pivots: np.ndarray, b: np.ndarray, left: bool, adjoint_of: bool) -> Any:
    """Solve A X = B from the LU factors of A. X A = B is solved as A.T X.T = B.T, and X A.mH = B as A X.mH = B.mH."""
    if not left:
        b = adjoint(np, b) if adjoint_of else np.swapaxes(b, -1, -2)
    trans = (2 if adjoint_of else 0) if left else (0 if adjoint_of else 1)
    result = np.zeros(np.broadcast_shapes(factors.shape[:-2], b.shape[:-2]) + b.shape[-2:], factors.dtype)
    if result.size:
        check_pivots(pivots, factors.shape[-1], "linalg.lu_solve")  # LAPACK does not check the pivots
        rows = pivots - 1
        getrs = lapack("getrs", factors.dtype)
        for i, (matrix, exchanged, right) in enumerate(stacks(factors, rows, b, keep=(2, 1, 2))):
            flat(result)[i] = getrs(matrix, exchanged, right, trans=trans)[0]
    if left:
        return result
    return adjoint(np, result) if adjoint_of else np.swapaxes(result, -1, -2)


@kernel("linalg.lu_solve")
@on_host
def lu_solve(kit: Any, out: Any, factors: Any, pivots: Any, b: Any, left: bool, adjoint_of: bool) -> Any:
    return from_factors(factors, pivots, b, left, adjoint_of)


def ldl_solution(ld: np.ndarray, pivots: np.ndarray, b: np.ndarray, hermitian: bool) -> np.ndarray:
    """Solve with the LDL factors of one matrix. Two equal negative pivots in a row mark a 2x2 block of D."""
    x, n = b.copy(), len(ld)
    last, turned = n - 1, ld.conj() if hermitian else ld
    k = 0
    while k < n:
        wide = 2 if pivots[k] < 0 and k < last else 1
        row, other = k + wide - 1, abs(int(pivots[k])) - 1
        x[[row, other]] = x[[other, row]]
        x[k + wide :] -= ld[k + wide :, k : k + wide] @ x[k : k + wide]
        block = np.tril(ld[k : k + wide, k : k + wide])
        block = block + np.tril(block.conj() if hermitian else block, -1).T
        x[k : k + wide] = np.linalg.solve(block, x[k : k + wide]) if wide == 2 else x[k] / block
        k += wide
    k = last
    while k >= 0:
        wide = 2 if pivots[k] < 0 and k else 1
        x[k - wide + 1 : k + 1] -= turned[k + 1 :, k - wide + 1 : k + 1].T @ x[k + 1 :]
        other = abs(int(pivots[k])) - 1
        x[[k, other]] = x[[other, k]]
        k -= wide
    return x


@kernel("linalg.ldl_solve")
@on_host
def ldl_solve(kit: Any, out: Any, factors: Any, pivots: Any, b: Any, hermitian: bool) -> Any:
    result = np.zeros(out.shape, factors.dtype)
    if result.size:
        check_pivots(abs(pivots), factors.shape[-1], "linalg.ldl_solve")
        for i, (matrix, exchanged, right) in enumerate(stacks(factors, pivots, b, keep=(2, 1, 2))):
            flat(result)[i] = ldl_solution(matrix, exchanged, right, hermitian)
    return result


@kernel("cholesky_solve")
@on_host
def cholesky_solve(kit: Any, out: Any, b: Any, factors: Any, upper: bool) -> Any:
    result = np.zeros(out.shape, factors.dtype)
    if result.size:
        potrs = lapack("potrs", factors.dtype)
        for i, (matrix, right) in enumerate(stacks(factors, b)):
            flat(result)[i] = potrs(matrix, right, lower=not upper)[0]
    return result


# Least squares -------------------------------------------------------------------------------------


def least_squares(a: np.ndarray, b: np.ndarray, driver: str, rcond: float) -> tuple[Any, int, Any, int]:
    """Solve one least-squares problem.

    Return LAPACK's solution with the residual rows below it, the rank, the singular values, and info.
    """
    (m, n), k = a.shape, b.shape[1]
    routine = lapack(driver, a.dtype)
    padded = np.zeros((max(m, n), k), a.dtype, "F")
    padded[:m] = b
    if driver == "gels":
        _, x, info = routine(a, padded)
        return x, 0, None, info
    if driver == "gelsy":
        size = lapack("gelsy_lwork", a.dtype)(m, n, k, rcond)[0]
        _, x, _, rank, info = routine(a, padded, np.zeros(n, np.int32), rcond, int(size.real))
        return x, rank, None, info
    if driver == "gelss":
        size = lapack("gelss_lwork", a.dtype)(m, n, k)[0]
        _, x, values, rank, _, info = routine(a, padded, rcond, int(size.real))
        return x, rank, values, info
    size, *others, _ = lapack("gelsd_lwork", a.dtype)(m, n, k)
    x, values, rank, info = routine(a, padded, int(size.real), *(int(s) for s in others), rcond)
    return x, rank, values, info


@kernel("_linalg_lstsq")
@on_host
def lstsq(kit: Any, out: Any, a: Any, b: Any, rcond: float | None, driver: str) -> Any:
    if vector := b.ndim == 1 or b.shape == a.shape[:-1]:
        b = b[..., None]
    m, n = a.shape[-2:]
    batch = out[0].shape[: a.ndim - 2]
    if rcond is None:
        rcond = float(np.finfo(a.dtype).eps) * max(m, n)
    # Rank and singular values depend only on A. If B has no columns, use one column of zeros.
    k = b.shape[-1]
    b = np.broadcast_to(b, (*batch, m, k)) if k else np.zeros((*batch, m, 1), a.dtype)
    wide = np.broadcast_to(a, (*batch, m, n))
    x = np.zeros((math.prod(batch), max(m, n), b.shape[-1]), a.dtype)
    x[:, :m] = flat(b)
    rank = np.zeros(math.prod(batch), np.int64)
    values = np.zeros((math.prod(batch), min(m, n)), np.finfo(a.dtype).dtype)
    if not (m and n):
        x[:, :n] = 0
    else:
        for i, (matrix, right) in enumerate(stacks(wide, b)):
            x[i], rank[i], found, info = least_squares(matrix, right, driver, rcond)
            if info:
                raise LinAlgError(
                    f"linalg.lstsq(): the driver {driver} found no solution for a matrix of shape {list(matrix.shape)}: "
                    + ("it is not of full rank" if driver == "gels" else "the computation did not converge")
                )
            if found is not None:
                values[i] = found
    rest = x[:, n:, :k]
    residuals = np.sum(rest.real**2 + rest.imag**2, axis=1)
    solution = x[:, :n, :k].reshape((*batch, n, k))
    several = batch != a.shape[:-2]  # one matrix for several right-hand sides
    if several:
        rank, values = first_of(rank.reshape(batch), a.ndim - 2, a.shape), first_of(values.reshape((*batch, -1)), a.ndim - 2, a.shape)
    return (
        solution[..., 0] if vector else solution,
        residuals.reshape(out[1].shape) if out[1].ndim > 1 or out[1].size else np.zeros(out[1].shape),
        rank.reshape(out[2].shape) if driver != "gels" else np.zeros(0),
        values.reshape(out[3].shape) if driver in ("gelsd", "gelss") else np.zeros(0),
    )


def first_of(array: np.ndarray, batch: int, shape: tuple[int, ...]) -> np.ndarray:
    """Return the entries of a broadcast batch that belong to the matrices of the original ``shape``."""
    return array[tuple(slice(0, 1) if shape[i] == 1 else slice(None) for i in range(batch))]
