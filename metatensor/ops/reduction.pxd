"""Reductions over dimensions: what families that also reduce may use."""
from metatensor._core.device cimport Device
from metatensor._core.dtype cimport DType
from metatensor._core.op cimport Call
from metatensor._core.tensor cimport Tensor
from metatensor._core.types cimport dim_t

# A fresh contiguous result of `t` without the `chosen` dimensions (as size 1 with `keepdim`).
cdef Tensor reduced(Tensor t, const bint* chosen, bint keepdim, DType dtype, Device device)
# The same for one dimension, or for all where `dim` is -1.
cdef Tensor reduced_dim(Tensor t, int dim, bint keepdim, DType dtype, Device device)
# dtype of a sum: what `dtype=` says, else that of out= or of the tensor written to, else int64 for integers.
cdef DType sum_dtype(Call* c, int slot, Tensor t)
# IndexError where the named dimension is empty: what has no identity cannot be computed over nothing.
cdef int require_nonempty(Call* c, Tensor t, int dim) except -1
# The same for several; where `named` says that none was named, RuntimeError for an empty tensor.
cdef int require_some(Call* c, Tensor t, int named, const bint* chosen) except -1
cdef int require_real(Call* c, Tensor t) except -1
cdef int require_floating(Call* c, DType dtype) except -1
