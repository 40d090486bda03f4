"""Layouts: sizes, strides and offsets as plain values, independent of tensors, dtypes and devices."""
from metatensor._core.types cimport MAX_DIMS, dim_t


cdef struct Layout:
    int ndim
    dim_t offset                # in elements
    dim_t sizes[MAX_DIMS]
    dim_t strides[MAX_DIMS]     # in elements


cdef extern from *:
    """
    #ifdef _MSC_VER
    #include <intrin.h>
    static __inline int mt_mul_overflow(long long a, long long b, long long *r) {
        *r = (long long)((unsigned long long)a * (unsigned long long)b);
        return __mulh(a, b) != (*r >> 63);
    }
    static __inline int mt_add_overflow(long long a, long long b, long long *r) {
        *r = (long long)((unsigned long long)a + (unsigned long long)b);
        return ((a ^ *r) & (b ^ *r)) < 0;
    }
    #define MT_MUL_OVERFLOW(a, b, r) mt_mul_overflow((a), (b), (long long *)(r))
    #define MT_ADD_OVERFLOW(a, b, r) mt_add_overflow((a), (b), (long long *)(r))
    #else
    #define MT_MUL_OVERFLOW(a, b, r) __builtin_mul_overflow((long long)(a), (long long)(b), (long long *)(r))
    #define MT_ADD_OVERFLOW(a, b, r) __builtin_add_overflow((long long)(a), (long long)(b), (long long *)(r))
    #endif
    """
    bint MT_MUL_OVERFLOW(dim_t a, dim_t b, dim_t* r) noexcept
    bint MT_ADD_OVERFLOW(dim_t a, dim_t b, dim_t* r) noexcept


cdef int size_overflow(dim_t a, dim_t b, str sign) except -1

cdef inline dim_t mul_dims(dim_t a, dim_t b) except? -1:
    """Return a * b. Raise RuntimeError if it exceeds 63 bits."""
    cdef dim_t r
    if MT_MUL_OVERFLOW(a, b, &r):
        size_overflow(a, b, "*")
    return r

cdef inline dim_t add_dims(dim_t a, dim_t b) except? -1:
    cdef dim_t r
    if MT_ADD_OVERFLOW(a, b, &r):
        size_overflow(a, b, "+")
    return r

cdef inline bint dims_equal(const dim_t* a, const dim_t* b, int n) noexcept nogil:
    cdef int i
    for i in range(n):
        if a[i] != b[i]:
            return False
    return True

cdef inline void copy_dims(dim_t* to, const dim_t* source, int n) noexcept nogil:
    cdef int i
    for i in range(n):
        to[i] = source[i]

cdef inline bint is_row_major(int ndim, const dim_t* sizes, const dim_t* strides) noexcept nogil:
    """Return True if the layout is contiguous.

    The strides of dimensions of size 1 and of empty tensors do not matter.
    """
    cdef dim_t expected = 1
    cdef int i
    for i in range(ndim):
        if sizes[i] == 0:
            return True
    for i in range(ndim - 1, -1, -1):
        if sizes[i] != 1:
            if strides[i] != expected:
                return False
            expected *= sizes[i]
    return True

cdef dim_t checked_count(int ndim, const dim_t* sizes) except -1

cdef inline dim_t count(int ndim, const dim_t* sizes) except -1:
    """Return the number of elements. Raise RuntimeError for a negative size, or if the number exceeds 63 bits."""
    cdef dim_t n = 1
    cdef int i
    for i in range(ndim):
        if sizes[i] <= 0 or MT_MUL_OVERFLOW(n, sizes[i], &n):
            return checked_count(ndim, sizes)
    return n

cdef inline int row_major(int ndim, const dim_t* sizes, dim_t* strides) except -1:
    """Write contiguous strides to `strides`. A dimension of size 0 counts as 1."""
    cdef dim_t step = 1
    cdef int i
    for i in range(ndim - 1, -1, -1):
        strides[i] = step
        if sizes[i] > 1:
            step = mul_dims(step, sizes[i])
    return 0

cdef int set_format(int ndim, const dim_t* sizes, dim_t* strides, int memory_format) except -1
cdef bint is_channels_last(int ndim, const dim_t* sizes, const dim_t* strides) noexcept nogil
cdef bint is_channels_last_strides(int ndim, const dim_t* sizes, const dim_t* strides) noexcept nogil
cdef int suggest_format(int ndim, const dim_t* sizes, const dim_t* strides) noexcept nogil
cdef bint is_dense(int ndim, const dim_t* sizes, const dim_t* strides) noexcept nogil
cdef int preserve_strides(int ndim, const dim_t* sizes, const dim_t* strides, dim_t* out) except -1
cdef dim_t extent(int ndim, const dim_t* sizes, const dim_t* strides) except? -1
cdef int broadcast_into(Layout* to, int ndim, const dim_t* sizes) except -1
cdef bint can_broadcast(int ndim, const dim_t* sizes, int to_ndim, const dim_t* to_sizes) noexcept nogil
cdef int view_strides(int ndim, const dim_t* sizes, const dim_t* strides,
                      int new_ndim, const dim_t* new_sizes, dim_t* new_strides) except -1
cdef int infer_size(int ndim, dim_t* sizes, dim_t total) except -1
cdef int elementwise_strides(int n, const int* ndims, const dim_t** sizes, const dim_t** strides,
                             Layout* out) except -1
cdef int overlap(int ndim, const dim_t* sizes, const dim_t* strides) noexcept nogil
