"""Systems of linear equations, inverses and least squares, for batches of matrices. The batch dimensions broadcast."""
from metatensor._core.device cimport META
from metatensor._core.dtype cimport I32, I64, by_code, to_real
from metatensor._core.layout cimport Layout, broadcast_into, copy_dims, dims_equal, mul_dims, row_major
from metatensor._core.op cimport (
    COMPOSITE, EXACT_OUT, FUNCTION_ONLY, OUT, WITH_OUT, Call, arg, bool_arg, call, define, dims_arg, int_arg, is_none,
    make_returns, op_name, result_device, tensor_arg, wrap,
)
from metatensor._core.storage cimport has_values
from metatensor._core.tensor cimport Tensor, new_contiguous, new_strided, shape_str
from metatensor._core.types cimport KIND_BOOL, KIND_INT, MAX_DIMS, T_DISTRIBUTED, dim_t
from metatensor._core import errors
from metatensor._core.gradients import gradient, recorded_as
from metatensor.ops.matrices cimport (
    broadcast_batches, by_columns, columns, empty_vector, has_routine, need_floating, need_matrix, need_one_dtype,
    need_routine, need_solvable, need_square, new_matrices, per_matrix, rows, title,
)


# General matrices -----------------------------------------------------------------------

cdef bint is_vector(Tensor a, Tensor b) noexcept:
    """Return whether B in A X = B holds one vector for each matrix of A, and not a matrix."""
    return b.ndim == 1 or (b.ndim == a.ndim - 1 and dims_equal(a.sizes, b.sizes, b.ndim))


cdef object solution_of(Call* c, bint parts):
    """Arguments: A (..., n, n), B, left, check_errors. B has shape (..., n, k), or (..., n) for vectors. If `parts`,
    also return outputs for the LU factors of A and their pivots."""
    cdef Tensor a = tensor_arg(c, 0), b = tensor_arg(c, 1), out
    cdef bint left = bool_arg(c, 2), vector
    cdef Layout lay
    need_floating(c, a, True)
    need_one_dtype(c, a, b, "A", "B")
    need_square(c, a, "A")
    vector = is_vector(a, b)
    if vector:
        if not left:
            raise RuntimeError(f"{title(c)}(): with left=False B must be matrices, got shape {shape_str(b)}, which "
                               f"counts as vectors for A of shape {shape_str(a)}")
        if b.sizes[b.ndim - 1] != rows(a):
            raise RuntimeError(f"{title(c)}(): the shapes do not fit A X = B: A has shape {shape_str(a)} and B has "
                               f"shape {shape_str(b)}, which counts as vectors")
    else:
        need_solvable(c, a, b, left)
    broadcast_batches(c, a, 2, b, 1 if vector else 2, &lay)
    copy_dims(lay.sizes + lay.ndim, b.sizes + b.ndim - (1 if vector else 2), 1 if vector else 2)
    lay.ndim += 1 if vector else 2
    need_routine(c, a, False)
    out = by_columns(c, lay.ndim, lay.sizes, a.dtype) if left else \
        new_contiguous(lay.ndim, lay.sizes, a.dtype, result_device(c))
    if not parts and result_device(c) is META:
        _factors = (by_columns(c, a.ndim, a.sizes, a.dtype), new_contiguous(a.ndim - 1, a.sizes, by_code(I32), result_device(c)))
    if parts:
        return make_returns(c, (out, by_columns(c, a.ndim, a.sizes, a.dtype),
                                new_contiguous(a.ndim - 1, a.sizes, by_code(I32), result_device(c)),
                                per_matrix(c, a, by_code(I32))))
    return make_returns(c, (out, per_matrix(c, a, by_code(I32))))


cdef object solve_ex_meta(Call* c):
    return solution_of(c, False)


cdef object solve_parts_meta(Call* c):
    return solution_of(c, True)


cdef object solve_body(Call* c):
    return call("linalg.solve_ex", (tensor_arg(c, 0), tensor_arg(c, 1)), {"left": arg(c, 2), "check_errors": True})[0]


cdef object inv_ex_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    need_square(c, t, "A")
    need_floating(c, t, False)
    return make_returns(c, (by_columns(c, t.ndim, t.sizes, t.dtype), per_matrix(c, t, by_code(I32))))


cdef object inv_body(Call* c):
    return call("linalg.inv_ex", (tensor_arg(c, 0),), {"check_errors": True})[0]


