"""Results and checks of reductions over dimensions, for all families that reduce."""
from metatensor._core.device cimport Device
from metatensor._core.dtype cimport DType
from metatensor._core.op cimport Call
from metatensor._core.tensor cimport Tensor
from metatensor._core.types cimport dim_t

# A new contiguous result with the sizes of `t` but without the `chosen` dimensions, which `keepdim` keeps with size 1.
cdef Tensor reduced(Tensor t, const bint* chosen, bint keepdim, DType dtype, Device device)
# The same for one dimension, or for all dimensions if `dim` is -1.
cdef Tensor reduced_dim(Tensor t, int dim, bint keepdim, DType dtype, Device device)
# The dtype of a sum: `dtype=` if given, else that of out= or of the in-place target, else int64 for integers and bool.
cdef DType sum_dtype(Call* c, int slot, Tensor t)
# Raise IndexError if dimension `dim` is empty, for reductions without an identity.
cdef int require_nonempty(Call* c, Tensor t, int dim) except -1
# The same for several dimensions. If the call named none (`named` is 0), raise RuntimeError for an empty tensor.
cdef int require_some(Call* c, Tensor t, int named, const bint* chosen) except -1
cdef int require_real(Call* c, Tensor t) except -1
cdef int require_floating(Call* c, DType dtype) except -1
