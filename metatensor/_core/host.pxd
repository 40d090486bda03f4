"""Conversion between nested lists of Python numbers and the bytes of a dtype."""
from metatensor._core.dtype cimport DType
from metatensor._core.types cimport dim_t

cdef bint is_sequence(object value) except -1
cdef int measure(object data, dim_t* sizes) except -1
cdef DType infer_dtype(object data)
cdef object encode(object data, int ndim, const dim_t* sizes, DType dtype)
cdef int write_number(char* to, DType dtype, object value) except -1
cdef object read_number(const char* source, DType dtype)
cdef object decode(const char* source, DType dtype, int ndim, const dim_t* sizes)
