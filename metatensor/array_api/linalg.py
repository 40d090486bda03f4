"""The linear algebra of the standard: products, norms, solutions and decompositions of matrices and stacks of them."""

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
    """What `eigh` gives."""

    eigenvalues: Any
    eigenvectors: Any


class qr_result(NamedTuple):
    """What `qr` gives."""

    Q: Any
    R: Any


class slogdet_result(NamedTuple):
    """What `slogdet` gives."""

    sign: Any
    logabsdet: Any


class svd_result(NamedTuple):
    """What `svd` gives."""

    U: Any
    S: Any
    Vh: Any


def matmul(x1: Any, x2: Any, /) -> Any:
    """The matrix product; a vector counts as one row on the left and as one column on the right."""
    return mt.matmul(*pair(array(x1, "x1"), array(x2, "x2")))


def matrix_transpose(x: Any, /) -> Any:
    """The last two axes swapped; a view."""
    if array(x).ndim < 2:
        raise ValueError(f"matrix_transpose: a tensor of shape {list(x.shape)} holds no matrices")
    return x.mT


def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Any:
    """The sum of products over the last `axes` axes of `x1` and the first of `x2`, or over two lists of axes."""
    a, b = pair(array(x1, "x1"), array(x2, "x2"))
    if not isinstance(axes, int):
        axes = ([*axes[0]], [*axes[1]])
    return mt.tensordot(a, b, axes)


def _aligned(x1: Any, x2: Any, axis: int, name: str) -> tuple[Any, Any]:
    """Two tensors of one dtype and as many dimensions, with the same size along `axis`, counted from the end."""
    a, b = pair(array(x1, "x1"), array(x2, "x2"))
    if not -min(a.ndim, b.ndim) <= axis < 0:
        raise ValueError(f"{name}: axis must be negative and one of both tensors, got {axis} for {a.ndim} and {b.ndim}")
    if a.shape[axis] != b.shape[axis]:
        raise ValueError(f"{name}: sizes along axis {axis} differ: {list(a.shape)} and {list(b.shape)}")
    n = max(a.ndim, b.ndim)
    return a[(None,) * (n - a.ndim)], b[(None,) * (n - b.ndim)]


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Products of vectors along `axis`, the first one conjugated; the other axes broadcast.

    ValueError for an axis that is not negative or sizes that differ along it.
    """
    a, b = _aligned(x1, x2, axis, "vecdot")
    a, b = a.movedim(axis, -1), b.movedim(axis, -1)
    if a.is_floating_point() or a.is_complex():
        return mt.linalg.vecdot(a, b)
    return mt.sum(a * b, -1, dtype=a.dtype)


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """The cross product of vectors of 3 elements along `axis`; the other axes broadcast."""
    a, b = _aligned(x1, x2, axis, "cross")
    if a.shape[axis] != 3:
        raise ValueError(f"cross: vectors have 3 elements, got shape {list(a.shape)} and axis {axis}")
    return mt.linalg.cross(a, b, dim=axis)


def outer(x1: Any, x2: Any, /) -> Any:
    """All products of an element of the vector `x1` and one of `x2`."""
    return mt.outer(*pair(array(x1, "x1"), array(x2, "x2")))


def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """Diagonals of matrices: above the main one where `offset` > 0. A view."""
    return mt.diagonal(array(x), offset, -2, -1)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """Sums along diagonals, in the dtype that `sum` has."""
    return mt.sum(diagonal(x, offset=offset), -1, dtype=sum_dtype(x, dtype))


def cholesky(x: Any, /, *, upper: bool = False) -> Any:
    """The lower Cholesky factor, or with `upper` the upper one. LinAlgError where a matrix is not positive definite."""
    return mt.linalg.cholesky(array(x), upper=upper)


def det(x: Any, /) -> Any:
    """Determinants."""
    return mt.linalg.det(array(x))


def slogdet(x: Any, /) -> slogdet_result:
    """Signs of determinants and logarithms of their magnitudes."""
    return slogdet_result(*mt.linalg.slogdet(array(x)))


def inv(x: Any, /) -> Any:
    """Inverses. LinAlgError for a singular matrix."""
    return mt.linalg.inv(array(x))


def pinv(x: Any, /, *, rtol: Any = None) -> Any:
    """Pseudo-inverses; singular values up to `rtol` times the greatest count as 0."""
    return mt.linalg.pinv(array(x), rtol=rtol)


def solve(x1: Any, x2: Any, /) -> Any:
    """The `x` of x1 @ x = x2. `x2` is one vector, or matrices. LinAlgError where a matrix is singular."""
    a, b = pair(array(x1, "x1"), array(x2, "x2"))
    vector = b.ndim == 1
    b = b.unsqueeze(1) if vector else b
    # As many dimensions on both sides, so that x2 is never taken for several vectors.
    n = max(a.ndim, b.ndim)
    solved = mt.linalg.solve(a[(None,) * (n - a.ndim)], b[(None,) * (n - b.ndim)])
    return solved.squeeze(-1) if vector else solved


def eigh(x: Any, /) -> eigh_result:
    """Eigenvalues in ascending order and eigenvectors, as columns, of symmetric or Hermitian matrices."""
    return eigh_result(*mt.linalg.eigh(array(x)))


def eigvalsh(x: Any, /) -> Any:
    """Eigenvalues of symmetric or Hermitian matrices, in ascending order."""
    return mt.linalg.eigvalsh(array(x))


def qr(x: Any, /, *, mode: Any = "reduced") -> qr_result:
    """Orthonormal columns and an upper triangle whose product is `x`; all columns where `mode` is 'complete'."""
    if mode not in ("reduced", "complete"):
        raise ValueError(f"qr: mode must be 'reduced' or 'complete', got {mode!r}")
    return qr_result(*mt.linalg.qr(array(x), mode=mode))


def svd(x: Any, /, *, full_matrices: bool = True) -> svd_result:
    """Singular vectors, values in descending order, and conjugated right vectors, as rows."""
    return svd_result(*mt.linalg.svd(array(x), full_matrices=full_matrices))


def svdvals(x: Any, /) -> Any:
    """Singular values, in descending order."""
    return mt.linalg.svdvals(array(x))


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """Norms of matrices: 'fro' (or None), 'nuc', 1, 2, inf, and -1, -2, -inf."""
    return mt.linalg.matrix_norm(array(x), "fro" if ord is None else ord, dim=(-2, -1), keepdim=keepdims)


def matrix_power(x: Any, n: int, /) -> Any:
    """Matrices to the power of an integer, which may be negative."""
    return mt.linalg.matrix_power(array(x), n)


def matrix_rank(x: Any, /, *, rtol: Any = None) -> Any:
    """How many singular values are above `rtol` times the greatest."""
    if array(x).ndim < 2:
        raise ValueError(f"matrix_rank: a tensor of shape {list(x.shape)} holds no matrices")
    return mt.linalg.matrix_rank(x, rtol=rtol)


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """Norms of vectors along one axis, several, or all: sum(abs(x)**ord)**(1/ord), inf, -inf, or 0."""
    places = places_of(axis, array(x).ndim)
    if not places:
        return mt.linalg.vector_norm(x.unsqueeze(-1), ord, dim=-1)
    if axis is None or isinstance(axis, tuple):
        return mt.linalg.vector_norm(x, ord, dim=places, keepdim=keepdims)
    return mt.linalg.vector_norm(x, ord, dim=place_of(axis, x.ndim), keepdim=keepdims)
