from metatensor._core.op cimport Call, Overload
from metatensor._core.tensor cimport Tensor

cdef list names_of(Overload ov)
cdef list tensors_in(Call* c, Overload ov)
cdef list flat(object result)
cdef bint same_sizes(Tensor a, Tensor b) noexcept
cdef int copy_values(Tensor target, Tensor source) except -1
cdef object compute(Call* c, Overload ov, object result)
cdef object compute_values(Call* c, Overload ov, object result)
