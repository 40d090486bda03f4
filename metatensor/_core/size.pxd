from metatensor._core.types cimport dim_t

cdef object make_size(int ndim, const dim_t* values)      # a Size
cdef object make_tuple(int ndim, const dim_t* values)

cdef int observers      # nonzero while somebody follows the sizes that are read
cdef object observed(object tensor, object numbers, bint stride)
