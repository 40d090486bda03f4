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
    """Cholesky factors of positive definite matrices (..., N, N): lower triangular L with `L @ L.mH = input`, or if `upper`, U with `U.mH @ U = input`. Raise LinAlgError for other matrices."""
def cholesky_ex(input: Tensor, *, upper: _bool = False, check_errors: _bool = False, out: Sequence[Tensor] | None = None) -> _return_linalg_cholesky_ex:
    """Cholesky factors of positive definite matrices (..., N, N), like `linalg.cholesky`, and an int32 `info` (...): 0, or the order of the first leading minor that is not positive. If `check_errors`, raise LinAlgError for such a matrix."""
def cond(input: Tensor, p: Any | None = None, *, out: Tensor | None = None) -> Tensor:
    """Condition number of each matrix: its norm of order `p` times that of its inverse. `p` is 2 (the default), -2, 1, -1, inf, -inf, 'fro' or 'nuc'. Orders other than 2 and -2 need square matrices."""
def cross(input: Tensor, other: Tensor, *, dim: _int = -1, out: Tensor | None = None) -> Tensor:
    """Cross products of the vectors along `dim`, which must have size 3. The other dimensions broadcast."""
def det(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Determinants of square matrices (..., N, N)."""
def diagonal(A: Tensor, *, offset: _int = 0, dim1: _int = -2, dim2: _int = -1) -> Tensor:
    """Like `diagonal`, but by default for the matrices in the last two dimensions."""
def eig(input: Tensor, *, out: Sequence[Tensor] | None = None) -> _return_linalg_eig:
    """Complex eigenvalues (..., N), in no particular order, and eigenvectors of square matrices (..., N, N). The eigenvectors are the columns of a complex matrix (..., N, N)."""
def eigh(input: Tensor, UPLO: _str = 'L', *, out: Sequence[Tensor] | None = None) -> _return_linalg_eigh:
    """Real eigenvalues (..., N) in ascending order, and orthonormal eigenvectors as columns, of symmetric or Hermitian matrices (..., N, N). Only the lower triangles are read, or the upper ones if `UPLO='U'`."""
def eigvals(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Complex eigenvalues (..., N) of square matrices (..., N, N), in no particular order."""
def eigvalsh(input: Tensor, UPLO: _str = 'L', *, out: Tensor | None = None) -> Tensor:
    """Real eigenvalues (..., N) of symmetric or Hermitian matrices (..., N, N), in ascending order. Only the lower triangles are read, or the upper ones if `UPLO='U'`."""
def householder_product(input: Tensor, tau: Tensor, *, out: Tensor | None = None) -> Tensor:
    """First N columns of a product of Householder reflections, given by vectors below the diagonal of `input` (..., M, N) and scalar factors `tau` (..., K), with M >= N >= K. For results of `geqrf`, this is Q."""
def inv(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Inverses of square matrices (..., N, N). Raise LinAlgError if a matrix is singular."""
def inv_ex(A: Tensor, *, check_errors: _bool = False, out: Sequence[Tensor] | None = None) -> _return_linalg_inv_ex:
    """Inverses of square matrices (..., N, N), and an int32 `info` (...): 0 or the position of the first zero pivot, counted from 1. If `check_errors`, raise LinAlgError for singular matrices."""
def ldl_factor(input: Tensor, *, hermitian: _bool = False, out: Sequence[Tensor] | None = None) -> _return_linalg_ldl_factor:
    """LDL factors of symmetric or Hermitian matrices, like `linalg.ldl_factor_ex` without `info`. Raise LinAlgError if D is singular."""
def ldl_factor_ex(input: Tensor, *, hermitian: _bool = False, check_errors: _bool = False, out: Sequence[Tensor] | None = None) -> _return_linalg_ldl_factor_ex:
    """LDL factors of symmetric matrices (..., N, N), or Hermitian ones if `hermitian`, in LAPACK's compact form, with int32 pivots (..., N). Only the lower triangles are read. The int32 `info` (...) is positive where D is singular."""
def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: _bool = False, out: Tensor | None = None) -> Tensor:
    """Solutions X of `A @ X = B`, given the result of `linalg.ldl_factor` for A."""
def lstsq(input: Tensor, b: Tensor, rcond: _float | None = None, *, driver: _str | None = None, out: Sequence[Tensor] | None = None) -> _return_linalg_lstsq:
    """Least-squares solutions X (..., N, K) that minimize the norm of each column of `input @ X - b`, for `input` (..., M, N) and `b` (..., M, K) or (..., M). `driver` is the LAPACK routine: 'gels', 'gelsy' (the default), 'gelsd' or 'gelss'. Singular values below `rcond` times the largest count as 0. Also return the residuals, ranks and singular values. Those that the driver does not compute are empty."""
def lu(A: Tensor, *, pivot: _bool = True, out: Sequence[Tensor] | None = None) -> _return_linalg_lu:
    """LU factorization `A = P @ L @ U` of matrices (..., M, N) into a permutation matrix, a unit lower triangular and an upper triangular factor. P is empty if `pivot` is False."""
def lu_factor(A: Tensor, *, pivot: _bool = True, out: Sequence[Tensor] | None = None) -> _return_linalg_lu_factor:
    """LU factorization of matrices, like `linalg.lu_factor_ex` without `info`. Raise LinAlgError for a zero pivot."""
def lu_factor_ex(A: Tensor, *, pivot: _bool = True, check_errors: _bool = False, out: Sequence[Tensor] | None = None) -> _return_linalg_lu_factor_ex:
    """LU factorization of matrices (..., M, N). `LU` holds both factors: U in the upper triangle, and L below it, without its unit diagonal. `pivots` (..., min(M, N)), int32, holds the row exchanges, counted from 1. `info` (...), int32, is 0 or the position of the first zero pivot, counted from 1."""
def lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: _bool = True, adjoint: _bool = False, out: Tensor | None = None) -> Tensor:
    """Solutions X of `A @ X = B`, given the result of `linalg.lu_factor` for A. If not `left`, solve `X @ A = B`. If `adjoint`, use the conjugate transpose of A."""
