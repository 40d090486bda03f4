"""Checks and results that normalization layers share."""
from metatensor._core.device cimport Device
from metatensor._core.dtype cimport DType
from metatensor._core.op cimport Call
from metatensor._core.tensor cimport Tensor

cdef int need_real_float(Call* c, Tensor t) except -1           # raises NotImplementedError for other inputs
cdef int check_parameter(Call* c, Tensor t, Tensor p, str name) except -1
cdef Tensor in_format(Call* c, Tensor t)                        # new, dense, in the memory format of `t`
cdef DType statistics_dtype(Call* c, Tensor t, int weight_slot, int n=?)

cdef inline bint is_cpu(Device d) noexcept:
    return d.type == "cpu"
