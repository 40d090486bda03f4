from metatensor._core.types cimport dim_t


cdef enum EventKind:
    BIRTH = 1
    RESIZE = 2
    DEATH = 3


cdef struct Event:
    long long storage           # the number of the storage, in the order of births in this process
    dim_t change                # how many bytes more live after it
    long long operator          # the number of the operator that ran last in this thread, see ThreadState.operators
    int kind
    int walk                    # 0 outside backward passes, else the number of the backward pass in this log


cdef class Scope:
    """The trackers that are active at a time. A storage that is born then counts in all of them."""
    cdef MemoryTracker tracker
    cdef Scope outer


cdef class MemoryTracker:
    cdef readonly dim_t current, peak
    cdef readonly long long count
    cdef Scope scope                # while the tracker is active, else None
    # the rest is for MemoryLog
    cdef bint writes
    cdef Event* log
    cdef Py_ssize_t n_events, room
    cdef int walks                  # how many backward passes it has seen
    cdef object walk                # the one that is running, or None


cdef class Life:
    cdef Scope scope                # the trackers that know the storage
    cdef readonly dim_t nbytes
    cdef readonly long long number

    cdef int resize(self, dim_t nbytes) except -1


cdef Life born(dim_t nbytes)
cdef Scope pause_tracking()
cdef int resume_tracking(Scope scope) except -1
