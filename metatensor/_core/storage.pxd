from metatensor._core.device cimport Device
from metatensor._core.memory cimport Scope
from metatensor._core.types cimport dim_t


cdef class Storage:
    cdef dim_t size_bytes
    cdef readonly Device device
    cdef readonly object data                # the backend's handle, or None
    cdef Scope scope                # the memory trackers that count the storage, or None
    cdef long long number           # its number there; without trackers, if another thread had some: minus the number of the last capture
    cdef dim_t counted              # the bytes that they count
    cdef unsigned long long version  # number of mutations
    cdef unsigned long long uncounted  # mutations that `_version` of its tensors does not count
    cdef bint fake                  # deliberately without data, on a device other than meta
    cdef object recipe              # the Recipe whose steps compute the bytes; the Known of a constant on meta; or None
    cdef unsigned long long known   # 1 + the version of which `recipe` is the Known; 0 if it is none

cdef Storage new_storage(Device device, dim_t nbytes)
cdef int count_storage(Storage s) except -1
cdef long long next_capture() noexcept
cdef int resize_storage(Storage s, dim_t nbytes) except -1


cdef inline bint recorded(Storage s):
    """Return True if the storage has a Recipe."""
    return s.recipe is not None and s.known == 0


cdef inline bint has_record(Storage s):
    """Return True if the storage has data or a Recipe."""
    return s.data is not None or recorded(s)


cdef inline bint is_known(Storage s):
    """Return True if the storage is on meta and its values follow from constants. A write makes them unknown, unless it is noted."""
    return s.known == s.version + 1


cdef inline bint has_values(Storage s):
    """Return True if the storage has data, a recipe for them, or values that follow from constants."""
    return s.data is not None or recorded(s) or is_known(s)
