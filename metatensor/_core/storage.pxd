from metatensor._core.device cimport Device
from metatensor._core.types cimport dim_t


cdef class Storage:
    cdef dim_t size_bytes
    cdef readonly Device device
    cdef readonly object data                # the backend's handle, or None
    cdef object token               # tells a memory tracker of the end, or None
    cdef unsigned long long version  # counts every mutation
    cdef unsigned long long uncounted  # those of them that the tensors' default version does not count
    cdef bint fake                  # names a real device but has no data on purpose
    cdef object recipe              # the Ghost that says how its bytes come about, or None

cdef Storage new_storage(Device device, dim_t nbytes)
cdef int resize_storage(Storage s, dim_t nbytes) except -1


cdef inline bint has_values(Storage s):
    """Whether its bytes are there, or can be computed."""
    return s.data is not None or s.recipe is not None
