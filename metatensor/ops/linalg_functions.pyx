"""Determinants, powers and exponentials of matrices, cross products, and Vandermonde matrices.

Functions of matrices apply to each matrix of a batch (..., N, N).
"""
from metatensor._core.device cimport META
from metatensor._core.dtype cimport BOOL, I32, I64, by_code, to_real
from metatensor._core.layout cimport Layout, broadcast_into, copy_dims
from metatensor._core.op cimport (
    NO_OVERLAP, COMPOSITE, EXACT_OUT, FUNCTION_ONLY, OUT, WITH_OUT, Call, alias_op, arg, call, define, dim_arg, int_arg,
    is_none, make_returns, op_name, result_device, tensor_arg,
)
from metatensor._core.tensor cimport Tensor, new_contiguous, shape_str
from metatensor._core.types cimport KIND_COMPLEX, KIND_INT, T_RETRIED, dim_t
from metatensor.ops.operands cimport refuse
from metatensor._core.formats import contiguous_format
from metatensor.ops.matrices cimport (
    by_columns, columns, has_routine, need_floating, need_one_dtype, need_routine, need_square, new_matrices, per_matrix,
)
from metatensor._core.gradient_parts import Bodies
from metatensor._core.gradient_parts import conj
from metatensor._core.gradients import gradient, linalg, recorded_as


# Parts of gradients ---------------------------------------------------------------------------------

def _vander(x, N):
    x = x if x.ndim else x.unsqueeze(0)
    return Bodies("views").powers(x, x.shape[x.ndim - 1] if N is None else N)


# Determinants ---------------------------------------------------------------------------

cdef tuple temporary(Call* c, Tensor t):
    """Return LU factors like those that the call computes on a device, so that trackers on meta count their memory."""
    return lu_parts(c, t) if result_device(c) is META else None


cdef object det_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    need_square(c, t, "input")
    need_floating(c, t, True)
    need_routine(c, t, False)
    _factors = temporary(c, t)
    return per_matrix(c, t, t.dtype)


cdef object slogdet_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    need_square(c, t, "input")
    need_floating(c, t, False)
    _factors = temporary(c, t)
    return make_returns(c, (per_matrix(c, t, t.dtype), per_matrix(c, t, to_real(t.dtype))))


cdef tuple lu_parts(Call* c, Tensor t):
    """Return outputs for LU factors and their pivots."""
    return by_columns(c, t.ndim, t.sizes, t.dtype), new_contiguous(t.ndim - 1, t.sizes, by_code(I32), result_device(c))


cdef object det_parts_meta(Call* c):
    return make_returns(c, (det_meta(c), *lu_parts(c, tensor_arg(c, 0))))


cdef object slogdet_parts_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    need_square(c, t, "input")
    need_floating(c, t, False)
    return make_returns(c, (per_matrix(c, t, t.dtype), per_matrix(c, t, to_real(t.dtype)), *lu_parts(c, t)))


cdef object logdet_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    need_square(c, t, "input")
    need_floating(c, t, False)
    if result_device(c) is META:
        _parts = (per_matrix(c, t, t.dtype), per_matrix(c, t, to_real(t.dtype)))     # sign and logarithm
        factors = lu_parts(c, t)
        factors = None
        if t.dtype.kind == KIND_COMPLEX:
            more = (per_matrix(c, t, t.dtype),)
        else:
            more = (per_matrix(c, t, by_code(BOOL)), new_contiguous(0, NULL, t.dtype, result_device(c)))
    return per_matrix(c, t, t.dtype)


define("linalg.det(Tensor A) -> Tensor", det_meta, OUT | EXACT_OUT, "Determinants of square matrices (..., N, N).")
define("det(Tensor input) -> Tensor", det_meta, 0, "Determinants of square matrices (..., N, N).")
define("linalg.slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)", slogdet_meta, OUT | EXACT_OUT,
       "Sign and logarithm of the magnitude of the determinants of square matrices (..., N, N). The sign of a complex "
       "determinant is a number of magnitude 1. A singular matrix has sign 0 and logarithm -inf.")
