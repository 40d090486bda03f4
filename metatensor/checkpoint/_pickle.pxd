from cpython.object cimport PyObject
from metatensor.checkpoint._calls cimport Calls


cdef class Machine(Calls):
    cdef PyObject* maker                # the function whose calls `record` handles, or NULL

    cdef int again(self) except -1
    cdef bint record(self) except -1
    cdef int items(self, Py_ssize_t height) except -1
    cdef int appends(self, Py_ssize_t height) except -1
    cdef int add_items(self, Py_ssize_t height) except -1
    cdef int fill_set(self, object target, Py_ssize_t height) except -1
    cdef int dict_(self, tuple pairs) except -1
    cdef int old_object(self, unsigned char op) except -1
    cdef object run(self)
    cdef int seldom(self, unsigned char op) except -1
    cdef bint is_part(self)
