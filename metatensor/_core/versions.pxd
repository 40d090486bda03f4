"""Counters of in-place changes, and which tensors share one."""
from metatensor._core.tensor cimport Tensor, VersionCounter

cdef Tensor detached(Tensor t)                  # shares the storage and the counter of t
cdef Tensor with_own_versions(Tensor t)         # shares the storage of t
cdef Tensor carrying(Tensor t, Tensor source)   # attach the tangents of source to t
cdef VersionCounter own_versions(Tensor t)
