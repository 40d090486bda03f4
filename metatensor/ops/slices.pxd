"""Views of parts of a tensor, for other families."""
from metatensor._core.tensor cimport Tensor
from metatensor._core.types cimport dim_t

cdef Tensor part(Tensor t, int d, dim_t start, dim_t length)
cdef Tensor selected(Tensor t, int d, dim_t index)
cdef Tensor diagonal_view(Tensor t, dim_t offset, int d1, int d2)
