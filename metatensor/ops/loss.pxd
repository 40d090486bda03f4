"""Helpers for losses: reading the reduction, and allocating the result."""
from metatensor._core.dtype cimport DType
from metatensor._core.op cimport Call
from metatensor._core.tensor cimport Tensor
from metatensor.ops.pointwise cimport Operands

cdef enum Reduction:
    R_NONE, R_MEAN, R_SUM, R_BATCHMEAN

cdef int reduction_arg(Call* c, int slot, bint batchmean=*) except -1
cdef int legacy_reduction(Call* c, int average_slot, int reduce_slot, int slot, bint batchmean=*) except -1
cdef Tensor scalar_result(Call* c, DType dtype, int reduction)
cdef Tensor reduced_loss(Call* c, Operands* o, DType dtype, int reduction)
cdef int check_weight(Call* c, int slot, Tensor like) except -1
