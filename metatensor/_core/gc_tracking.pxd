from metatensor._core.recording cimport Recipe, Step

cdef int untrack(object o) except -1
cdef int track_all(object start) except -1
cdef int set_tracking(Step step, Recipe own, bint fresh) except -1
