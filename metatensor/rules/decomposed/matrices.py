"""Linear algebra based on factorizations, and the real Fourier transform based on the complex one."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.rules.decompositions import decomposition


@decomposition("linalg.det", "det")
def det(a: Any) -> Any:
    """Multiply the diagonal of the LU factors. An odd number of row exchanges changes the sign."""
    factors, pivots = mt.linalg.lu_factor_ex(a)[:2]
    return factors.diagonal(dim1=-2, dim2=-1).prod(-1) * _parity(pivots, factors.dtype)


def _parity(pivots: Any, dtype: Any) -> Any:
    moved = pivots != mt.arange(1, pivots.shape[-1] + 1, dtype=pivots.dtype, device=pivots.device)
    return (1 - 2 * (moved.sum(-1) % 2)).to(dtype)


@decomposition("linalg.slogdet", "slogdet")
def slogdet(a: Any) -> Any:
    factors, pivots = mt.linalg.lu_factor_ex(a)[:2]
    diagonal = factors.diagonal(dim1=-2, dim2=-1)
    return diagonal.sgn().prod(-1) * _parity(pivots, factors.dtype), diagonal.abs().log().sum(-1)


@decomposition("_linalg_det")
def det_parts(a: Any) -> Any:
    factors, pivots = mt.linalg.lu_factor_ex(a)[:2]
    return factors.diagonal(dim1=-2, dim2=-1).prod(-1) * _parity(pivots, factors.dtype), factors, pivots


@decomposition("_linalg_slogdet")
def slogdet_parts(a: Any) -> Any:
    factors, pivots = mt.linalg.lu_factor_ex(a)[:2]
    diagonal = factors.diagonal(dim1=-2, dim2=-1)
    return diagonal.sgn().prod(-1) * _parity(pivots, factors.dtype), diagonal.abs().log().sum(-1), factors, pivots


@decomposition("_linalg_solve_ex")
def solve_parts(a: Any, b: Any, left: bool, check_errors: bool) -> Any:
    factors, pivots, info = mt.linalg.lu_factor_ex(a)
    if check_errors and info.numel() and bool((info != 0).any().item()):
        raise mt.linalg.LinAlgError("linalg.solve: the matrix A is singular")
    vector = b.dim() == 1 or b.shape == a.shape[:-1]
    right = b.unsqueeze(-1) if vector else b if left else b.mT
    order = _order(pivots)
    if left:
        half = mt.linalg.solve_triangular(factors, _rows(right, order), upper=False, unitriangular=True)
        result = mt.linalg.solve_triangular(factors, half, upper=True)
    else:
        half = mt.linalg.solve_triangular(factors.mT, right, upper=False)
        half = mt.linalg.solve_triangular(factors.mT, half, upper=True, unitriangular=True)
        result = _rows(half, order.argsort(-1)).mT
    return result.squeeze(-1) if vector else result, factors, pivots, info


def _order(pivots: Any) -> Any:
    """Return the permutation of rows that a sequence of exchanges performs. The pivots are counted from 1."""
    order = mt.arange(pivots.shape[-1], device=pivots.device).expand(pivots.shape)
    for i in range(pivots.shape[-1]):
        other = pivots[..., i : i + 1].to(mt.int64) - 1
        moved = mt.gather(order, -1, other)
        order = mt.scatter(order, -1, other, order[..., i : i + 1])
        order = mt.cat([order[..., :i], moved, order[..., i + 1 :]], -1)
    return order


def _rows(matrices: Any, order: Any) -> Any:
    """Return matrices with their rows in another order."""
    batch = mt.broadcast_shapes(matrices.shape[:-2], order.shape[:-1])
    places = order.unsqueeze(-1).expand(*batch, order.shape[-1], matrices.shape[-1])
    return mt.gather(matrices.expand(*batch, *matrices.shape[-2:]), -2, places)


@decomposition("logdet")
def logdet(a: Any) -> Any:
    sign, log = mt.linalg.slogdet(a)
    return log + sign.log()


@decomposition("cholesky")
def cholesky(a: Any, upper: bool) -> Any:
    factor, info = mt.linalg.cholesky_ex(a, upper=upper)
    if info.numel() and bool((info != 0).any().item()):
        raise mt.linalg.LinAlgError("cholesky: the input is not positive definite")
    return factor


@decomposition("linalg.eigvals")
def eigvals(a: Any) -> Any:
    return mt.linalg.eig(a)[0]


@decomposition("linalg.eigvalsh")
def eigvalsh(a: Any, uplo: str) -> Any:
    return mt.linalg.eigh(a, uplo)[0]


@decomposition("linalg.svdvals")
def svdvals(a: Any, driver: Any) -> Any:
    return mt.linalg.svd(a, False)[1]


@decomposition("cholesky_solve")
def cholesky_solve(b: Any, factor: Any, upper: bool) -> Any:
    first = factor.mH if upper else factor
    half = mt.linalg.solve_triangular(first, b, upper=False)
    return mt.linalg.solve_triangular(first.mH, half, upper=True)


@decomposition("_fft_r2c")
def r2c(x: Any, dim: Any, normalization: int, onesided: bool) -> Any:
    out = mt._fft_c2c(mt.complex(x, mt.zeros_like(x)), dim, normalization, True)
    return out.narrow(dim[-1], 0, x.shape[dim[-1]] // 2 + 1) if onesided else out
