cdef class Ledger:
    cdef long long total        # bytes allocated so far
    cdef long long freed        # bytes freed so far
    cdef long long peak         # most bytes in use at one time
    cdef long long count        # number of allocations so far
    cdef long long freed_count  # number of allocations freed so far
    cdef long long peak_count   # most allocations at one time
    cdef set live               # weak references to the tracked arrays

    cdef int add(self, long long nbytes) except -1
    cdef void remove(self, long long nbytes) noexcept


cdef class Block:
    cdef char* start
    cdef readonly Py_ssize_t nbytes
    cdef Ledger ledger          # counts this block
    cdef size_t room            # size of the mapping; 0 for a block from malloc
    cdef bint zero              # mapped by the system, which clears it
    cdef bint touched           # the address has been handed out
