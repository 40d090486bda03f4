cdef class HashTableModel:
    cdef object container               # a dict or a set
    cdef long long mask                 # size of its hash table minus one
    cdef Py_ssize_t count               # number of keys
    cdef bint linear                    # whether probing tries adjacent slots first, as in sets
    cdef Py_ssize_t* hashes             # hash of the key in each slot
    cdef unsigned char* taken           # whether a slot is in use
    cdef Py_ssize_t free                # free slot at which the last probe ended
    cdef Py_ssize_t hash                # hash of the last probe
    cdef readonly Py_ssize_t alike      # number of keys with the same hash that the last probe passed

    cdef Py_ssize_t steps(self, object key) except -1
    cdef int note_inserted(self) except -1
    cdef int rebuild(self, Py_ssize_t count) except -1
    cdef Py_ssize_t probe(self, Py_ssize_t hash) noexcept


cdef bint is_number(object key) except -1
cdef long long key_cost(object key) except -1
