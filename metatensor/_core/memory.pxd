from metatensor._core.types cimport dim_t


cdef class MemoryTracker:
    cdef readonly dim_t current, peak
    cdef readonly long long count
    cdef MemoryTracker outer
    cdef bint entered

    cdef int happened(self, Life life, dim_t change) noexcept


cdef class Life:
    cdef MemoryTracker tracker
    cdef Life next                  # the `Life` of the same storage in an enclosing tracker, or None
    cdef readonly dim_t nbytes

    cdef int resize(self, dim_t nbytes) except -1


cdef Life born(dim_t nbytes)
cdef MemoryTracker pause_tracking()
cdef int resume_tracking(MemoryTracker tracker) except -1
