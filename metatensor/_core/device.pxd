cdef class Device:
    cdef readonly str type      # "cuda"
    cdef int number             # index, or -1 where none was given
    cdef int kind               # id of the type in this process; 0 is meta
    cdef list _saved            # outer default devices of `with` blocks

cdef Device META
cdef Device as_device(object spec)
cdef Device place_of(object spec)
cdef Device default_device()
cdef Device explicit_default()
cdef object backend_of(Device device)
cdef Device cpu_device()
