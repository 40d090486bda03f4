cdef struct Entry:
    long long header                    # offset of its local header
    long long limit                     # offset of the next member's header, or of the directory
    long long packed                    # size in the file in bytes
    long long size                      # size of its content in bytes
    unsigned int crc
    unsigned short method               # 0 stored, 8 deflated
    unsigned short flags
    unsigned short taken                # whether `find_next` has returned it
    unsigned short name_length
    const unsigned char* name           # in the directory's bytes


cdef class Directory:
    cdef readonly object source         # the Source it was read from
    cdef readonly str file
    cdef readonly dict index            # name -> its number
    cdef readonly Py_ssize_t start      # offset of the directory
    cdef Entry* entries
    cdef Py_ssize_t count
    cdef bytes data                     # bytes of the central directory
    cdef Py_ssize_t hint                # the member that `find_next` tries first

    cdef object wrong(self, long long at, str reason)
    cdef Py_ssize_t find(self, str name) except -2
    cdef Py_ssize_t find_next(self, str prefix, str key) except -2
    cdef void forget(self) noexcept
    cdef Py_ssize_t find_end(self, bytes tail) except -2
    cdef int read_end(self, bytes tail, long long base, Py_ssize_t at, long long* count, long long* size, long long* start) except -1
    cdef int fill(self, bytes data, long long start, long long count, long long size) except -1
    cdef int read_entry(self, Entry* e, const unsigned char* p, long long at, str name) except -1
    cdef int check_places(self, long long start, bint ordered) except -1
