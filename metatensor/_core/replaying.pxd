from metatensor._core.op cimport Call, Overload

cdef bint resolve_arguments(Call* c, Overload ov) except -1
