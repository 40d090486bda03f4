from cpython.object cimport PyObject
from metatensor._core.op cimport Call, Overload


cdef object held_back(object body, PyObject** args, int n)
cdef object counted(Call* c, Overload ov, bint by_others)
