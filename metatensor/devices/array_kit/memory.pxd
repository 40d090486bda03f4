cdef class Ledger:
    cdef long long total        # bytes ever allocated
    cdef long long freed        # bytes of those that are gone
    cdef long long peak         # the most bytes at one time
    cdef long long count        # allocations ever made
    cdef long long freed_count  # of those, the ones that are gone
    cdef long long peak_count   # the most at one time
    cdef set live               # weak references to arrays that brought their own memory

    cdef int add(self, long long nbytes) except -1
    cdef void remove(self, long long nbytes) noexcept


cdef class Block:
    cdef char* start
    cdef readonly Py_ssize_t nbytes
    cdef Ledger ledger          # where its end is counted
    cdef size_t room            # bytes of the map that it has from the system; 0 where it is malloc's
    cdef bint zero              # straight from the system, which clears it
    cdef bint touched           # somebody was given the address
