from cpython.object cimport PyObject
from metatensor._core.op cimport Call, Overload

cdef object chosen_policy()
cdef bint sums_in_place() except -1
cdef object formula(object body, PyObject** args, int n, Overload ov, int slot)
cdef object counted(Call* c, Overload ov, bint by_others)
