from cpython.object cimport PyObject


cdef struct Place:
    PyObject* op                # these two are owned
    PyObject* code              # the innermost frame of user code, or NULL
    int instruction
    int module                  # a number that the user of the Attribution gives


cdef class Attribution:
    cdef Place* places
    cdef Py_ssize_t n, room
    cdef readonly long long first       # the number of the first operator
    cdef public int module              # that of the operators from now on
    cdef object outer

    cdef int note(self, PyObject* op) except -1