define("slogdet(Tensor input) -> (Tensor sign, Tensor logabsdet)", slogdet_meta, OUT | EXACT_OUT,
       "Sign and logarithm of the magnitude of the determinants of square matrices (..., N, N). The sign of a complex "
       "determinant is a number of magnitude 1. A singular matrix has sign 0 and logarithm -inf.")
define("logdet(Tensor input) -> Tensor", logdet_meta, 0,
       "Logarithms of determinants. The logarithm of a negative determinant is NaN.")
define("_linalg_det(Tensor A) -> (Tensor result, Tensor LU, Tensor pivots)", det_parts_meta, FUNCTION_ONLY,
       "Like `linalg.det`, but with the LU factors and their pivots.")
gradient("_linalg_det", outputs=(0,), A="linalg_solve.det")
define("_linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet, Tensor LU, Tensor pivots)", slogdet_parts_meta, FUNCTION_ONLY,
       "Like `linalg.slogdet`, but with the LU factors and their pivots.")
gradient("_linalg_slogdet", outputs=(0, 1), A="linalg_solve.slogdet")
for _name in ("linalg.det", "det"):
    recorded_as(_name, "linalg_solve.det_through")
for _name in ("linalg.slogdet", "slogdet"):
    recorded_as(_name, "linalg_solve.slogdet_through")
recorded_as("logdet", "linalg_solve.logdet_through")


# Powers ---------------------------------------------------------------------------------

cdef object matrix_power_body(Call* c):
    """Compute a power by repeated squaring. If n < 0, compute a power of the inverse. Arguments: input, n."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef object n = arg(c, 1), factor, found = None
    need_square(c, t, "input")
    if c.variant == WITH_OUT and n not in (0, 1) and isinstance(<object>c.out, Tensor) \
            and (<Tensor>c.out).dtype is not t.dtype:
        raise RuntimeError(f"{op_name(c)}(): out must have the dtype of input, {t.dtype.name}, got "
                           f"{(<Tensor>c.out).dtype.name}")
    if n == 0:
        found = call("clone", (t,), {"memory_format": contiguous_format})
        return call("copy_", (found, call("eye", (columns(t),), {"dtype": t.dtype, "device": result_device(c)})))
    if n < 0:
        factor = call("linalg.inv", (t,))
        n = -n
        if n == 1:
            return call("contiguous", (factor,)) if c.variant == WITH_OUT else factor
    elif n == 1:
        return call("clone", (t,), {"memory_format": contiguous_format})
    else:
        factor = t
    while True:
        if n & 1:
            found = factor if found is None else call("matmul", (found, factor))
        n >>= 1
        if n == 0:
            return found
        factor = call("matmul", (factor, factor))


cdef object matrix_exp_meta(Call* c):
    cdef Tensor t = tensor_arg(c, 0)
    need_square(c, t, "input")
    need_floating(c, t, True)
    return new_contiguous(t.ndim, t.sizes, t.dtype, result_device(c))


define("linalg.matrix_power(Tensor input, int n) -> Tensor", matrix_power_body, COMPOSITE | OUT,
       "Square matrices (..., N, N) raised to an integer power. Negative powers are powers of the inverse.")
define("linalg.matrix_exp(Tensor input) -> Tensor", matrix_exp_meta, 0,
       "Matrix exponentials of square matrices (..., N, N).")
gradient("linalg.matrix_exp", input="linalg_solve.matrix_exp")
alias_op("matrix_power", "linalg.matrix_power")
alias_op("matrix_exp", "linalg.matrix_exp")


# Vectors --------------------------------------------------------------------------------

cdef object cross_result(Call* c, Tensor a, Tensor b, int dim):
    """Return the result of a cross product along `dim`, or along argument 2 if `dim` is negative."""
    cdef Layout lay
    if a.ndim != b.ndim:
        raise RuntimeError(f"{op_name(c)}(): input and other must have the same number of dimensions, got shapes "
                           f"{shape_str(a)} and "
                           + shape_str(b))
    if a.ndim == 0:
        raise IndexError(f"{op_name(c)}(): at least 1 dimension is needed")
    if dim < 0:
        dim = dim_arg(c, 2, a.ndim)
    if a.sizes[dim] != 3 or b.sizes[dim] != 3:
        raise RuntimeError(f"{op_name(c)}(): dimension {dim} must have size 3 in both tensors, got shapes "
                           f"{shape_str(a)} and "
                           + shape_str(b))
    lay.ndim = a.ndim
    copy_dims(lay.sizes, a.sizes, a.ndim)
    if broadcast_into(&lay, b.ndim, b.sizes):
        raise RuntimeError(f"{op_name(c)}(): the shapes {shape_str(a)} and {shape_str(b)} do not broadcast")
    if a.dtype.code == BOOL:
        refuse(c, a.dtype)
    if not c.flags & T_RETRIED:
        need_one_dtype(c, a, b, "input", "other")
    return new_contiguous(lay.ndim, lay.sizes, a.dtype, result_device(c))


cdef object linalg_cross_meta(Call* c):
    """Arguments: input, other, dim."""
    return cross_result(c, tensor_arg(c, 0), tensor_arg(c, 1), -1)


cdef object cross_meta(Call* c):
    """Arguments: input, other, dim. `dim` defaults to the first dimension of size 3."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef int i
    if not is_none(c, 2):
        return cross_result(c, t, tensor_arg(c, 1), -1)
    for i in range(t.ndim):
        if t.sizes[i] == 3:
            return cross_result(c, t, tensor_arg(c, 1), i)
    raise RuntimeError(f"{op_name(c)}(): input must have a dimension of size 3, got shape {shape_str(t)}")


