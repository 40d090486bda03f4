"""Checks and result layouts for batches of matrices, shared by the linear algebra families."""
from metatensor._core.dtype cimport DType
from metatensor._core.layout cimport Layout, broadcast_into, copy_dims, row_major
from metatensor._core.op cimport WITH_OUT, Call, op_name, result_device
from metatensor._core.tensor cimport Tensor, new_contiguous, new_strided, shape_str
from metatensor._core.types cimport KIND_COMPLEX, KIND_FLOAT, MAX_DIMS, dim_t


cdef str title(Call* c):
    cdef str name = op_name(c)
    if name.startswith("_linalg_"):
        name = "linalg." + name[len("_linalg_"):]
    return name[:len(name) - 3] if name.endswith("_ex") else name


# Checks ---------------------------------------------------------------------------------

cdef int need_matrix(Call* c, Tensor t, str name) except -1:
    if t.ndim < 2:
        raise RuntimeError(f"{title(c)}(): {name} must have at least 2 dimensions, got shape {shape_str(t)}")
    return 0


cdef int need_square(Call* c, Tensor t, str name) except -1:
    need_matrix(c, t, name)
    if rows(t) != columns(t):
        raise RuntimeError(f"{title(c)}(): {name} must be square matrices, got {rows(t)} by {columns(t)} matrices "
                           f"(shape {shape_str(t)})")
    return 0


cdef int need_floating(Call* c, Tensor t, bint half) except -1:
    if t.dtype.kind != KIND_FLOAT and t.dtype.kind != KIND_COMPLEX:
        raise RuntimeError(f"{title(c)}(): a floating-point or complex tensor is needed, got {t.dtype.name}")
    if not half and not has_routine(t.dtype):
        raise RuntimeError(f"{title(c)}(): a tensor of single or double precision is needed, got {t.dtype.name}")
    return 0


cdef int need_routine(Call* c, Tensor t, bint empty) except -1:
    if not has_routine(t.dtype) and (empty or t.total):
        raise NotImplementedError(f"{title(c)}(): not implemented for {t.dtype.name}; use float32, float64, complex64 "
                                  "or complex128")
    return 0


cdef int need_one_dtype(Call* c, Tensor a, Tensor b, str name_a, str name_b) except -1:
    if a.dtype is not b.dtype:
        raise RuntimeError(f"{title(c)}(): {name_a} and {name_b} must have the same dtype, got {a.dtype.name} and "
                           f"{b.dtype.name}")
    return 0


cdef int need_solvable(Call* c, Tensor a, Tensor b, bint left) except -1:
    need_square(c, a, "A")
    need_matrix(c, b, "B")
    if (rows(b) if left else columns(b)) != rows(a):
        raise RuntimeError(f"{title(c)}(): the shapes do not fit {'A X = B' if left else 'X A = B'}: A is "
                           f"{rows(a)} by {columns(a)}, B is {rows(b)} by {columns(b)} (shapes {shape_str(a)} and "
                           f"{shape_str(b)})")
    return 0


cdef int broadcast_batches(Call* c, Tensor a, int drop_a, Tensor b, int drop_b, Layout* to) except -1:
    to.ndim = a.ndim - drop_a
    copy_dims(to.sizes, a.sizes, to.ndim)
    if broadcast_into(to, b.ndim - drop_b, b.sizes):
        raise RuntimeError(f"{title(c)}(): the batch dimensions of shapes {shape_str(a)} and {shape_str(b)} do not "
                           "broadcast")
    return 0


# Results --------------------------------------------------------------------------------

cdef Tensor by_columns(Call* c, int ndim, const dim_t* sizes, DType d):
    cdef dim_t strides[MAX_DIMS]
    row_major(ndim, sizes, strides)
    if ndim >= 2:
        strides[ndim - 1] = max(sizes[ndim - 2], 1)
        strides[ndim - 2] = 1
    return new_strided(ndim, sizes, strides, d, result_device(c))


cdef Tensor by_columns_unless_out(Call* c, int ndim, const dim_t* sizes, DType d):
    cdef Tensor out
    if c.variant == WITH_OUT:
        out = <object>c.out if isinstance(<object>c.out, Tensor) else None
        if out is None or out.total or out.dtype is not d or result_device(c).type != "cpu":
            return new_contiguous(ndim, sizes, d, result_device(c))
    return by_columns(c, ndim, sizes, d)


cdef Tensor new_matrices(Call* c, int nbatch, const dim_t* batch, dim_t rows, dim_t columns, DType d, bint columnwise):
    cdef dim_t sizes[MAX_DIMS + 2]
    if nbatch + 2 > MAX_DIMS:
        raise RuntimeError(f"{title(c)}(): the result would have more than {MAX_DIMS} dimensions")
    copy_dims(sizes, batch, nbatch)
    sizes[nbatch] = rows
    sizes[nbatch + 1] = columns
    if columnwise:
        return by_columns(c, nbatch + 2, sizes, d)
    return new_contiguous(nbatch + 2, sizes, d, result_device(c))


cdef Tensor new_vectors(Call* c, int nbatch, const dim_t* batch, dim_t n, DType d):
    cdef dim_t sizes[MAX_DIMS + 1]
    copy_dims(sizes, batch, nbatch)
    sizes[nbatch] = n
    return new_contiguous(nbatch + 1, sizes, d, result_device(c))


cdef Tensor per_matrix(Call* c, Tensor t, DType d):
    return new_contiguous(t.ndim - 2, t.sizes, d, result_device(c))


cdef Tensor empty_vector(Call* c, DType d):
    cdef dim_t none = 0
    return new_contiguous(1, &none, d, result_device(c))
