from metatensor._core.op cimport Call
from metatensor._core.thread cimport ThreadState

# The stack is sorted by rank, whatever the order of entering: function modes run first, operator modes last.
cdef enum Rank:
    OPERATORS, REPLACEMENTS, CASTS, FUNCTIONS

cdef class Mode:
    cdef readonly int rank
    cdef bint takes_parts           # of a call whose gradient is that of other operators, the mode receives these
    cdef object handle(self, Call* c)
    cdef int position(self, ThreadState state) except -1
    cdef bint sees(self, Call* c) except -1     # whether the mode receives a composite op, not the ops in its body

cdef object run_modes(Call* c)
cdef bint intercepts() except -1
cdef bint python_modes() except -1
cdef object intercept(object func, object values, tuple args, dict kwargs)
