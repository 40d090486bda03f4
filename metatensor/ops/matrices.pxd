"""Batches of matrices: the checks and layouts that the families of linear algebra share."""
from metatensor._core.dtype cimport C64, C128, F32, F64, DType
from metatensor._core.layout cimport Layout
from metatensor._core.op cimport Call
from metatensor._core.tensor cimport Tensor
from metatensor._core.types cimport dim_t

# What messages call the op: the public one, without the `_ex` of the variants that report instead of raising.
cdef str title(Call* c)

# RuntimeError unless a tensor has at least 2 dimensions; unless these are also of one size.
cdef int need_matrix(Call* c, Tensor t, str name) except -1
cdef int need_square(Call* c, Tensor t, str name) except -1
# RuntimeError for integers; `half` says whether half precision may pass.
cdef int need_floating(Call* c, Tensor t, bint half) except -1
# NotImplementedError for dtypes that no library of linear algebra computes in; tensors without
# elements pass unless `empty`, as nothing is computed for them.
cdef int need_routine(Call* c, Tensor t, bint empty) except -1
cdef int need_one_dtype(Call* c, Tensor a, Tensor b, str name_a, str name_b) except -1
# RuntimeError unless A is square and B has the rows (on the right side: the columns) for A X = B (X A = B).
cdef int need_solvable(Call* c, Tensor a, Tensor b, bint left) except -1

# The common batch of two tensors: their dimensions but the last `drop_a` and `drop_b`.
cdef int broadcast_batches(Call* c, Tensor a, int drop_a, Tensor b, int drop_b, Layout* to) except -1
# Fresh results: the first `nbatch` sizes of `batch`, then rows and columns. By columns, each matrix
# lies as Fortran and LAPACK have it.
cdef Tensor new_matrices(Call* c, int nbatch, const dim_t* batch, dim_t rows, dim_t columns, DType d, bint columnwise)
cdef Tensor by_columns(Call* c, int ndim, const dim_t* sizes, DType d)
cdef Tensor new_vectors(Call* c, int nbatch, const dim_t* batch, dim_t n, DType d)
# As by_columns, but by rows where out= is given: but for an empty tensor of the right dtype on the cpu, that is what
# it is resized to.
cdef Tensor by_columns_unless_out(Call* c, int ndim, const dim_t* sizes, DType d)
# One number for each matrix of t.
cdef Tensor per_matrix(Call* c, Tensor t, DType d)
cdef Tensor empty_vector(Call* c, DType d)


cdef inline dim_t rows(Tensor t) noexcept:
    return t.sizes[t.ndim - 2]

cdef inline dim_t columns(Tensor t) noexcept:
    return t.sizes[t.ndim - 1]

cdef inline bint has_routine(DType d) noexcept:
    return d.code == F32 or d.code == F64 or d.code == C64 or d.code == C128
