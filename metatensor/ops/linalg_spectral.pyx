"""Eigenvalues and singular values of batches of matrices, and functions based on them: pseudoinverse, rank, condition
number and low-rank factors."""
from metatensor._core.device cimport META
from metatensor._core.dtype cimport F32, F64, I64, DType, by_code, to_complex, to_real
from metatensor._core.layout cimport Layout, broadcast_into, copy_dims
from metatensor._core.op cimport (
    COMPOSITE, EXACT_OUT, FUNCTION_ONLY, OUT, WITH_OUT, Call, arg, bool_arg, call, define, is_none, make_returns,
    result_device, tensor_arg,
)
from metatensor._core.tensor cimport Tensor, new_contiguous, shape_str
from metatensor._core.types cimport KIND_COMPLEX, KIND_FLOAT, dim_t
from metatensor._core.gradients import gradient, recorded_as
from metatensor.ops.matrices cimport (
    by_columns, columns, has_routine, need_floating, need_matrix, need_routine, need_square, new_matrices, new_vectors,
    rows, title,
)


cdef inline bint on_cpu(Call* c):
    return result_device(c).type == "cpu"


# Eigenvalues ----------------------------------------------------------------------------

cdef Tensor eigenvalues(Call* c, Tensor t, DType d):
    return new_contiguous(t.ndim - 1, t.sizes, d, result_device(c))


cdef int check_eig(Call* c, Tensor t) except -1:
    need_square(c, t, "input")
    need_floating(c, t, True)
    return need_routine(c, t, True)


cdef object eig_meta(Call* c):
    """The eigenvectors are the columns of a matrix, which is column-major on the CPU and row-major on other devices."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef DType d
    check_eig(c, t)
    d = to_complex(t.dtype)
    return make_returns(c, (eigenvalues(c, t, d),
                            new_matrices(c, t.ndim - 2, t.sizes, rows(t), columns(t), d, on_cpu(c))))


cdef object eigvals_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef DType d
    check_eig(c, t)
    d = to_complex(t.dtype)
    if result_device(c) is META:     # so that memory trackers count the eigenvectors, which devices also compute
        _vectors = by_columns(c, t.ndim, t.sizes, d)
    return eigenvalues(c, t, d)


cdef int check_eigh(Call* c, Tensor t) except -1:
    need_square(c, t, "input")
    if arg(c, 1) not in ("L", "U", "l", "u"):
        raise RuntimeError(f"{title(c)}(): UPLO must be 'L' or 'U', got {arg(c, 1)!r}")
    return need_routine(c, t, False)


cdef object eigh_meta(Call* c):
    """Arguments: input, UPLO."""
    cdef Tensor t = tensor_arg(c, 0)
    check_eigh(c, t)
    return make_returns(c, (eigenvalues(c, t, to_real(t.dtype)), by_columns(c, t.ndim, t.sizes, t.dtype)))


cdef object eigvalsh_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    check_eigh(c, t)
    if result_device(c) is META:
        _vectors = by_columns(c, t.ndim, t.sizes, t.dtype)
    return eigenvalues(c, t, to_real(t.dtype))


define("linalg.eig(Tensor input) -> (Tensor eigenvalues, Tensor eigenvectors)", eig_meta, OUT,
       "Complex eigenvalues (..., N), in no particular order, and eigenvectors of square matrices (..., N, N). The "
       "eigenvectors are the columns of a complex matrix (..., N, N).")
gradient("linalg.eig", tangent="tangents.eig", input="linalg.eig")
define("linalg.eigvals(Tensor input) -> Tensor", eigvals_meta, OUT,
       "Complex eigenvalues (..., N) of square matrices (..., N, N), in no particular order.")
recorded_as("linalg.eigvals", "linalg.eigvals_through")
define("linalg.eigh(Tensor input, str UPLO='L') -> (Tensor eigenvalues, Tensor eigenvectors)", eigh_meta, OUT | EXACT_OUT,
       "Real eigenvalues (..., N) in ascending order, and orthonormal eigenvectors as columns, of symmetric or "
       "Hermitian matrices (..., N, N). Only the lower triangles are read, or the upper ones if `UPLO='U'`.")
gradient("linalg.eigh", tangent="tangents.eigh", input="linalg.eigh")
define("linalg.eigvalsh(Tensor input, str UPLO='L') -> Tensor", eigvalsh_meta, OUT | EXACT_OUT,
       "Real eigenvalues (..., N) of symmetric or Hermitian matrices (..., N, N), in ascending order. Only the lower "
       "triangles are read, or the upper ones if `UPLO='U'`.")
recorded_as("linalg.eigvalsh", "linalg.eigvalsh_through")


# Singular values ------------------------------------------------------------------------

cdef int check_svd(Call* c, Tensor t, int driver) except -1:
    need_matrix(c, t, "A")
    need_floating(c, t, True)
    need_routine(c, t, False)
    if not is_none(c, driver) and t.total and on_cpu(c):
        raise RuntimeError(f"{title(c)}(): driver={arg(c, driver)!r} can be chosen on cuda only")
    return 0


cdef Tensor singular_values(Call* c, Tensor t):
    return new_vectors(c, t.ndim - 2, t.sizes, min(rows(t), columns(t)), to_real(t.dtype))


cdef object svd_meta(Call* c):
    """Arguments: A (..., m, n), full_matrices, driver. Vh is column-major on the CPU and with out=, else row-major."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t m, n, k
    cdef bint columnwise = on_cpu(c) or c.variant == WITH_OUT
    check_svd(c, t, 2)
    m, n = rows(t), columns(t)
    k = min(m, n)
    if bool_arg(c, 1):
        return make_returns(c, (new_matrices(c, t.ndim - 2, t.sizes, m, m, t.dtype, True), singular_values(c, t),
                                new_matrices(c, t.ndim - 2, t.sizes, n, n, t.dtype, columnwise)))
    return make_returns(c, (new_matrices(c, t.ndim - 2, t.sizes, m, k, t.dtype, True), singular_values(c, t),
                            new_matrices(c, t.ndim - 2, t.sizes, k, n, t.dtype, columnwise)))


