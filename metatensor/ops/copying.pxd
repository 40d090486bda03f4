"""A check of memory formats, for the other op families."""
from metatensor._core.op cimport Call
from metatensor._core.tensor cimport Tensor

cdef bint in_format(Call* c, Tensor t, int memory_format) except -1
