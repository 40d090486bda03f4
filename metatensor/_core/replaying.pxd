from metatensor._core.op cimport Call, Overload

cdef int resolve_arguments(Call* c, Overload ov) except -1