define("linalg.solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, Tensor info)",
       solve_ex_meta, OUT | EXACT_OUT,
       "Solutions X of `A @ X = B`, like `linalg.solve`, and an int32 `info` (...): 0 or the position of the first "
       "zero pivot, counted from 1. If `check_errors`, raise LinAlgError for singular matrices.")
recorded_as("linalg.solve_ex", "linalg_solve.solve_through")
define("_linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) "
       "-> (Tensor result, Tensor LU, Tensor pivots, Tensor info)", solve_parts_meta, FUNCTION_ONLY,
       "Like `linalg.solve_ex`, but with the LU factors of A and their pivots.")
gradient("_linalg_solve_ex", outputs=(0,), joint="linalg_solve.solve", A=True, B=True)
define("linalg.solve(Tensor A, Tensor B, *, bool left=True) -> Tensor", solve_body, COMPOSITE | OUT | EXACT_OUT,
       "Solutions X of `A @ X = B`, or of `X @ A = B` if not `left`, for A (..., N, N) and B (..., N, K), or (..., N) "
       "for vectors. Batch dimensions broadcast. Raise LinAlgError if a matrix is singular.")
define("linalg.inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)", inv_ex_meta,
       OUT | EXACT_OUT,
       "Inverses of square matrices (..., N, N), and an int32 `info` (...): 0 or the position of the first zero pivot, "
       "counted from 1. If `check_errors`, raise LinAlgError for singular matrices.")
gradient("linalg.inv_ex", outputs=(0,), A=lambda grad, inverse: -(inverse.mH @ (grad @ inverse.mH)))
define("linalg.inv(Tensor A) -> Tensor", inv_body, COMPOSITE | OUT | EXACT_OUT,
       "Inverses of square matrices (..., N, N). Raise LinAlgError if a matrix is singular.")
define("inverse(Tensor input) -> Tensor", inv_body, COMPOSITE | OUT | EXACT_OUT,
       "Inverses of square matrices (..., N, N). Raise LinAlgError if a matrix is singular.")


# Solutions from factors -------------------------------------------------------------------

cdef Tensor solved(Call* c, Tensor a, Tensor b, bint columnwise):
    """Return an output for the solutions. Its matrices have the shape of those in B. The batch dimensions of A and B
    broadcast."""
    cdef Layout lay
    broadcast_batches(c, a, 2, b, 2, &lay)
    return new_matrices(c, lay.ndim, lay.sizes, rows(b), columns(b), a.dtype, columnwise)


cdef int check_pivots(Call* c, Tensor factors, Tensor pivots, bint any_int) except -1:
    """Check the dtype and shape of pivots: int32, or any integer or bool dtype if `any_int`."""
    if pivots.dtype.code != I32 and (not any_int or (pivots.dtype.kind != KIND_INT and pivots.dtype.kind != KIND_BOOL)):
        raise RuntimeError(f"{title(c)}(): pivots must be int32, got {pivots.dtype.name}")
    if pivots.ndim == 0 and not any_int:
        raise IndexError(f"{title(c)}(): pivots must have a dimension")
    if pivots.ndim != factors.ndim - 1 or not dims_equal(pivots.sizes, factors.sizes, pivots.ndim):
        raise RuntimeError(f"{title(c)}(): pivots must have the shape of the factors, {shape_str(factors)}, without the "
                           f"last dimension, got {shape_str(pivots)}")
    return 0


cdef object solve_triangular_meta(Call* c):
    """Arguments: A, B, upper, left, unitriangular. B is converted to the dtype of A."""
    cdef Tensor a = tensor_arg(c, 0), b = tensor_arg(c, 1)
    need_solvable(c, a, b, bool_arg(c, 3))
    need_routine(c, a, True)
    return solved(c, a, b, True)


cdef object triangular_solve_meta(Call* c):
    """Arguments: input (B), A, upper, transpose, unitriangular. Returns the solution, and A expanded to the
    solution's batch."""
    cdef Tensor b = tensor_arg(c, 0), a = tensor_arg(c, 1)
    cdef Layout lay
    need_matrix(c, b, "input")
    need_one_dtype(c, b, a, "input", "A")
    need_solvable(c, a, b, True)
    need_routine(c, a, True)
    broadcast_batches(c, b, 2, a, 2, &lay)
    return make_returns(c, (new_matrices(c, lay.ndim, lay.sizes, rows(b), columns(b), a.dtype, True),
                            new_matrices(c, lay.ndim, lay.sizes, rows(a), columns(a), a.dtype, True)))