cdef object svdvals_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t m = 0, n = 0
    check_svd(c, t, 1)
    if result_device(c) is META:
        m, n = rows(t), columns(t)
        _vectors = (new_matrices(c, t.ndim - 2, t.sizes, m, min(m, n), t.dtype, True),
                    new_matrices(c, t.ndim - 2, t.sizes, min(m, n), n, t.dtype, True))
    return singular_values(c, t)


cdef object old_svd_body(Call* c):
    """Arguments: input, some, compute_uv. Return V instead of its adjoint. U and V are zeros if compute_uv is False."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef int i
    need_matrix(c, t, "input")
    if bool_arg(c, 2):
        parts = call("linalg.svd", (t, not bool_arg(c, 1)))
        v = call("adjoint", (parts[2],))
        return make_returns(c, (parts[0], parts[1], call("contiguous", (v,)) if c.variant == WITH_OUT else v))
    values = call("linalg.svdvals", (t,))
    batch = [t.sizes[i] for i in range(t.ndim - 2)]
    return make_returns(c, (call("new_zeros", (t, batch + [rows(t), rows(t)])), values,
                            call("adjoint", (call("new_zeros", (t, batch + [columns(t), columns(t)])),))))


define("linalg.svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)", svd_meta,
       OUT | EXACT_OUT,
       "Singular value decomposition `A = U @ diag(S) @ Vh` of matrices (..., M, N), with the singular values S in "
       "descending order. U is (..., M, M) and Vh (..., N, N), or if not `full_matrices`, (..., M, K) and (..., K, N) "
       "with K = min(M, N). `driver` is supported only on CUDA.")
gradient("linalg.svd", tangent="tangents.svd", A="linalg.svd")
define("linalg.svdvals(Tensor A, *, str? driver=None) -> Tensor", svdvals_meta, OUT | EXACT_OUT,
       "Singular values (..., min(M, N)) of matrices (..., M, N), in descending order.")
recorded_as("linalg.svdvals", "linalg.svdvals_through")
define("svd(Tensor input, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V)", old_svd_body,
       COMPOSITE | OUT | EXACT_OUT,
       "Singular value decomposition `input = U @ diag(S) @ V.mH`, reduced if `some`. If `compute_uv` is False, U and "
       "V are zeros.")


# Pseudoinverse, rank and condition number -------------------------------------------------

cdef int check_tolerance(Call* c, int slot, str name) except -1:
    if isinstance(arg(c, slot), Tensor) and tensor_arg(c, slot).dtype.kind == KIND_COMPLEX:
        raise RuntimeError(f"{title(c)}(): {name} must be real, got {tensor_arg(c, slot).dtype.name}")
    return 0


cdef Tensor pseudoinverse(Call* c, int first, int last, int hermitian):
    """Return an output for pseudoinverses. Slots `first` to `last` hold tolerances, which broadcast with the batch
    unless the input has no elements. Slot `hermitian` holds the flag of this name."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef Layout lay
    cdef int slot
    if t.ndim < 2 or not has_routine(t.dtype):
        raise RuntimeError(f"{title(c)}(): matrices of single or double precision are needed, got {t.dtype.name} of shape "
                           + shape_str(t))
    lay.ndim = t.ndim - 2
    copy_dims(lay.sizes, t.sizes, lay.ndim)
    for slot in range(first, last + 1):
        check_tolerance(c, slot, "a tolerance")
        if t.total and isinstance(arg(c, slot), Tensor) \
                and broadcast_into(&lay, tensor_arg(c, slot).ndim, tensor_arg(c, slot).sizes):
            raise RuntimeError(f"{title(c)}(): a tolerance of shape {shape_str(tensor_arg(c, slot))} does not broadcast with "
                               f"the batch of input, {shape_str(t)}")
    if t.total and bool_arg(c, hermitian):
        need_square(c, t, "input")
    return new_matrices(c, lay.ndim, lay.sizes, columns(t), rows(t), t.dtype, False)


