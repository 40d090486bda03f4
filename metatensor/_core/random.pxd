"""Random number generators. A generator numbers the random ops that use it."""
from metatensor._core.device cimport Device
from metatensor._core.op cimport Call


cdef class Generator:
    cdef readonly Device device
    cdef unsigned long long key         # seed modulo 2**64
    cdef unsigned long long taken       # number of tickets taken since seeding
    cdef long long serial               # how many generators there were before it
    cdef object __weakref__

cdef Generator default

cdef long long generators_made() noexcept

cdef int take_ticket(Call* c, int slot) except -1
