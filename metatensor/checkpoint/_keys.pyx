"""The cost of dict and set keys in a pickle: hashing, comparing, and probing the hash table.

A file cannot choose the hashes of str and bytes. With keys of other types it can make every lookup probe all existing
keys. A `HashTableModel` simulates the container's hash table, so that the steps of a lookup can be charged before they happen.
"""
from cpython.mem cimport PyMem_Calloc, PyMem_Free

cdef extern from "Python.h":
    long long as_long_long "PyLong_AsLongLongAndOverflow"(object n, int* overflow) except? -1

MAX_KEY = 256
"""Largest number of items of a tuple or frozenset that is a key, including nested items."""
MAX_KEY_BITS = 4096

cdef enum:
    NEIGHBOURS = 9                      # slots that a set probes linearly before it jumps


class NoKey(Exception):
    """The reason why a value cannot be a key."""


cdef bint is_number(object key) except -1:
    """Return True if a key is a bool, a float, an integer of at most 64 bits, or None."""
    cdef int overflow = 0
    if type(key) is int:
        as_long_long(key, &overflow)
        return not overflow
    return type(key) is bool or type(key) is float or key is None


cdef long long key_cost(object key) except -1:
    """Return the cost of hashing or comparing a key, in bytes. Raise `NoKey` if it is unhashable or too large."""
    cdef long long cost = 0
    cdef int left = MAX_KEY
    cdef list waiting
    cdef object item
    if type(key) is tuple and len(<tuple>key) <= 8:
        for item in <tuple>key:
            if not (is_number(item) or type(item) is str and len(<str>item) <= 64):
                break
        else:
            return 32 + 32 * len(<tuple>key)
    waiting = [key]
    while waiting:
        item = waiting.pop()
        cost += 32
        if isinstance(item, (tuple, frozenset)):
            left -= <int>min(len(item), 10000) + 1
            if left < 0:
                raise NoKey(f"it has more than {MAX_KEY} items")
            if isinstance(item, frozenset):
                cost += 16 * len(item) * len(item)      # the worst case: all items collide
            waiting.extend(item)
        elif isinstance(item, (str, bytes)):
            cost += len(item)
        elif isinstance(item, int):
            if item.bit_length() > MAX_KEY_BITS:
                raise NoKey(f"an integer has more than {MAX_KEY_BITS:,} bits")
            cost += item.bit_length() >> 3
        elif isinstance(item, (range, slice)):
            waiting.extend((item.start, item.stop, item.step))
            left -= 3
            if left < 0:
                raise NoKey(f"it has more than {MAX_KEY} items")
        elif isinstance(item, (list, dict, set, bytearray)):
            raise NoKey(f"a {type(item).__name__} cannot be hashed")
    return cost


cdef class HashTableModel:
    """A model of a dict's or set's hash table that counts the steps of lookups."""

    def __init__(self, container not None):
        self.container = container
        self.linear = isinstance(container, set)
        self.rebuild(len(container))

    def __dealloc__(self):
        PyMem_Free(self.hashes)
        PyMem_Free(self.taken)

    cdef int rebuild(self, Py_ssize_t count) except -1:
        """Insert all keys into a table of the smallest size that the container may have with ``count`` keys."""
        cdef long long size = 8
        if self.linear:
            while 3 * (size - 1) <= 5 * count:
                size *= 2
        else:
            while 2 * size // 3 < count:
                size *= 2
        PyMem_Free(self.hashes)
        PyMem_Free(self.taken)
        self.hashes = <Py_ssize_t*>PyMem_Calloc(size, sizeof(Py_ssize_t))
        self.taken = <unsigned char*>PyMem_Calloc(size, 1)
        if not self.hashes or not self.taken:
            raise MemoryError
        self.mask = size - 1
        self.count = 0
        for key in self.container:
            self.probe(hash(key))
            self.hashes[self.free] = self.hash
            self.taken[self.free] = True
            self.count += 1
        return 0

    cdef Py_ssize_t probe(self, Py_ssize_t hash) noexcept:
        """Follow the probe sequence of a hash to a free slot, and return the number of occupied slots on the way."""
        cdef size_t perturb = <size_t>hash
        cdef size_t mask = <size_t>self.mask
        cdef size_t i = perturb & mask, k
        cdef Py_ssize_t steps = 0
        self.hash = hash
        self.alike = 0
        while True:
            for k in range(i, i + 1 + (NEIGHBOURS if self.linear and i + NEIGHBOURS <= mask else 0)):
                if not self.taken[k]:
                    self.free = k
                    return steps
                steps += 1
                self.alike += self.hashes[k] == hash
            perturb >>= 5
            i = (i * 5 + perturb + 1) & mask

    cdef Py_ssize_t steps(self, object key) except -1:
        """Return an upper bound on the steps needed to find ``key`` or its free slot in the container."""
        return self.probe(hash(key))

    cdef int note_inserted(self) except -1:
        """Record that the key probed last has been inserted into the container."""
        if len(self.container) == self.count:
            return 0                        # the key was already present
        if len(self.container) != self.count + 1 or (
                3 * self.mask <= 5 * (self.count + 1) if self.linear else 2 * (self.mask + 1) // 3 < self.count + 1):
            return self.rebuild(len(self.container))
        self.hashes[self.free] = self.hash
        self.taken[self.free] = True
        self.count += 1
        return 0