cdef object pinv_meta(Call* c):
    """Arguments: input (..., m, n), atol, rtol, hermitian. The result has shape (..., n, m)."""
    return pseudoinverse(c, 1, 2, 3)


cdef object pinv_numbers_meta(Call* c):
    """Do the same as `pinv_meta`, but check the dimensions first, because the default of rtol needs the matrix
    sizes."""
    if tensor_arg(c, 0).ndim < 2 and is_none(c, 2) and not is_none(c, 1):
        raise IndexError(f"{title(c)}(): input must have at least 2 dimensions, got shape {shape_str(tensor_arg(c, 0))}")
    _limits = tolerances(c)
    return pseudoinverse(c, 1, 2, 3)


cdef tuple tolerances(Call* c):
    """Convert tolerances given as numbers to tensors, as on a device, so that trackers on meta count their memory."""
    return tuple([new_contiguous(0, NULL, by_code(F64), META) for _ in range(2)]) if result_device(c) is META else None


cdef object pinv_rcond_meta(Call* c):
    """Arguments: input (..., m, n), rcond, hermitian. The result has shape (..., n, m)."""
    _limits = None if isinstance(arg(c, 1), Tensor) else tolerances(c)
    return pseudoinverse(c, 1, 1, 2)


cdef object pinverse_body(Call* c):
    return call("linalg.pinv", (tensor_arg(c, 0), arg(c, 1)))


define("linalg.pinv(Tensor input, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False) -> Tensor", pinv_meta, OUT,
       "Moore-Penrose pseudoinverses (..., N, M) of matrices (..., M, N). Singular values up to `max(atol, rtol * "
       "largest)` count as 0. If `hermitian`, the matrices must be Hermitian, and their eigenvalues are used.")
define("linalg.pinv.numbers(Tensor input, *, float? atol=None, float? rtol=None, bool hermitian=False) -> Tensor",
       pinv_numbers_meta, OUT)
define("linalg.pinv.rcond_tensor(Tensor input, Tensor rcond, bool hermitian=False) -> Tensor", pinv_rcond_meta, OUT)
define("linalg.pinv.rcond(Tensor input, float rcond, bool hermitian=False) -> Tensor", pinv_rcond_meta, OUT)
for _name in ("", ".numbers", ".rcond_tensor", ".rcond"):
    gradient("linalg.pinv" + _name, input="linalg.pseudoinverse")
define("pinverse(Tensor input, float rcond=1e-15) -> Tensor", pinverse_body, COMPOSITE,
       "Moore-Penrose pseudoinverses. Singular values up to `rcond * largest` count as 0.")


cdef object default_rtol(Call* c, Tensor t):
    """Return the relative tolerance for singular values: the machine epsilon times the larger of rows and columns."""
    if not has_routine(t.dtype):
        raise RuntimeError(f"{title(c)}(): there is no default tolerance for {t.dtype.name}; pass rtol")
    return (2.0 ** -23 if to_real(t.dtype).code == F32 else 2.0 ** -52) * max(rows(t), columns(t))


cdef Tensor values_of(Tensor t, bint hermitian):
    """Return singular values, computed from the eigenvalues if `hermitian`."""
    return call("abs", (call("linalg.eigvalsh", (t,)),)) if hermitian else call("linalg.svdvals", (t,))