def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Matrix product over the last two dimensions: (..., n, k) and (..., k, m) give (..., n, m). The other dimensions broadcast. A vector counts as a row on the left and as a column on the right."""
def matrix_exp(input: Tensor) -> Tensor:
    """Matrix exponentials of square matrices (..., N, N)."""
def matrix_norm(input: Tensor, ord: Any = 'fro', dim: Sequence[_int] = (-2, -1), keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """Norm of the matrices in the two dimensions `dim`. `ord` is 'fro', 'nuc', inf, -inf, 1, -1, 2 or -2."""
def matrix_power(input: Tensor, n: _int, *, out: Tensor | None = None) -> Tensor:
    """Square matrices (..., N, N) raised to an integer power. Negative powers are powers of the inverse."""
@overload
def matrix_rank(input: Tensor, *, atol: Tensor | None = None, rtol: Tensor | None = None, hermitian: _bool = False, out: Tensor | None = None) -> Tensor:
    """Rank of each matrix (..., M, N): the number of singular values above `max(atol, rtol * largest)`, as int64. `rtol` defaults to the machine epsilon times max(M, N), or to 0 if a positive `atol` is given."""
@overload
def matrix_rank(input: Tensor, *, atol: _float | None = None, rtol: _float | None = None, hermitian: _bool = False, out: Tensor | None = None) -> Tensor: ...
@overload
def matrix_rank(input: Tensor, tol: Tensor, hermitian: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
@overload
def matrix_rank(input: Tensor, tol: _float, hermitian: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
def multi_dot(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Product of two or more matrices, multiplied in the cheapest order. The first and last may be vectors."""
def norm(input: Tensor, ord: Any | None = None, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """Vector or matrix norm. It is `linalg.matrix_norm` if `ord` is given and either `dim` names two dimensions, or `dim` is None and the input is a matrix. Otherwise it is `linalg.vector_norm`."""
@overload
def pinv(input: Tensor, *, atol: Tensor | None = None, rtol: Tensor | None = None, hermitian: _bool = False, out: Tensor | None = None) -> Tensor:
    """Moore-Penrose pseudoinverses (..., N, M) of matrices (..., M, N). Singular values up to `max(atol, rtol * largest)` count as 0. If `hermitian`, the matrices must be Hermitian, and their eigenvalues are used."""
@overload
def pinv(input: Tensor, *, atol: _float | None = None, rtol: _float | None = None, hermitian: _bool = False, out: Tensor | None = None) -> Tensor: ...
@overload
def pinv(input: Tensor, rcond: Tensor, hermitian: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
@overload
def pinv(input: Tensor, rcond: _float, hermitian: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
def qr(A: Tensor, mode: _str = 'reduced', *, out: Sequence[Tensor] | None = None) -> _return_linalg_qr:
    """QR factorization `A = Q @ R` of matrices (..., M, N), with orthonormal columns in Q and upper triangular R. With K = min(M, N), `mode` 'reduced' gives Q (..., M, K) and R (..., K, N), 'complete' gives Q (..., M, M) and R (..., M, N), and 'r' gives an empty Q and R (..., K, N)."""
def slogdet(A: Tensor, *, out: Sequence[Tensor] | None = None) -> _return_linalg_slogdet:
    """Sign and logarithm of the magnitude of the determinants of square matrices (..., N, N). The sign of a complex determinant is a number of magnitude 1. A singular matrix has sign 0 and logarithm -inf."""
def solve(A: Tensor, B: Tensor, *, left: _bool = True, out: Tensor | None = None) -> Tensor:
    """Solutions X of `A @ X = B`, or of `X @ A = B` if not `left`, for A (..., N, N) and B (..., N, K), or (..., N) for vectors. Batch dimensions broadcast. Raise LinAlgError if a matrix is singular."""
def solve_ex(A: Tensor, B: Tensor, *, left: _bool = True, check_errors: _bool = False, out: Sequence[Tensor] | None = None) -> _return_linalg_solve_ex:
    """Solutions X of `A @ X = B`, like `linalg.solve`, and an int32 `info` (...): 0 or the position of the first zero pivot, counted from 1. If `check_errors`, raise LinAlgError for singular matrices."""
def solve_triangular(input: Tensor, B: Tensor, *, upper: _bool, left: _bool = True, unitriangular: _bool = False, out: Tensor | None = None) -> Tensor:
    """Solutions X of `A @ X = B`, or of `X @ A = B` if not `left`, where A = `input` (..., N, N) holds upper triangular matrices if `upper`, else lower ones. The other triangle is not read. If `unitriangular`, the diagonal is not read either, and counts as 1."""
def svd(A: Tensor, full_matrices: _bool = True, *, driver: _str | None = None, out: Sequence[Tensor] | None = None) -> _return_linalg_svd:
    """Singular value decomposition `A = U @ diag(S) @ Vh` of matrices (..., M, N), with the singular values S in descending order. U is (..., M, M) and Vh (..., N, N), or if not `full_matrices`, (..., M, K) and (..., K, N) with K = min(M, N). `driver` is supported only on CUDA."""
def svdvals(A: Tensor, *, driver: _str | None = None, out: Tensor | None = None) -> Tensor:
    """Singular values (..., min(M, N)) of matrices (..., M, N), in descending order."""
def tensorinv(input: Tensor, ind: _int = 2, *, out: Tensor | None = None) -> Tensor:
    """Inverse of a tensor reshaped to a square matrix, whose rows are the first `ind` dimensions and whose columns are the others. The result has shape `input.shape[ind:] + input.shape[:ind]`."""
@overload
def tensorsolve(input: Tensor, other: Tensor, dims: Sequence[_int] | None = None, *, out: Tensor | None = None) -> Tensor:
    """Tensor X with `tensordot(input, X, X.ndim) = other`. The dimensions `dims` of `input` are moved to the end first. X has the shape of `input` without its first `other.ndim` dimensions."""
@overload
def tensorsolve(input: Tensor, other: Tensor, *dims: _int, out: Tensor | None = None) -> Tensor: ...
def vander(x: Tensor, *, N: _int | None = None) -> Tensor:
    """Vandermonde matrices: for x (..., n) the result (..., n, N) holds the powers 0 to N - 1 of each value. N defaults to n. The result is int64 if x holds integers, else it has the dtype of x."""
def vecdot(x: Tensor, y: Tensor, *, dim: _int = -1, out: Tensor | None = None) -> Tensor:
    """Broadcast `x` and `y`, and return the sum of `conj(x) * y` along `dim`. The result has one dimension less."""
def vector_norm(input: Tensor, ord: _Number = 2, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """Vector norm of order `ord` over `dim`, or over all elements if `dim` is None."""
