"""Recording of operator calls."""
from metatensor._core.graph cimport Node
from metatensor._core.op cimport Call, Overload

cdef enum Way:
    AS_IT_IS, BY_OTHERS, AS_UNIT

cdef Way way_of(Call* c, Overload ov) except *
cdef object by_others(Call* c, Overload ov)
cdef object recorded_directly(Call* c, Overload ov)
cpdef object renamed(object t, str name)
cdef Node begin(Call* c, Overload ov)                           # before an operator writes to its arguments
cdef int record(Call* c, Overload ov, object result) except -1  # after a call without writes
cdef int record_write(Call* c, Overload ov, Node node, object target) except -1