cdef object vander_meta(Call* c):
    """Arguments: x (..., n), N. The result has shape (..., n, N). Its dtype is int64 if x holds integers. A 0-d x
    counts as a vector of one value."""
    cdef Tensor t = tensor_arg(c, 0)
    cdef dim_t one = 1
    cdef dim_t n
    if t.dtype.kind != KIND_INT and not has_routine(t.dtype):
        raise RuntimeError(f"{op_name(c)}(): integers or numbers of single or double precision are needed, got "
                           f"{t.dtype.name}")
    n = int_arg(c, 1) if not is_none(c, 1) else t.sizes[t.ndim - 1] if t.ndim else 1
    if n <= 1:
        raise RuntimeError(f"{op_name(c)}(): N must be greater than 1, got {n}")
    d = by_code(I64) if t.dtype.kind == KIND_INT else t.dtype
    if result_device(c) is META:     # trackers count the temporary tensor of powers
        _powers = new_matrices(c, max(t.ndim - 1, 0), t.sizes, t.sizes[t.ndim - 1] if t.ndim else one, n - 1, d, False)
        _ones = new_matrices(c, max(t.ndim - 1, 0), t.sizes, t.sizes[t.ndim - 1] if t.ndim else one, 1, d, False)
    return new_matrices(c, max(t.ndim - 1, 0), t.sizes, t.sizes[t.ndim - 1] if t.ndim else one, n,
                        by_code(I64) if t.dtype.kind == KIND_INT else t.dtype, False)


define("linalg.cross(Tensor input, Tensor other, *, int dim=-1) -> Tensor", linalg_cross_meta, OUT | EXACT_OUT | NO_OVERLAP,
       "Cross products of the vectors along `dim`, which must have size 3. The other dimensions broadcast.")
gradient("linalg.cross", linear="input other", input=lambda grad, other, dim: linalg.cross(conj(other), grad, dim=dim),
         other=lambda grad, input, dim: linalg.cross(grad, conj(input), dim=dim))
define("cross(Tensor input, Tensor other, int? dim=None) -> Tensor", cross_meta, OUT | EXACT_OUT | NO_OVERLAP,
       "Cross products of the vectors along `dim`, which must have size 3. `dim` defaults to the first dimension of "
       "size 3. The other dimensions broadcast.")
recorded_as("cross")
define("linalg.vander(Tensor x, *, int? N=None) -> Tensor", vander_meta, 0,
       "Vandermonde matrices: for x (..., n) the result (..., n, N) holds the powers 0 to N - 1 of each value. N "
       "defaults to n. The result is int64 if x holds integers, else it has the dtype of x.")
recorded_as("linalg.vander", _vander)
