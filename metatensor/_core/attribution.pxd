from cpython.object cimport PyObject


cdef struct Place:
    PyObject* op                # these two are owned
    PyObject* code              # the innermost frame of user code, or NULL
    int instruction
    int module                  # a number that the user of the Attribution gives
    unsigned long long node     # the sequence number of the node that a backward pass ran, or 0


cdef struct Change:
    unsigned long long sequence     # from nodes with this sequence number on
    int module


cdef class Attribution:
    cdef Place* places
    cdef Py_ssize_t n, room
    cdef readonly long long first       # the number of the first operator
    cdef int at                         # the module of the operators from now on
    cdef unsigned long long node        # the sequence number of the node that a backward pass is running, or 0
    cdef int at_node                    # the module when that node began
    cdef Change* changes
    cdef Py_ssize_t n_changes, changes_room
    cdef readonly list collectives      # pairs: the numbers of the first and the last operator of a collective
    cdef object outer

    cdef int note(self, PyObject* op) except -1
    cdef int module_of(self, unsigned long long node) noexcept

cdef unsigned long long enter_node(Attribution notes, unsigned long long sequence) noexcept
