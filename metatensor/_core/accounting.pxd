from metatensor._core.op cimport Call, Overload


cdef object counted(Call* c, Overload ov, bint by_others)
