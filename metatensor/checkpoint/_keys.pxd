cdef class Crowd:
    cdef object container               # a dict or a set
    cdef long long mask                 # of its hash table
    cdef Py_ssize_t count               # how many keys it has
    cdef bint linear                    # whether neighbours are tried first, as sets do
    cdef Py_ssize_t* hashes             # of the key in each place
    cdef unsigned char* taken
    cdef Py_ssize_t free                # where the last key that was tried would go
    cdef Py_ssize_t hash                # of that key
    cdef readonly Py_ssize_t alike      # how many keys with its hash were met on the way

    cdef Py_ssize_t steps(self, object key) except -1
    cdef int settle(self) except -1
    cdef int rebuild(self, Py_ssize_t count) except -1
    cdef Py_ssize_t probe(self, Py_ssize_t hash) noexcept


cdef bint is_number(object key) except -1
cdef long long key_cost(object key) except -1
