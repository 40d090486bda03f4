"""Checks and results that batch_norm and its backward half share."""
from metatensor._core.op cimport Call
from metatensor._core.tensor cimport Tensor
from metatensor._core.types cimport dim_t

cdef int check_batch_norm(Call* c, Tensor t, int mean, int weight) except -1
cdef Tensor normalized_like(Call* c, Tensor t)
cdef dim_t channels_of(Tensor t)
