from metatensor._core.op cimport Call

cdef class Mode:
    cdef object handle(self, Call* c)
    cdef bint sees(self, Call* c) except -1     # of an op that is made of other ops: whole, or its parts

cdef object run_modes(Call* c)
cdef tuple python_call(Call* c)
