"""Generators: where random ops get their tickets from."""
from metatensor._core.device cimport Device
from metatensor._core.op cimport Call


cdef class Generator:
    cdef readonly Device device
    cdef unsigned long long key         # the seed, modulo 2**64
    cdef unsigned long long taken       # tickets given out since it was set
    cdef object __weakref__

cdef Generator default

cdef int take_ticket(Call* c, int slot) except -1
