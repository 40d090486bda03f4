"""The followers of modules that `_base` tells about calls."""
from cpython.object cimport PyObject
from metatensor._core.integer_map cimport IntegerMap

cdef int n_followers            # how many there are, in all threads

cdef tuple enter_module(PyObject* module)
cdef int leave_module(tuple followers) except -1


cdef class ModulePaths:
    cdef readonly list paths, roots, modules
    cdef IntegerMap _numbers        # by the ids of modules
    cdef bint add(self, object module, str path) except -1
    cpdef Py_ssize_t number(self, object module) except -1