cdef object rank_above(Call* c, object atol, object rtol, bint hermitian):
    """Return the number of singular values above max(atol, rtol * largest), as int64."""
    cdef Tensor t = tensor_arg(c, 0), values
    if t.total == 0:
        return call("new_zeros", (t, [t.sizes[i] for i in range(t.ndim - 2)]), {"dtype": by_code(I64)})
    values = values_of(t, hermitian)
    rtol = call("unsqueeze", (rtol, -1)) if isinstance(rtol, Tensor) else rtol
    limit = call("mul", (call("amax", (values, -1, True)), rtol))
    if isinstance(atol, Tensor):
        limit = call("maximum", (limit, call("unsqueeze", (atol, -1))))
    elif atol > 0:
        limit = call("clamp", (limit, atol))
    return call("sum", (call("gt", (values, limit)), -1))


cdef object matrix_rank_body(Call* c):
    """Arguments: input, atol, rtol, hermitian."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef object atol = arg(c, 1), rtol = arg(c, 2)
    need_matrix(c, t, "input")
    check_tolerance(c, 1, "atol")
    check_tolerance(c, 2, "rtol")
    if rtol is None:
        rtol = default_rtol(c, t)
        if isinstance(atol, Tensor):
            rtol = call("where", (call("gt", (atol, 0)), 0.0, rtol))
        elif atol is not None and atol > 0:
            rtol = 0.0
    return rank_above(c, 0.0 if atol is None else atol, rtol, bool_arg(c, 3))


cdef object matrix_rank_tol_body(Call* c):
    """Arguments: input, tol, hermitian."""
    need_matrix(c, tensor_arg(c, 0), "input")
    check_tolerance(c, 1, "tol")
    return rank_above(c, arg(c, 1), 0.0, bool_arg(c, 2))


define("linalg.matrix_rank(Tensor input, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False) -> Tensor",
       matrix_rank_body, COMPOSITE | OUT,
       "Rank of each matrix (..., M, N): the number of singular values above `max(atol, rtol * largest)`, as int64. "
       "`rtol` defaults to the machine epsilon times max(M, N), or to 0 if a positive `atol` is given.")
define("linalg.matrix_rank.numbers(Tensor input, *, float? atol=None, float? rtol=None, bool hermitian=False) -> Tensor",
       matrix_rank_body, COMPOSITE | OUT)
define("linalg.matrix_rank.tol_tensor(Tensor input, Tensor tol, bool hermitian=False) -> Tensor", matrix_rank_tol_body,
       COMPOSITE | OUT)
define("linalg.matrix_rank.tol(Tensor input, float tol, bool hermitian=False) -> Tensor", matrix_rank_tol_body,
       COMPOSITE | OUT)


cdef object cond_of_values(Call* c, Tensor t, object p):
    """Return condition numbers from singular values: largest / smallest for p=2, smallest / largest for p=-2, and for
    p='nuc' the sum of the values times the sum of their reciprocals."""
    cdef Tensor values = call("linalg.svdvals", (t,))
    if p == "nuc":
        return call("mul", (call("sum", (values, -1)), call("sum", (call("reciprocal", (values,)), -1))))
    first, last = call("narrow", (values, -1, 0, 1)), call("narrow", (values, -1, -1, 1))
    return call("squeeze", (call("div", (last, first) if p == -2 else (first, last)), -1))


cdef object cond_body(Call* c):
    """Arguments: input, p. The condition number of a singular matrix is infinite."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef object p = 2 if is_none(c, 1) else arg(c, 1)
    need_matrix(c, t, "input")
    if isinstance(p, str):
        need_square(c, t, "input")
    if p not in ("fro", "nuc", 2, -2, 1, -1, float("inf"), -float("inf")):
        raise RuntimeError(f"{title(c)}(): p must be 'fro', 'nuc', inf, -inf, 1, -1, 2 or -2, got {p!r}")
    if t.total == 0:
        return call("new_zeros", (t, [t.sizes[i] for i in range(t.ndim - 2)]), {"dtype": to_real(t.dtype)})
    if p in (2, -2, "nuc"):
        return cond_of_values(c, t, p)
    need_square(c, t, "input")
    inverse, info = call("linalg.inv_ex", (t,))
    singular = call("unsqueeze", (call("unsqueeze", (call("gt", (info, 0)), -1)), -1))
    inverse = call("masked_fill", (inverse, singular, float("inf")))
    found = call("mul", (call("linalg.matrix_norm", (t, p)), call("linalg.matrix_norm", (inverse, p))))
    return call("nan_to_num", (found, float("inf"), float("inf"), -float("inf")))


define("linalg.cond(Tensor input, any? p=None) -> Tensor", cond_body, COMPOSITE | OUT,
       "Condition number of each matrix: its norm of order `p` times that of its inverse. `p` is 2 (the default), -2, "
       "1, -1, inf, -inf, 'fro' or 'nuc'. Orders other than 2 and -2 need square matrices.")


