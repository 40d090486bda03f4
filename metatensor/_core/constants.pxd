"""Values of small tensors on meta that are made of constants."""
from metatensor._core.op cimport Call
from metatensor._core.tensor cimport Tensor

cdef int set_kernel(object (*kernel)(Call* c)) except -1
cdef object run_constants(Call* c)
cdef int note_bytes(Tensor t, object data) except -1
