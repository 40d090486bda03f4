cdef class Device:
    cdef readonly str type      # "cuda"
    cdef int number             # index, or -1 if there is none
    cdef int kind               # id of the device type in this process; 0 is meta
    cdef list _saved            # (thread state, previous default device) for each open `with` block

cdef Device META
cdef Device as_device(object spec)
cpdef Device concrete_device(object spec)
cdef Device default_device()
cdef Device explicit_default()
cdef bint keeps_constants() except -1
cdef object backend_of(Device device)
cdef Device cpu_device()
