from cpython.object cimport PyObject


cdef struct Place:
    PyObject* op                # these two are owned
    PyObject* code              # the innermost frame of user code, or NULL
    int instruction
    int module                  # a number that the user of the Attribution gives
    bint by_engine              # whether the backward pass called it, not code that runs during the pass
    bint moved                  # whether the module has changed since the backward pass began to visit the node
    unsigned long long sequence     # that of the latest node of the autograd graph when it was called
    unsigned long long node         # the sequence number of the node that the backward pass was visiting, or 0


# `engine` sets the pointer to the sequence number of the latest node.
cdef struct Sequences:
    unsigned long long* last

cdef Sequences sequences


cdef class Attribution:
    cdef Place* places
    cdef Py_ssize_t n, room
    cdef readonly long long first       # the number of the first operator
    cdef public int module              # that of the operators from now on
    cdef int module_before              # that when the visit of the node began
    cdef readonly list collectives      # pairs: the numbers of the first and the last operator of a collective
    cdef readonly dict categories       # the number of a storage -> its category, where `categorize` set one
    cdef object outer
    cdef unsigned long long visiting    # the sequence number of the node that the backward pass visits, or 0
    cdef PyObject* caller               # the frame of user code that called the backward pass; borrowed
    cdef void* caller_raw               # the interpreter's own frame of it, or NULL

    cdef int note(self, PyObject* op) except -1
    cdef PyObject* user_frame(self) except? NULL
    cdef Py_ssize_t origin(self, Py_ssize_t i) noexcept

cdef void* raw_user_frame() noexcept
