# Written by tools/stubs.py from the operators' declarations; edit those, or tools/stub_heads.
# mypy: disable-error-code="overload-overlap, overload-cannot-match, misc, override, assignment"
from builtins import bool as _bool, float as _float, int as _int, str as _str
from collections.abc import Sequence
from typing import Any, NamedTuple, overload

from metatensor._core.device import Device as _device
from metatensor._core.dtype import DType as _dtype
from metatensor._core.formats import LayoutTag as _layout, MemoryFormatTag as _memory_format
from metatensor._core.random import Generator as _Generator
from metatensor._core.tensor import Tensor, _Number

class LinAlgError(RuntimeError): ...

class _return_linalg_cholesky_ex(NamedTuple):
    L: Tensor
    info: Tensor

class _return_linalg_eig(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor

class _return_linalg_eigh(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor

class _return_linalg_inv_ex(NamedTuple):
    inverse: Tensor
    info: Tensor

class _return_linalg_ldl_factor(NamedTuple):
    LD: Tensor
    pivots: Tensor

class _return_linalg_ldl_factor_ex(NamedTuple):
    LD: Tensor
    pivots: Tensor
    info: Tensor

class _return_linalg_lstsq(NamedTuple):
    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor

class _return_linalg_lu(NamedTuple):
    P: Tensor
    L: Tensor
    U: Tensor

class _return_linalg_lu_factor(NamedTuple):
    LU: Tensor
    pivots: Tensor

class _return_linalg_lu_factor_ex(NamedTuple):
    LU: Tensor
    pivots: Tensor
    info: Tensor

class _return_linalg_qr(NamedTuple):
    Q: Tensor
    R: Tensor

class _return_linalg_slogdet(NamedTuple):
    sign: Tensor
    logabsdet: Tensor

class _return_linalg_solve_ex(NamedTuple):
    result: Tensor
    info: Tensor

class _return_linalg_svd(NamedTuple):
    U: Tensor
    S: Tensor
    Vh: Tensor

def cholesky(input: Tensor, *, upper: _bool = False, out: Tensor | None = None) -> Tensor:
    """Cholesky factors of positive definite matrices: L @ L.mH, or U.mH @ U. LinAlgError for other matrices."""
def cholesky_ex(input: Tensor, *, upper: _bool = False, check_errors: _bool = False, out: Sequence[Tensor] | None = None) -> _return_linalg_cholesky_ex:
    """Cholesky factors and, for each matrix, 0 or the order of the first minor that is not positive."""
def cond(input: Tensor, p: Any | None = None, *, out: Tensor | None = None) -> Tensor:
    """Condition numbers: the norm of order `p` (2 unless told) of a matrix times that of its inverse."""
def cross(input: Tensor, other: Tensor, *, dim: _int = -1, out: Tensor | None = None) -> Tensor:
    """Cross products of vectors of 3 elements along `dim`."""
def det(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Determinants."""
def diagonal(A: Tensor, *, offset: _int = 0, dim1: _int = -2, dim2: _int = -1) -> Tensor:
    """diagonal() of the matrices in the last two dimensions."""
def eig(input: Tensor, *, out: Sequence[Tensor] | None = None) -> _return_linalg_eig:
    """Complex eigenvalues in no order, and eigenvectors as columns."""
def eigh(input: Tensor, UPLO: _str = 'L', *, out: Sequence[Tensor] | None = None) -> _return_linalg_eigh:
    """Real eigenvalues in rising order and orthonormal eigenvectors of symmetric or hermitian matrices, of which one triangle is read."""
def eigvals(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Complex eigenvalues, in no order."""
def eigvalsh(input: Tensor, UPLO: _str = 'L', *, out: Tensor | None = None) -> Tensor:
    """Real eigenvalues of symmetric or hermitian matrices, in rising order."""
def householder_product(input: Tensor, tau: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The first columns of products of Householder reflections: Q of geqrf."""
def inv(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Inverses. LinAlgError for singular matrices."""
def inv_ex(A: Tensor, *, check_errors: _bool = False, out: Sequence[Tensor] | None = None) -> _return_linalg_inv_ex:
    """Inverses and, for each matrix, 0 or its first zero pivot."""
def ldl_factor(input: Tensor, *, hermitian: _bool = False, out: Sequence[Tensor] | None = None) -> _return_linalg_ldl_factor:
    """LDL factors of symmetric (or hermitian) matrices, in LAPACK's compact form."""
def ldl_factor_ex(input: Tensor, *, hermitian: _bool = False, check_errors: _bool = False, out: Sequence[Tensor] | None = None) -> _return_linalg_ldl_factor_ex:
    """LDL factors of symmetric (or hermitian) matrices, of which only the lower triangles are read, in LAPACK's compact form; info is positive where D is singular."""
def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: _bool = False, out: Tensor | None = None) -> Tensor:
    """Solutions of A X = B from what ldl_factor gives of A."""
def lstsq(input: Tensor, b: Tensor, rcond: _float | None = None, *, driver: _str | None = None, out: Sequence[Tensor] | None = None) -> _return_linalg_lstsq:
    """X that makes the norms of the columns of A X - B smallest, by LAPACK's driver gels, gelsy, gelsd or gelss. What a driver does not give is empty."""
def lu(A: Tensor, *, pivot: _bool = True, out: Sequence[Tensor] | None = None) -> _return_linalg_lu:
    """Matrices as P @ L @ U: a permutation, unit lower and upper triangular factors."""
def lu_factor(A: Tensor, *, pivot: _bool = True, out: Sequence[Tensor] | None = None) -> _return_linalg_lu_factor:
    """LU factors in one matrix, and the rows exchanged (int32, from 1). LinAlgError for singular matrices."""
def lu_factor_ex(A: Tensor, *, pivot: _bool = True, check_errors: _bool = False, out: Sequence[Tensor] | None = None) -> _return_linalg_lu_factor_ex:
    """LU factors in one matrix, the rows exchanged (int32, from 1) and, for each matrix, 0 or the first zero pivot."""
def lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: _bool = True, adjoint: _bool = False, out: Tensor | None = None) -> Tensor:
    """Solutions of A X = B from what lu_factor gives of A."""
def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Matrix product over the last two dimensions; the others broadcast, vectors are rows on the left and columns on the right."""
def matrix_exp(input: Tensor) -> Tensor:
    """Exponentials of square matrices."""
def matrix_norm(input: Tensor, ord: Any = 'fro', dim: Sequence[_int] = (-2, -1), keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """Norm of matrices in two dimensions: 'fro', 'nuc', inf, 1 or 2."""
def matrix_power(input: Tensor, n: _int, *, out: Tensor | None = None) -> Tensor:
    """Matrices to an integer power; of their inverses for n < 0."""
@overload
def matrix_rank(input: Tensor, *, atol: Tensor | None = None, rtol: Tensor | None = None, hermitian: _bool = False, out: Tensor | None = None) -> Tensor:
    """How many singular values are above max(atol, rtol * the largest)."""
@overload
def matrix_rank(input: Tensor, *, atol: _float | None = None, rtol: _float | None = None, hermitian: _bool = False, out: Tensor | None = None) -> Tensor: ...
@overload
def matrix_rank(input: Tensor, tol: Tensor, hermitian: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
@overload
def matrix_rank(input: Tensor, tol: _float, hermitian: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
def multi_dot(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Product of a chain of matrices, in the cheapest order."""
def norm(input: Tensor, ord: Any | None = None, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """Vector or matrix norm, as the number of dimensions says."""
@overload
def pinv(input: Tensor, *, atol: Tensor | None = None, rtol: Tensor | None = None, hermitian: _bool = False, out: Tensor | None = None) -> Tensor:
    """Pseudoinverses; singular values up to max(atol, rtol * the largest) are taken for 0."""
@overload
def pinv(input: Tensor, *, atol: _float | None = None, rtol: _float | None = None, hermitian: _bool = False, out: Tensor | None = None) -> Tensor: ...
@overload
def pinv(input: Tensor, rcond: Tensor, hermitian: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
@overload
def pinv(input: Tensor, rcond: _float, hermitian: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
def qr(A: Tensor, mode: _str = 'reduced', *, out: Sequence[Tensor] | None = None) -> _return_linalg_qr:
    """Matrices as Q @ R: orthonormal columns and an upper triangle. mode 'r' leaves Q out, 'complete' makes it square."""
def slogdet(A: Tensor, *, out: Sequence[Tensor] | None = None) -> _return_linalg_slogdet:
    """Determinants as sign (of complex ones: phase) and logarithm of the magnitude."""
def solve(A: Tensor, B: Tensor, *, left: _bool = True, out: Tensor | None = None) -> Tensor:
    """Solutions of A X = B, or of X A = B. LinAlgError where A is singular."""
def solve_ex(A: Tensor, B: Tensor, *, left: _bool = True, check_errors: _bool = False, out: Sequence[Tensor] | None = None) -> _return_linalg_solve_ex:
    """Solutions of A X = B (or X A = B) and, for each matrix, 0 or its first zero pivot."""
def solve_triangular(input: Tensor, B: Tensor, *, upper: _bool, left: _bool = True, unitriangular: _bool = False, out: Tensor | None = None) -> Tensor:
    """Solutions of A X = B, or of X A = B, for triangular matrices A; the other triangle is not read."""
def svd(A: Tensor, full_matrices: _bool = True, *, driver: _str | None = None, out: Sequence[Tensor] | None = None) -> _return_linalg_svd:
    """Matrices as U @ diag(S) @ Vh, the singular values in falling order."""
def svdvals(A: Tensor, *, driver: _str | None = None, out: Tensor | None = None) -> Tensor:
    """Singular values, in falling order."""
def tensorinv(input: Tensor, ind: _int = 2, *, out: Tensor | None = None) -> Tensor:
    """The inverse of a tensor taken as a matrix of its first `ind` dimensions by the others."""
@overload
def tensorsolve(input: Tensor, other: Tensor, dims: Sequence[_int] | None = None, *, out: Tensor | None = None) -> Tensor:
    """The tensor X whose contraction with `input` over all its dimensions is `other`."""
@overload
def tensorsolve(input: Tensor, other: Tensor, *dims: _int, out: Tensor | None = None) -> Tensor: ...
def vander(x: Tensor, *, N: _int | None = None) -> Tensor:
    """Powers 0 to N - 1 of values as rows of matrices."""
def vecdot(x: Tensor, y: Tensor, *, dim: _int = -1, out: Tensor | None = None) -> Tensor:
    """Dot products along `dim`, the first factor conjugated."""
def vector_norm(input: Tensor, ord: _Number = 2, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """Norm of the elements along `dim`, taken as vectors."""