# Low-rank factors -------------------------------------------------------------------------

cdef object product(object a, object b, object less):
    """Return (a - less) @ b without computing the difference."""
    found = call("matmul", (a, b))
    return found if less is None else call("sub", (found, call("matmul", (less, b))))


cdef enum:
    MOST_ITERATIONS = 100_000       # more can only be a mistake, and would take for ever, on meta too


cdef object orthonormal(object t):
    return call("linalg.qr", (t,))[0]


cdef object low_rank(Call* c, Tensor t, object q, object niter, object mean):
    """Return U, S and V of a randomized SVD of t, or of t - mean, with rank q and niter subspace iterations.

    This uses algorithms 4.4 and 5.1 of Halko, Martinsson and Tropp (2009).
    """
    cdef bint wide = rows(t) < columns(t)
    if q < 0:
        raise RuntimeError(f"{title(c)}(): q must not be negative, got {q}")
    if niter > MOST_ITERATIONS:
        raise ValueError(f"{title(c)}(): niter must be at most {MOST_ITERATIONS:,}, got {niter}")
    tall = call("adjoint", (t,)) if wide else t
    if mean is not None:
        mean = call("expand", (mean, [t.sizes[i] for i in range(t.ndim)]))
        mean = call("adjoint", (mean,)) if wide else mean
    turned = call("adjoint", (tall,))
    turned_mean = None if mean is None else call("adjoint", (mean,))
    dtype = t.dtype if t.dtype.kind >= KIND_FLOAT else by_code(F32)
    start = call("randn", ((min(rows(t), columns(t)), q),), {"dtype": dtype, "device": result_device(c)})
    basis = orthonormal(product(tall, start, mean))
    for _ in range(niter):
        basis = orthonormal(product(turned, basis, turned_mean))
        basis = orthonormal(product(tall, basis, mean))
    adjoint = call("adjoint", (basis,))
    inner = call("matmul", (adjoint, tall))
    if mean is not None:
        inner = call("sub", (inner, call("matmul", (adjoint, mean))))
    u, s, vh = call("linalg.svd", (inner, False))
    u, v = call("matmul", (basis, u)), call("adjoint", (vh,))
    return (v, s, u) if wide else (u, s, v)


cdef int check_low_rank(Call* c, Tensor t) except -1:
    if t.ndim < 2:
        raise ValueError(f"{title(c)}(): A must have at least 2 dimensions, got shape {shape_str(t)}")
    return 0


cdef object svd_lowrank_body(Call* c):
    """Arguments: A, q, niter, M. M is subtracted from A."""
    check_low_rank(c, tensor_arg(c, 0))
    return low_rank(c, tensor_arg(c, 0), 6 if is_none(c, 1) else arg(c, 1), 2 if is_none(c, 2) else arg(c, 2), arg(c, 3))


cdef object pca_lowrank_body(Call* c):
    """Arguments: A, q, center, niter."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef object q = arg(c, 1)
    check_low_rank(c, t)
    if q is None:
        q = min(6, rows(t), columns(t))
    if q < 0 or q > min(rows(t), columns(t)):
        raise ValueError(f"{title(c)}(): q must be between 0 and {min(rows(t), columns(t))}, the smaller size of A, got {q}")
    if arg(c, 3) < 0:
        raise ValueError(f"{title(c)}(): niter must not be negative, got {arg(c, 3)}")
    if bool_arg(c, 2):
        t = call("sub", (t, call("mean", (t, -2, True))))
    return low_rank(c, t, q, arg(c, 3), None)


define("svd_lowrank(Tensor A, int? q=6, int? niter=2, Tensor? M=None) -> (Tensor, Tensor, Tensor)", svd_lowrank_body,
       COMPOSITE | FUNCTION_ONLY,
       "Randomized singular value decomposition of A (..., M, N), or of A - M if M is given: U (..., M, q), S (..., q) "
       "and V (..., N, q), by random projections and `niter` subspace iterations (Halko, Martinsson and Tropp, 2009).")
define("pca_lowrank(Tensor A, int? q=None, bool center=True, int niter=2) -> (Tensor, Tensor, Tensor)", pca_lowrank_body,
       COMPOSITE | FUNCTION_ONLY,
       "Principal component analysis of the rows of A (..., M, N): `svd_lowrank` of A, with the mean of each column "
       "subtracted if `center`. `q` defaults to min(6, M, N).")
