from cpython.object cimport PyObject
from metatensor._core.op cimport Call, Overload


cdef object formula(object body, PyObject** args, int n, Overload ov, int slot)
cdef object counted(Call* c, Overload ov, bint by_others)