cdef object lu_solve_meta(Call* c):
    """Arguments: LU, pivots, B, left, adjoint."""
    cdef Tensor a = tensor_arg(c, 0), b = tensor_arg(c, 2), out
    cdef bint left = bool_arg(c, 3)
    need_floating(c, a, True)
    need_one_dtype(c, a, b, "LU", "B")
    need_square(c, a, "LU")
    check_pivots(c, a, tensor_arg(c, 1), False)
    need_solvable(c, a, b, left)
    out = solved(c, a, b, left)
    need_routine(c, out, False)
    return out


cdef object old_lu_solve_body(Call* c):
    return call("linalg.lu_solve", (tensor_arg(c, 1), tensor_arg(c, 2), tensor_arg(c, 0)))


cdef object ldl_solve_meta(Call* c):
    """Arguments: LD, pivots, B, hermitian."""
    cdef Tensor a = tensor_arg(c, 0), b = tensor_arg(c, 2)
    need_square(c, a, "LD")
    need_floating(c, a, True)
    need_one_dtype(c, a, b, "LD", "B")
    if b.ndim < 2:
        raise IndexError(f"{title(c)}(): B must have at least 2 dimensions, got shape {shape_str(b)}")
    need_solvable(c, a, b, True)
    check_pivots(c, a, tensor_arg(c, 1), True)
    need_routine(c, a, False)
    return solved(c, a, b, True)


cdef object cholesky_solve_meta(Call* c):
    """Arguments: input (B), input2 (the factors), upper. The result is row-major with out=, else column-major."""
    cdef Tensor b = tensor_arg(c, 0), a = tensor_arg(c, 1)
    need_matrix(c, b, "input")
    need_matrix(c, a, "input2")
    need_one_dtype(c, b, a, "input", "input2")
    need_solvable(c, a, b, True)
    need_routine(c, a, True)
    return solved(c, a, b, c.variant != WITH_OUT)


define("linalg.solve_triangular(Tensor input, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) -> Tensor",
       solve_triangular_meta, OUT | EXACT_OUT,
       "Solutions X of `A @ X = B`, or of `X @ A = B` if not `left`, where A = `input` (..., N, N) holds upper "
       "triangular matrices if `upper`, else lower ones. The other triangle is not read. If `unitriangular`, the "
       "diagonal is not read either, and counts as 1.")
gradient("linalg.solve_triangular", joint="linalg_solve.solve_triangular", input=True, B=True)
define("triangular_solve(Tensor input, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False) "
       "-> (Tensor solution, Tensor cloned_coefficient)", triangular_solve_meta, OUT | EXACT_OUT,
       "Solutions X of `A @ X = input` for triangular matrices A, or of `A.mT @ X = input` if `transpose`, and a copy "
       "of A expanded to the batch of the solution.")
gradient("triangular_solve", joint="linalg_solve.triangular_solve", input=True, A=True)
define("linalg.lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> Tensor",
       lu_solve_meta, OUT | EXACT_OUT,
       "Solutions X of `A @ X = B`, given the result of `linalg.lu_factor` for A. If not `left`, solve `X @ A = B`. If "
       "`adjoint`, use the conjugate transpose of A.")
gradient("linalg.lu_solve", joint="linalg_solve.lu_solve", LU=True, B=True)
define("lu_solve(Tensor input, Tensor LU_data, Tensor LU_pivots) -> Tensor", old_lu_solve_body, COMPOSITE | OUT | EXACT_OUT,
       "Solutions X of `A @ X = input`, given the result of `linalg.lu_factor` for A.")
define("linalg.ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor", ldl_solve_meta,
       OUT | EXACT_OUT, "Solutions X of `A @ X = B`, given the result of `linalg.ldl_factor` for A.")
define("cholesky_solve(Tensor input, Tensor input2, bool upper=False) -> Tensor", cholesky_solve_meta, OUT,
       "Solutions X of `A @ X = input`, given the Cholesky factors `input2` of A. The factors are upper triangular if "
       "`upper`, else lower triangular.")
gradient("cholesky_solve", joint="linalg.cholesky_solve", input=True, input2=True)


# Least squares --------------------------------------------------------------------------

cdef bint ranks_decide(Tensor a, str driver) except -1:
    """Return whether residuals are returned only for some values of A. This is so if `driver` computes ranks and the
    system is overdetermined."""
    return driver in ("gelsd", "gelss") and rows(a) > columns(a) and a.total != 0


