from cpython.object cimport PyObject
from metatensor._core.thread cimport ThreadState
from metatensor._core.types cimport dim_t


cdef enum EventKind:
    BIRTH = 1
    RESIZE = 2
    DEATH = 3


cdef struct Event:
    unsigned int storage        # the number of the storage, counted from the first of the log
    unsigned int operator       # that of the operator that ran last in this thread, counted from the first of the log
    long long change            # the number of bytes that it adds, times 4, plus the kind


cdef struct Mark:
    Py_ssize_t event            # from this event on
    int walk                    # 0 outside backward passes, else the number of the backward pass in this log


cdef class Scope:
    """The trackers that are active at one time. A storage that is created then counts in all of them."""
    cdef MemoryTracker tracker
    cdef Scope outer
    cdef ThreadState state          # that of the thread that entered the tracker
    cdef bint plain                 # no tracker wants the temporary tensors of an operator's parts


cdef class MemoryTracker:
    cdef readonly dim_t current, peak
    cdef readonly long long count
    cdef Scope scope                # while the tracker is active, else None
    cdef readonly bint plain        # whether operators that PyTorch computes in several steps count as one
    # the rest is for MemoryLog
    cdef bint writes
    cdef bint incomplete            # whether memory for the log ran out
    cdef Event* log
    cdef Py_ssize_t n_events, room
    cdef readonly long long first_storage, first_operator
    cdef Mark* marks
    cdef Py_ssize_t n_marks, marks_room
    cdef int walks                  # the number of backward passes so far
    cdef object walk                # the backward pass at the last event, or None


cdef class MemoryLog(MemoryTracker):
    cdef int check(self) except -1


cdef Scope born(dim_t nbytes, long long* number)
cdef void happened(PyObject* scope, long long number, dim_t change, int kind) noexcept
cdef Scope pause_tracking()
cdef int resume_tracking(Scope scope) except -1
cdef set_watch(void (*watch)(bint on) noexcept)
