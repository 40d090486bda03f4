"""Helpers for convolution, pooling and resampling: spatial arguments, optional batch dimension, memory formats."""
from metatensor._core.dtype cimport DType
from metatensor._core.op cimport Call
from metatensor._core.tensor cimport Tensor
from metatensor._core.types cimport dim_t


# Kinds of dtype that an op supports, for `need_dtype`.
cdef enum Computable:
    FLOATS = 1
    INTS = 2
    BOOLS = 4
    COMPLEXES = 8
    LONGS = 16      # only int64

# A batch of images with sizes (N, C, spatial...). N is 1 if the tensor has no batch dimension.
cdef struct Image:
    int n                   # spatial dimensions
    bint batched
    dim_t sizes[5]
    dim_t strides[5]

cdef int fail(Call* c, str message) except -1
cdef int fail_slot(Call* c, int slot, str message) except -1
cdef bint on_cpu(Call* c) except -1
cdef int need_dtype(Call* c, Tensor t, int kinds) except -1
cdef int spatial_arg(Call* c, int slot, int n, dim_t* to) except -1
cdef int read_image(Call* c, Tensor t, int n, Image* image) except -1
cdef int image_format(Image* image) except -1
cdef Tensor new_image(Call* c, Image* like, const dim_t* sizes, DType dtype, int memory_format)
cdef str dims_str(int n, const dim_t* values)
