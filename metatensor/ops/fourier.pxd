"""Checks of the arguments of Fourier transforms."""
from metatensor._core.dtype cimport DType
from metatensor._core.op cimport Call
from metatensor._core.types cimport dim_t

cdef int transform_dim(Call* c, dim_t d, int ndim) except -1
cdef int need_precision(Call* c, DType real) except -1
