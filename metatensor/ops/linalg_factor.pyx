"""Factorizations of batches of matrices: Cholesky, LDL, LU and QR.

Inputs have shape (..., M, N). Most factors are column-major, as LAPACK stores them.
"""
from metatensor._core.dtype cimport I32, by_code
from metatensor._core.layout cimport dims_equal
from metatensor._core.op cimport (
    COMPOSITE, EXACT_OUT, FUNCTION_ONLY, OUT, QUIET_OUT, SAFE_CAST, WITH_OUT, Call, arg, bool_arg, call, define, make_returns,
    result_device, tensor_arg,
)
from metatensor._core.tensor cimport Tensor, new_contiguous, shape_str
from metatensor._core.types cimport dim_t
from metatensor._core.gradients import gradient
from metatensor.ops.matrices cimport (
    by_columns, by_columns_unless_out, columns, empty_vector, need_floating, need_matrix, need_one_dtype, need_routine,
    need_square, new_matrices, new_vectors, per_matrix, rows, title,
)


# Cholesky -------------------------------------------------------------------------------

cdef object cholesky_ex_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    need_square(c, t, "input")
    need_floating(c, t, True)
    need_routine(c, t, False)
    return make_returns(c, (by_columns(c, t.ndim, t.sizes, t.dtype), per_matrix(c, t, by_code(I32))))


cdef object cholesky_body(Call* c):
    return call("linalg.cholesky_ex", (tensor_arg(c, 0),), {"upper": arg(c, 1), "check_errors": True})[0]


cdef object old_cholesky_meta(Call* c):
    """Compute the result of cholesky. It is row-major for an empty input and with out=, else column-major. The shape of
    an empty input is not checked."""
    cdef Tensor t = tensor_arg(c, 0)
    if t.total:
        need_square(c, t, "input")
        need_routine(c, t, False)
    if t.total == 0 or c.variant == WITH_OUT:
        return new_contiguous(t.ndim, t.sizes, t.dtype, result_device(c))
    return by_columns(c, t.ndim, t.sizes, t.dtype)


cdef object cholesky_inverse_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    need_square(c, t, "input")
    need_routine(c, t, True)
    return by_columns_unless_out(c, t.ndim, t.sizes, t.dtype)


define("linalg.cholesky_ex(Tensor input, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)",
       cholesky_ex_meta, OUT | EXACT_OUT,
       "Cholesky factors of positive definite matrices (..., N, N), like `linalg.cholesky`, and an int32 `info` (...): "
       "0, or the order of the first leading minor that is not positive. If `check_errors`, raise LinAlgError for "
       "such a matrix.")
gradient("linalg.cholesky_ex", outputs=(0,), tangent="tangents.cholesky_ex", input="linalg.cholesky_ex")
define("linalg.cholesky(Tensor input, *, bool upper=False) -> Tensor", cholesky_body, COMPOSITE | OUT | EXACT_OUT,
       "Cholesky factors of positive definite matrices (..., N, N): lower triangular L with `L @ L.mH = input`, or if "
       "`upper`, U with `U.mH @ U = input`. Raise LinAlgError for other matrices.")
define("cholesky(Tensor input, bool upper=False) -> Tensor", old_cholesky_meta, OUT,
       "Cholesky factors of positive definite matrices, like `linalg.cholesky`.")
gradient("cholesky", input="linalg.old_cholesky")
define("cholesky_inverse(Tensor input, bool upper=False) -> Tensor", cholesky_inverse_meta, OUT,
       "Inverses of positive definite matrices, given their lower Cholesky factors, or their upper ones if `upper`.")
gradient("cholesky_inverse", input="linalg.cholesky_inverse")


# LDL ------------------------------------------------------------------------------------

cdef object ldl_factor_ex_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    need_square(c, t, "input")
    need_floating(c, t, True)
    need_routine(c, t, False)
    return make_returns(c, (by_columns(c, t.ndim, t.sizes, t.dtype),
                            new_contiguous(t.ndim - 1, t.sizes, by_code(I32), result_device(c)),
                            per_matrix(c, t, by_code(I32))))


cdef object ldl_factor_body(Call* c):
    parts = call("linalg.ldl_factor_ex", (tensor_arg(c, 0),), {"hermitian": arg(c, 1), "check_errors": True})
    return make_returns(c, (parts[0], parts[1]))