cdef object lstsq_body(Call* c):
    """Arguments: input, b, rcond, driver. Residuals are returned only if all matrices have full rank."""
    cdef Tensor a = tensor_arg(c, 0)
    driver = "gelsy" if is_none(c, 3) else arg(c, 3)
    parts = call("_linalg_lstsq", (a, tensor_arg(c, 1), arg(c, 2), driver))
    if ranks_decide(a, driver):
        if not has_values((<Tensor>parts[2]).storage) and not (<Tensor>parts[2]).flags & T_DISTRIBUTED:
            raise errors.data_dependent(op_name(c), a.storage.device, a.shape)
        if not call("all", (call("eq", (parts[2], columns(a))),)).item():
            parts = (parts[0], call("new_empty", (parts[1], (0,))), parts[2], parts[3])
    return make_returns(c, tuple(parts))


cdef object lstsq_meta(Call* c):
    """Arguments: input (..., m, n), b (..., m, k) or (..., m), rcond, driver. Residuals are returned even for matrices
    without full rank."""
    cdef Tensor a = tensor_arg(c, 0), b = tensor_arg(c, 1), solution
    cdef str driver = arg(c, 3)
    cdef Layout lay
    cdef dim_t m, n, k, tall
    cdef dim_t strides[MAX_DIMS + 2]
    cdef bint vector
    cdef int batch
    need_matrix(c, a, "input")
    if b.ndim == 0:
        raise RuntimeError(f"{title(c)}(): b must have at least 1 dimension")
    need_one_dtype(c, a, b, "input", "b")
    if b.ndim != a.ndim and b.ndim != a.ndim - 1:
        raise RuntimeError(f"{title(c)}(): b must have as many dimensions as input, or one less, got shapes "
                           f"{shape_str(b)} and {shape_str(a)}")
    vector = is_vector(a, b)
    m, n = rows(a), columns(a)
    if (b.sizes[b.ndim - 1] if vector else rows(b)) != m:
        raise RuntimeError(f"{title(c)}(): b must have as many rows as input, got shapes {shape_str(b)} and {shape_str(a)}")
    if driver not in ("gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError(f"{title(c)}(): driver must be 'gels', 'gelsy', 'gelsd' or 'gelss', got {driver!r}")
    if is_none(c, 2) and not has_routine(a.dtype):
        raise RuntimeError(f"{title(c)}(): there is no default rcond for {a.dtype.name}")
    need_routine(c, a, True)
    # If b has one dimension less but does not hold vectors, its rows count as a batch dimension too.
    batch = a.ndim - 2
    lay.ndim = batch
    copy_dims(lay.sizes, a.sizes, batch)
    if broadcast_into(&lay, batch, b.sizes):
        raise RuntimeError(f"{title(c)}(): the batch dimensions of shapes {shape_str(a)} and {shape_str(b)} do not broadcast")
    k = 1 if vector else columns(b)
    # The solutions are the first n rows of a work array of max(m, n) rows.
    tall = max(m, n)
    lay.sizes[batch] = k
    lay.sizes[batch + 1] = tall
    row_major(batch + 2, lay.sizes, strides)
    lay.sizes[batch] = n
    lay.sizes[batch + 1] = k
    strides[batch] = 1
    strides[batch + 1] = max(tall, 1)
    solution = new_strided(batch + (1 if vector else 2), lay.sizes, strides, a.dtype, result_device(c))
    lay.sizes[batch] = k
    residuals = new_contiguous(batch + 1, lay.sizes, to_real(a.dtype), result_device(c)) \
        if m > n and driver != "gelsy" else empty_vector(c, to_real(a.dtype))
    rank = empty_vector(c, by_code(I64)) if driver == "gels" else per_matrix(c, a, by_code(I64))
    lay.sizes[batch] = min(m, n)
    copy_dims(lay.sizes, a.sizes, batch)
    values = new_contiguous(batch + 1, lay.sizes, to_real(a.dtype), result_device(c)) \
        if driver in ("gelsd", "gelss") else empty_vector(c, to_real(a.dtype))
    return make_returns(c, (solution, residuals, rank, values))


define("_linalg_lstsq(Tensor input, Tensor b, float? rcond, str driver) "
       "-> (Tensor solution, Tensor residuals, Tensor rank, Tensor singular_values)", lstsq_meta, FUNCTION_ONLY,
       "Like `linalg.lstsq`, but with residuals even for matrices without full rank.")
define("linalg.lstsq(Tensor input, Tensor b, float? rcond=None, *, str? driver=None) "
       "-> (Tensor solution, Tensor residuals, Tensor rank, Tensor singular_values)", lstsq_body, COMPOSITE | OUT,
       "Least-squares solutions X (..., N, K) that minimize the norm of each column of `input @ X - b`, for `input` "
       "(..., M, N) and `b` (..., M, K) or (..., M). `driver` is the LAPACK routine: 'gels', 'gelsy' (the default), "
       "'gelsd' or 'gelss'. Singular values below `rcond` times the largest count as 0. Also return the residuals, "
       "ranks and singular values. Those that the driver does not compute are empty.")
gradient("linalg.lstsq", outputs=(0, 1), joint="linalg_solve.least_squares", input=True, b=True)


# Tensors reshaped to matrices -------------------------------------------------------------

cdef dim_t halves(Call* c, Tensor t, dim_t first) except -1:
    """Return the product of the first sizes of t. Raise if the product of the other sizes differs."""
    cdef dim_t m = 1, n = 1
    cdef int i
    for i in range(t.ndim):
        if i < first:
            m = mul_dims(m, t.sizes[i])
        else:
            n = mul_dims(n, t.sizes[i])
    if m != n:
        raise RuntimeError(f"{op_name(c)}(): the first {first} sizes of {shape_str(t)} must have the same product as "
                           f"the others, but the products are {m} and {n}")
    return m


cdef object tensorinv_body(Call* c):
    """Arguments: input, ind. The first `ind` dimensions count as rows, the others as columns."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t ind = int_arg(c, 1), n
    cdef int i
    if ind <= 0 or ind > t.ndim:
        raise RuntimeError(f"{op_name(c)}(): ind must be between 1 and the number of dimensions, got {ind} for shape "
                           + shape_str(t))
    n = halves(c, t, ind)
    shape = [t.sizes[i] for i in range(ind, t.ndim)] + [t.sizes[i] for i in range(ind)]
    inverses = call("linalg.inv", (call("reshape", (t, (n, n))),))
    if c.variant == WITH_OUT:
        inverses = call("contiguous", (inverses,))
    return call("reshape", (inverses, shape))


cdef object tensorsolve_body(Call* c):
    """Arguments: input, other, dims. `dims` are moved to the end first."""
    cdef Tensor t = tensor_arg(c, 0), other = tensor_arg(c, 1)
    cdef dim_t dims[MAX_DIMS]
    cdef dim_t n = 1
    cdef int i, k
    if not is_none(c, 2):
        k = dims_arg(c, 2, dims)
        for i in range(k):
            wrap(c, dims[i], t.ndim)
        t = call("movedim", (t, arg(c, 2), tuple(range(t.ndim - k, t.ndim))))
    if other.ndim > t.ndim:
        raise RuntimeError(f"{op_name(c)}(): other must not have more dimensions than input, got shapes {shape_str(other)} "
                           f"and {shape_str(t)}")
    for i in range(other.ndim, t.ndim):
        n = mul_dims(n, t.sizes[i])
    if n != other.total or mul_dims(n, n) != t.total:
        raise RuntimeError(f"{op_name(c)}(): input of shape {shape_str(t)} cannot be reshaped to a square matrix for "
                           "other of shape "
                           f"{shape_str(other)}: the first {other.ndim} sizes of input, and also the others, must have "
                           f"the product {other.total}")
    solution = call("linalg.solve", (call("reshape", (t, (n, n))), call("reshape", (other, (other.total,)))))
    return call("reshape", (solution, [t.sizes[i] for i in range(other.ndim, t.ndim)]))


define("linalg.tensorinv(Tensor input, int ind=2) -> Tensor", tensorinv_body, COMPOSITE | OUT,
       "Inverse of a tensor reshaped to a square matrix, whose rows are the first `ind` dimensions and whose columns "
       "are the others. The result has shape `input.shape[ind:] + input.shape[:ind]`.")
define("linalg.tensorsolve(Tensor input, Tensor other, int[]? dims=None) -> Tensor", tensorsolve_body, COMPOSITE | OUT,
       "Tensor X with `tensordot(input, X, X.ndim) = other`. The dimensions `dims` of `input` are moved to the end "
       "first. X has the shape of `input` without its first `other.ndim` dimensions.")
