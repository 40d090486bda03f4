cdef object running_code(int* lasti)
cdef int line_of(object code, int lasti) except -2