define("linalg.ldl_factor_ex(Tensor input, *, bool hermitian=False, bool check_errors=False) "
       "-> (Tensor LD, Tensor pivots, Tensor info)", ldl_factor_ex_meta, OUT | EXACT_OUT,
       "LDL factors of symmetric matrices (..., N, N), or Hermitian ones if `hermitian`, in LAPACK's compact form, "
       "with int32 pivots (..., N). Only the lower triangles are read. The int32 `info` (...) is positive where D is "
       "singular.")
define("linalg.ldl_factor(Tensor input, *, bool hermitian=False) -> (Tensor LD, Tensor pivots)", ldl_factor_body,
       COMPOSITE | OUT | EXACT_OUT,
       "LDL factors of symmetric or Hermitian matrices, like `linalg.ldl_factor_ex` without `info`. Raise LinAlgError "
       "if D is singular.")


# LU -------------------------------------------------------------------------------------

cdef object lu_factor_ex_meta(Call* c):
    """Arguments: A, pivot, check_errors."""
    cdef Tensor t = tensor_arg(c, 0)
    need_matrix(c, t, "A")
    need_routine(c, t, False)
    return make_returns(c, (by_columns(c, t.ndim, t.sizes, t.dtype),
                            new_vectors(c, t.ndim - 2, t.sizes, min(rows(t), columns(t)), by_code(I32)),
                            per_matrix(c, t, by_code(I32))))


cdef object lu_factor_body(Call* c):
    parts = call("linalg.lu_factor_ex", (tensor_arg(c, 0),), {"pivot": arg(c, 1), "check_errors": True})
    return make_returns(c, (parts[0], parts[1]))


cdef object old_lu_body(Call* c):
    """Arguments: A, pivot, get_infos. Singular matrices are accepted."""
    parts = call("linalg.lu_factor_ex", (tensor_arg(c, 0),), {"pivot": arg(c, 1)})
    factors = call("contiguous", (parts[0],)) if c.variant == WITH_OUT else parts[0]
    return (factors, parts[1], parts[2]) if bool_arg(c, 2) else (factors, parts[1])


cdef tuple unpacked(Call* c, Tensor t, bint data, bint permutations):
    """Return row-major P (..., m, m), L (..., m, k) and U (..., k, n) for factors (..., m, n), where k = min(m, n).
    Outputs that are not requested have shape (0,)."""
    cdef dim_t m = rows(t), n = columns(t), k = min(m, n)
    cdef int batch = t.ndim - 2
    return (new_matrices(c, batch, t.sizes, m, m, t.dtype, False) if permutations else empty_vector(c, t.dtype),
            new_matrices(c, batch, t.sizes, m, k, t.dtype, False) if data else empty_vector(c, t.dtype),
            new_matrices(c, batch, t.sizes, k, n, t.dtype, False) if data else empty_vector(c, t.dtype))


cdef object lu_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    need_matrix(c, t, "A")
    need_routine(c, t, False)
    return make_returns(c, unpacked(c, t, True, bool_arg(c, 1)))


cdef object lu_unpack_meta(Call* c):
    """Arguments: LU_data, LU_pivots, unpack_data, unpack_pivots."""
    cdef Tensor t = tensor_arg(c, 0), pivots = tensor_arg(c, 1)
    if bool_arg(c, 3) and pivots.dtype.code != I32:
        raise RuntimeError(f"{title(c)}(): LU_pivots must be int32, got {pivots.dtype.name}")
    need_matrix(c, t, "LU_data")
    # Without elements there is nothing to exchange, and PyTorch takes pivots of any shape.
    if bool_arg(c, 3) and t.total and (pivots.ndim != t.ndim - 1 or not dims_equal(pivots.sizes, t.sizes, t.ndim - 2)
                                       or pivots.sizes[t.ndim - 2] != min(rows(t), columns(t))):
        raise RuntimeError(f"{title(c)}(): LU_pivots must have a vector of the smaller size of a matrix for each matrix of LU_data, got "
                           f"{shape_str(pivots)} for {shape_str(t)}")
    return make_returns(c, unpacked(c, t, bool_arg(c, 2), bool_arg(c, 3)))


