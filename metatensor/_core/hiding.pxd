from metatensor._core.recording cimport Ghost, Step

cdef int hide(object o) except -1
cdef int show_all(object start) except -1
cdef int settle(Step step, Ghost own, bint fresh) except -1
