"""Functions that reorder dimensions, for the other op families."""
from metatensor._core.tensor cimport Tensor

cdef Tensor permuted(Tensor t, const int* order)
cdef Tensor swapped(Tensor t, int a, int b)
