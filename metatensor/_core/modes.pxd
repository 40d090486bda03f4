from metatensor._core.op cimport Call

cdef class Mode:
    cdef object handle(self, Call* c)

cdef object run_modes(Call* c)
cdef tuple python_call(Call* c)
