"""Checks of index tensors, shared with the ops that write to indexed elements."""
from metatensor._core.op cimport Call
from metatensor._core.tensor cimport Tensor
from metatensor._core.types cimport dim_t

cdef int check_long(Call* c, Tensor index, bint int32_too) except -1
cdef int check_gather(Call* c, Tensor t, Tensor index, int d) except -1
cdef int look_up(Call* c, Tensor table, Tensor index) except -1
cdef int check_out(Call* c, Tensor t, dim_t total) except -1
