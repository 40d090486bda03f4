"""Counters of in-place changes: which tensors share one."""
from metatensor._core.tensor cimport Tensor, VersionCounter

cdef Tensor detached(Tensor t)                  # over the same memory, with the same counter
cdef VersionCounter own_versions(Tensor t)
