"""Linear algebra of the standard: products, norms, solvers and decompositions.

Leading dimensions are batches of matrices.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import metatensor as mt
from metatensor.array_api._dtypes import array, pair, sum_dtype
from metatensor.array_api._manipulation import place_of, places_of

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm", "matrix_power",
    "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot", "trace",
    "vecdot", "vector_norm",
]  # fmt: skip


class eigh_result(NamedTuple):
    """Result of `eigh`."""

    eigenvalues: Any
    eigenvectors: Any


class qr_result(NamedTuple):
    """Result of `qr`."""

    Q: Any
    R: Any


class slogdet_result(NamedTuple):
    """Result of `slogdet`."""

    sign: Any
    logabsdet: Any


class svd_result(NamedTuple):
    """Result of `svd`."""

    U: Any
    S: Any
    Vh: Any


def matmul(x1: Any, x2: Any, /) -> Any:
    """Return the matrix product of shapes (..., M, K) and (..., K, N), in the common dtype.

    A vector on the left counts as a row (1, K), and a vector on the right as a column (K, 1). The additional axis is
    removed from the result.
    """
    return mt.matmul(*pair(array(x1, "x1"), array(x2, "x2")))


def matrix_transpose(x: Any, /) -> Any:
    """Return a view of `x` with the last two axes swapped. Raise ValueError if `x` has fewer than two dimensions."""
    if array(x).ndim < 2:
        raise ValueError(f"matrix_transpose: a tensor of shape {list(x.shape)} does not hold matrices")
    return x.mT


def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Any:
    """Return the sum of products of elements over pairs of axes.

    If `axes` is an int, the pairs are the last `axes` axes of `x1` and the first `axes` axes of `x2`. Otherwise `axes`
    is a pair of lists: the axes of `x1`, and those of `x2`.
    """
    a, b = pair(array(x1, "x1"), array(x2, "x2"))
    if not isinstance(axes, int):
        axes = ([*axes[0]], [*axes[1]])
    return mt.tensordot(a, b, axes)


def _aligned(x1: Any, x2: Any, axis: int, name: str) -> tuple[Any, Any]:
    """Return two tensors with a common dtype and number of dimensions.

    Raise ValueError unless `axis` is negative and exists in both tensors with the same size.
    """
    a, b = pair(array(x1, "x1"), array(x2, "x2"))
    if not -min(a.ndim, b.ndim) <= axis < 0:
        raise ValueError(f"{name}: axis must be negative and exist in both tensors, got {axis} for {a.ndim} and {b.ndim} dimensions")
    if a.shape[axis] != b.shape[axis]:
        raise ValueError(f"{name}: sizes along axis {axis} differ: {list(a.shape)} and {list(b.shape)}")
    n = max(a.ndim, b.ndim)
    return a[(None,) * (n - a.ndim)], b[(None,) * (n - b.ndim)]


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Return the dot products of the vectors along `axis`. The elements of `x1` are conjugated, and the other axes
    broadcast.

    Raises
    ------
    ValueError
        If `axis` is not negative, or if its sizes in `x1` and `x2` differ.
    """
    a, b = _aligned(x1, x2, axis, "vecdot")
    a, b = a.movedim(axis, -1), b.movedim(axis, -1)
    if a.is_floating_point() or a.is_complex():
        return mt.linalg.vecdot(a, b)
    return mt.sum(a * b, -1, dtype=a.dtype)


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Return the cross products of the vectors along `axis`, which must have size 3. The other axes broadcast."""
    a, b = _aligned(x1, x2, axis, "cross")
    if a.shape[axis] != 3:
        raise ValueError(f"cross: vectors must have 3 elements, got shape {list(a.shape)} and axis {axis}")
    return mt.linalg.cross(a, b, dim=axis)


def outer(x1: Any, x2: Any, /) -> Any:
    """Return the outer product of two vectors, of shape (N, M)."""
    return mt.outer(*pair(array(x1, "x1"), array(x2, "x2")))


def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """Return a view of a diagonal of each matrix. A positive `offset` selects a diagonal above the main diagonal."""
    return mt.diagonal(array(x), offset, -2, -1)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """Return the sum along a diagonal of each matrix. The default dtype is the same as for `sum`."""
    return mt.sum(diagonal(x, offset=offset), -1, dtype=sum_dtype(x, dtype))


def cholesky(x: Any, /, *, upper: bool = False) -> Any:
    """Return the lower Cholesky factor L, where ``x = L @ L^H``, or its conjugate transpose if `upper`.

    Raise LinAlgError if a matrix is not positive definite.
    """
    return mt.linalg.cholesky(array(x), upper=upper)


def det(x: Any, /) -> Any:
    """Return the determinant of each matrix."""
    return mt.linalg.det(array(x))


def slogdet(x: Any, /) -> slogdet_result:
    """Return the sign of each determinant and the logarithm of its absolute value."""
    return slogdet_result(*mt.linalg.slogdet(array(x)))


def inv(x: Any, /) -> Any:
    """Return the inverse of each matrix. Raise LinAlgError if one is singular."""
    return mt.linalg.inv(array(x))


def pinv(x: Any, /, *, rtol: Any = None) -> Any:
    """Return the Moore-Penrose pseudo-inverse of each matrix of shape (..., M, N), as (..., N, M).

    Singular values up to `rtol` times the largest one are treated as 0.
    """
    return mt.linalg.pinv(array(x), rtol=rtol)


def solve(x1: Any, x2: Any, /) -> Any:
    """Return the solution of ``x1 @ x = x2``. `x2` is one vector, or a matrix or batch of matrices.

    Raise LinAlgError if a matrix is singular.
    """
    a, b = pair(array(x1, "x1"), array(x2, "x2"))
    vector = b.ndim == 1
    b = b.unsqueeze(1) if vector else b
    # If the numbers of dimensions are equal, `mt.linalg.solve` does not interpret x2 as a batch of vectors.
    n = max(a.ndim, b.ndim)
    solved = mt.linalg.solve(a[(None,) * (n - a.ndim)], b[(None,) * (n - b.ndim)])
    return solved.squeeze(-1) if vector else solved


def eigh(x: Any, /) -> eigh_result:
    """Return the eigenvalues, in ascending order, and the eigenvectors, as columns, of symmetric or Hermitian matrices.
    """
    return eigh_result(*mt.linalg.eigh(array(x)))


def eigvalsh(x: Any, /) -> Any:
    """Return the eigenvalues of symmetric or Hermitian matrices, in ascending order."""
    return mt.linalg.eigvalsh(array(x))


def qr(x: Any, /, *, mode: Any = "reduced") -> qr_result:
    """Return Q with orthonormal columns and upper triangular R, where ``x = Q @ R``.

    For matrices of shape (M, N) and K = min(M, N), Q is (M, K) and R is (K, N) in the mode "reduced". In the mode
    "complete", Q is (M, M) and R is (M, N). Raise ValueError for any other mode.
    """
    if mode not in ("reduced", "complete"):
        raise ValueError(f"qr: mode must be 'reduced' or 'complete', got {mode!r}")
    return qr_result(*mt.linalg.qr(array(x), mode=mode))


def svd(x: Any, /, *, full_matrices: bool = True) -> svd_result:
    """Return U, the singular values S in descending order, and Vh.

    For matrices of shape (M, N) and K = min(M, N), U has shape (M, M) and Vh (N, N). If `full_matrices` is False, they
    are (M, K) and (K, N), and ``x = (U * S) @ Vh``.
    """
    return svd_result(*mt.linalg.svd(array(x), full_matrices=full_matrices))


def svdvals(x: Any, /) -> Any:
    """Return the singular values of matrices, largest first."""
    return mt.linalg.svdvals(array(x))


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """Return the norm of each matrix.

    `ord` is "fro" (or None), "nuc", 1, 2, inf, -1, -2 or -inf.
    """
    return mt.linalg.matrix_norm(array(x), "fro" if ord is None else ord, dim=(-2, -1), keepdim=keepdims)


def matrix_power(x: Any, n: int, /) -> Any:
    """Return each square matrix raised to the integer power `n`. A negative `n` inverts it first."""
    return mt.linalg.matrix_power(array(x), n)


def matrix_rank(x: Any, /, *, rtol: Any = None) -> Any:
    """Return the number of singular values of each matrix that are greater than `rtol` times the largest one.

    Raise ValueError if `x` has fewer than two dimensions.
    """
    if array(x).ndim < 2:
        raise ValueError(f"matrix_rank: a tensor of shape {list(x.shape)} does not hold matrices")
    return mt.linalg.matrix_rank(x, rtol=rtol)


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """Return the norm of the vectors along one axis, several axes, or all (None).

    It is ``sum(abs(x)**ord)**(1/ord)``, the largest absolute value for inf, the smallest for -inf, and the number of
    nonzero elements for 0.
    """
    places = places_of(axis, array(x).ndim)
    if not places:
        return mt.linalg.vector_norm(x.unsqueeze(-1), ord, dim=-1)
    if axis is None or isinstance(axis, tuple):
        return mt.linalg.vector_norm(x, ord, dim=places, keepdim=keepdims)
    return mt.linalg.vector_norm(x, ord, dim=place_of(axis, x.ndim), keepdim=keepdims)
