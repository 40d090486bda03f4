from metatensor._core.op cimport Call
from metatensor._core.thread cimport ThreadState

# Where a mode stands in the stack, whenever it is entered: functions are overridden first, operators last.
cdef enum Rank:
    OPERATORS, CASTS, FUNCTIONS

cdef class Mode:
    cdef readonly int rank
    cdef object handle(self, Call* c)
    cdef int place(self, ThreadState state) except -1
    cdef bint sees(self, Call* c) except -1     # of an op that is made of other ops: whole, or its parts

cdef object run_modes(Call* c)
cdef bint intercepts() except -1
cdef object intercept(object func, object values, tuple args, dict kwargs)