define("linalg.lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) "
       "-> (Tensor LU, Tensor pivots, Tensor info)", lu_factor_ex_meta, OUT | EXACT_OUT,
       "LU factorization of matrices (..., M, N). `LU` holds both factors: U in the upper triangle, and L below it, "
       "without its unit diagonal. `pivots` (..., min(M, N)), int32, holds the row exchanges, counted from 1. `info` "
       "(...), int32, is 0 or the position of the first zero pivot, counted from 1.")
gradient("linalg.lu_factor_ex", outputs=(0,), A="linalg.lu_factor")
define("linalg.lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)", lu_factor_body,
       COMPOSITE | OUT | EXACT_OUT,
       "LU factorization of matrices, like `linalg.lu_factor_ex` without `info`. Raise LinAlgError for a zero pivot.")
define("lu(Tensor A, bool pivot=True, bool get_infos=False) -> (Tensor, Tensor)", old_lu_body,
       COMPOSITE | OUT | SAFE_CAST | QUIET_OUT,
       "LU factorization of matrices, like `linalg.lu_factor_ex`. `info` is returned only if `get_infos` is true. "
       "Singular matrices are accepted.")
define("linalg.lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)", lu_meta, OUT | EXACT_OUT,
       "LU factorization `A = P @ L @ U` of matrices (..., M, N) into a permutation matrix, a unit lower triangular "
       "and an upper triangular factor. P is empty if `pivot` is False.")
gradient("linalg.lu", outputs=(1, 2), A="linalg.lu")
define("lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True) "
       "-> (Tensor P, Tensor L, Tensor U)", lu_unpack_meta, OUT | EXACT_OUT | FUNCTION_ONLY,
       "Unpack the results of `linalg.lu_factor` into P, L and U with `A = P @ L @ U`. L and U are empty if "
       "`unpack_data` is False. P is empty if `unpack_pivots` is False.")
gradient("lu_unpack", outputs=(1, 2), LU_data="linalg.lu_unpack")


# QR -------------------------------------------------------------------------------------

cdef object qr_meta(Call* c):
    """Arguments: A (..., m, n), mode."""
    cdef Tensor t = tensor_arg(c, 0), q
    cdef object mode = arg(c, 1)
    cdef dim_t m, n, k
    need_matrix(c, t, "A")
    need_floating(c, t, True)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(f"{title(c)}(): mode must be 'reduced', 'complete' or 'r', got {mode!r}")
    need_routine(c, t, True)
    m, n = rows(t), columns(t)
    k = m if mode == "complete" else min(m, n)
    q = empty_vector(c, t.dtype) if mode == "r" else new_matrices(c, t.ndim - 2, t.sizes, m, k, t.dtype, True)
    return make_returns(c, (q, new_matrices(c, t.ndim - 2, t.sizes, k, n, t.dtype, True)))


cdef object old_qr_body(Call* c):
    parts = call("linalg.qr", (tensor_arg(c, 0), "reduced" if bool_arg(c, 1) else "complete"))
    return make_returns(c, tuple(parts))


cdef object geqrf_meta(Call* c):
    """Return an output for R (upper triangle) and the Householder vectors (below it), and one for their scalar
    factors."""
    cdef Tensor t = tensor_arg(c, 0)
    need_matrix(c, t, "input")
    need_routine(c, t, True)
    return make_returns(c, (by_columns(c, t.ndim, t.sizes, t.dtype),
                            new_vectors(c, t.ndim - 2, t.sizes, min(rows(t), columns(t)), t.dtype)))


cdef int check_reflectors(Call* c, Tensor t, Tensor tau) except -1:
    """Check that tau has the batch dimensions and dtype of the reflectors `t`."""
    if t.ndim - tau.ndim != 1:
        raise RuntimeError(f"{title(c)}(): tau must have one dimension less than input, got shapes {shape_str(tau)} and "
                           + shape_str(t))
    if not dims_equal(t.sizes, tau.sizes, t.ndim - 2):
        raise RuntimeError(f"{title(c)}(): the batch dimensions of tau must be those of input, got shapes "
                           f"{shape_str(tau)} and {shape_str(t)}")
    return need_one_dtype(c, t, tau, "input", "tau")


cdef dim_t length(Call* c, Tensor tau) except -1:
    """Return the number of reflectors."""
    if tau.ndim == 0:
        raise IndexError(f"{title(c)}(): tau must have at least 1 dimension")
    return tau.sizes[tau.ndim - 1]


