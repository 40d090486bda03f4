"""A hash table from 64-bit integers, such as addresses, to indices. Unlike a dict, it makes no objects."""
from libc.stdlib cimport calloc, free


cdef struct Entry:
    long long key               # 0 if the entry is free
    Py_ssize_t value


cdef struct IntegerMap:
    Entry* entries
    Py_ssize_t room             # a power of two, or 0
    Py_ssize_t count


cdef inline Py_ssize_t _place(IntegerMap* map, long long key) noexcept nogil:
    """Return the place of a key, or the free one where it belongs."""
    cdef unsigned long long mixed = <unsigned long long>key * 0x9E3779B97F4A7C15ULL
    cdef Py_ssize_t at = <Py_ssize_t>(mixed >> 32) & (map.room - 1)
    while map.entries[at].key != 0 and map.entries[at].key != key:
        at = (at + 1) & (map.room - 1)
    return at


cdef inline Py_ssize_t map_get(IntegerMap* map, long long key) noexcept nogil:
    """Return the value of a key other than 0, or -1."""
    cdef Entry* entry
    if map.count == 0:
        return -1
    entry = &map.entries[_place(map, key)]
    return entry.value if entry.key == key else -1


cdef inline int map_grow(IntegerMap* map) except -1:
    cdef IntegerMap larger
    cdef Py_ssize_t i
    larger.room, larger.count = map.room * 4 if map.room else 256, map.count
    larger.entries = <Entry*>calloc(larger.room, sizeof(Entry))
    if larger.entries == NULL:
        raise MemoryError()
    for i in range(map.room):
        if map.entries[i].key != 0:
            larger.entries[_place(&larger, map.entries[i].key)] = map.entries[i]
    free(map.entries)
    map[0] = larger
    return 0


cdef inline int map_set(IntegerMap* map, long long key, Py_ssize_t value) except -1:
    """Set the value of a key other than 0. A value of -1 removes it."""
    cdef Py_ssize_t at
    if map.count * 3 >= map.room * 2:
        map_grow(map)
    at = _place(map, key)
    if map.entries[at].key == 0:
        map.entries[at].key = key
        map.count += 1
    map.entries[at].value = value
    return 0


cdef inline void map_free(IntegerMap* map) noexcept:
    free(map.entries)
    map.entries, map.room, map.count = NULL, 0, 0
