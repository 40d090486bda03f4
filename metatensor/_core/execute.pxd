from metatensor._core.op cimport Call, Overload
from metatensor._core.tensor cimport Tensor
from metatensor._core.types cimport dim_t

cdef object compute_values(Call* c, Overload ov, object result)
cdef object finish(Call* c, object result)
cdef object python_meta(Call* c)
cdef int resolve_device(Call* c) except -1
cdef int resize_tensor(Tensor t, int ndim, const dim_t* sizes, const dim_t* strides) except -1
