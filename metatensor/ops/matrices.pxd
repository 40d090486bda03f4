"""Checks and result layouts for batches of matrices, shared by the linear algebra families."""
from metatensor._core.dtype cimport C64, C128, F32, F64, DType
from metatensor._core.layout cimport Layout
from metatensor._core.op cimport Call
from metatensor._core.tensor cimport Tensor
from metatensor._core.types cimport dim_t

# Return the op's name for error messages: the public one, without the suffix of the `_ex` variants.
cdef str title(Call* c)

# Raise RuntimeError unless a tensor has at least 2 dimensions. `need_square` also requires that the last two are equal.
cdef int need_matrix(Call* c, Tensor t, str name) except -1
cdef int need_square(Call* c, Tensor t, str name) except -1
# Raise RuntimeError for integers, and for half precision unless `half` is true.
cdef int need_floating(Call* c, Tensor t, bint half) except -1
# Raise NotImplementedError unless LAPACK has routines for the dtype. Tensors without elements pass
# unless `empty` is true, because nothing is computed for them.
cdef int need_routine(Call* c, Tensor t, bint empty) except -1
cdef int need_one_dtype(Call* c, Tensor a, Tensor b, str name_a, str name_b) except -1
# Raise RuntimeError unless A is square and B fits A X = B (`left`) or X A = B.
cdef int need_solvable(Call* c, Tensor a, Tensor b, bint left) except -1

# Broadcast the batch dimensions of two tensors: all but the last `drop_a` of `a` and `drop_b` of `b`.
cdef int broadcast_batches(Call* c, Tensor a, int drop_a, Tensor b, int drop_b, Layout* to) except -1
# Return a new result. Its sizes are the first `nbatch` of `batch`, followed by the rows and columns. If `columnwise`,
# and always in `by_columns`, each matrix is column-major, as in Fortran and LAPACK.
cdef Tensor new_matrices(Call* c, int nbatch, const dim_t* batch, dim_t rows, dim_t columns, DType d, bint columnwise)
cdef Tensor by_columns(Call* c, int ndim, const dim_t* sizes, DType d)
cdef Tensor new_vectors(Call* c, int nbatch, const dim_t* batch, dim_t n, DType d)
# Like by_columns, but row-major if `out=` is given, because PyTorch resizes `out=` to row-major strides. The exception
# is an empty `out=` of dtype `d` on the CPU.
cdef Tensor by_columns_unless_out(Call* c, int ndim, const dim_t* sizes, DType d)
# Return a new tensor of one number for each matrix of `t`.
cdef Tensor per_matrix(Call* c, Tensor t, DType d)
cdef Tensor empty_vector(Call* c, DType d)


cdef inline dim_t rows(Tensor t) noexcept:
    return t.sizes[t.ndim - 2]

cdef inline dim_t columns(Tensor t) noexcept:
    return t.sizes[t.ndim - 1]

cdef inline bint has_routine(DType d) noexcept:
    return d.code == F32 or d.code == F64 or d.code == C64 or d.code == C128