cdef object householder_meta(Call* c):
    """Arguments: input (..., m, n), tau (..., k), with m >= n >= k."""
    cdef Tensor t = tensor_arg(c, 0), tau = tensor_arg(c, 1)
    need_matrix(c, t, "input")
    if rows(t) < columns(t):
        raise RuntimeError(f"{title(c)}(): input must not have more columns than rows, got shape {shape_str(t)}")
    if columns(t) < length(c, tau):
        raise RuntimeError(f"{title(c)}(): tau of shape {shape_str(tau)} has more factors than input has columns, "
                           + shape_str(t))
    check_reflectors(c, t, tau)
    need_routine(c, t, True)
    return by_columns_unless_out(c, t.ndim, t.sizes, t.dtype)


cdef object ormqr_meta(Call* c):
    """Arguments: input (..., m, k), tau (..., k), other, left, transpose. `other` has shape (..., m, n) if `left`, else
    (..., n, m)."""
    cdef Tensor t = tensor_arg(c, 0), tau = tensor_arg(c, 1), other = tensor_arg(c, 2)
    cdef bint left = bool_arg(c, 3)
    cdef dim_t side
    need_matrix(c, t, "input")
    need_matrix(c, other, "other")
    side = rows(other) if left else columns(other)
    if side != rows(t):
        raise RuntimeError(f"{title(c)}(): other must have as many {'rows' if left else 'columns'} as input has rows, got "
                           f"other {shape_str(other)} and input {shape_str(t)}")
    if length(c, tau) != min(side, columns(t)):
        raise RuntimeError(f"{title(c)}(): tau must have a factor for each column of input, {shape_str(t)}, got shape "
                           + shape_str(tau))
    check_reflectors(c, t, tau)
    if t.ndim != other.ndim or not dims_equal(t.sizes, other.sizes, t.ndim - 2):
        raise RuntimeError(f"{title(c)}(): other must have input's batch dimensions, got shapes {shape_str(other)} and "
                           + shape_str(t))
    need_one_dtype(c, t, other, "input", "other")
    need_routine(c, t, True)
    return by_columns_unless_out(c, other.ndim, other.sizes, other.dtype)


define("linalg.qr(Tensor A, str mode='reduced') -> (Tensor Q, Tensor R)", qr_meta, OUT | EXACT_OUT,
       "QR factorization `A = Q @ R` of matrices (..., M, N), with orthonormal columns in Q and upper triangular R. "
       "With K = min(M, N), `mode` 'reduced' gives Q (..., M, K) and R (..., K, N), 'complete' gives Q (..., M, M) and "
       "R (..., M, N), and 'r' gives an empty Q and R (..., K, N).")
gradient("linalg.qr", A="linalg.qr")
define("qr(Tensor input, bool some=True) -> (Tensor Q, Tensor R)", old_qr_body,
       COMPOSITE | OUT | EXACT_OUT,
       "QR factorization like `linalg.qr`, in mode 'reduced' if `some`, else 'complete'.")
define("geqrf(Tensor input) -> (Tensor a, Tensor tau)", geqrf_meta, OUT,
       "QR factorization of matrices (..., M, N) in LAPACK's form: `a` holds R in the upper triangle and the "
       "Householder vectors below it, and `tau` (..., min(M, N)) holds their scalar factors.")
define("linalg.householder_product(Tensor input, Tensor tau) -> Tensor", householder_meta, OUT,
       "First N columns of a product of Householder reflections, given by vectors below the diagonal of `input` (..., "
       "M, N) and scalar factors `tau` (..., K), with M >= N >= K. For results of `geqrf`, this is Q.")
gradient("linalg.householder_product", joint="linalg_solve.householder_product", input=True, tau=True)
define("orgqr(Tensor input, Tensor input2) -> Tensor", householder_meta, OUT,
       "The same as `linalg.householder_product`.")
gradient("orgqr", node="LinalgHouseholderProductBackward0", joint="linalg_solve.orgqr", input=True, input2=True)
define("ormqr(Tensor input, Tensor input2, Tensor input3, bool left=True, bool transpose=False) -> Tensor", ormqr_meta,
       OUT | EXACT_OUT,
       "Multiply `input3` by Q: `Q @ input3` if `left`, else `input3 @ Q`. Q is given by the results `input` and "
       "`input2` of `geqrf`. If `transpose`, use the conjugate transpose of Q.")
gradient("ormqr", joint="linalg_solve.ormqr", input=True, input2=True, input3=True)
