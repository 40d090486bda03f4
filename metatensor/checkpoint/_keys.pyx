"""What the keys of a pickle cost: hashing and comparing one, and finding its place among others.

Only texts and bytes have hashes that a file cannot choose. With other keys a file can make each search walk through all keys
that are there. A `Crowd` follows the search through a model of the container's hash table, so that its steps can be charged
before the container takes them.
"""
from cpython.mem cimport PyMem_Calloc, PyMem_Free

cdef extern from "Python.h":
    long long as_long_long "PyLong_AsLongLongAndOverflow"(object n, int* overflow) except? -1

MAX_KEY = 256
"""How many items a tuple or frozenset that is a key may have, those inside of others included."""
MAX_KEY_BITS = 4096

cdef enum:
    NEIGHBOURS = 9                      # that a set tries before it goes elsewhere


class NoKey(Exception):
    """Why something cannot be a key."""


cdef bint is_number(object key) except -1:
    """Whether a key is a truth value, a number of the machine's, or None."""
    cdef int overflow = 0
    if type(key) is int:
        as_long_long(key, &overflow)
        return not overflow
    return type(key) is bool or type(key) is float or key is None


cdef long long key_cost(object key) except -1:
    """What it costs to hash or compare a key, in bytes. `NoKey` for one that cannot be hashed, or is too large."""
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
                raise NoKey(f"a key of more than {MAX_KEY} items")
            if isinstance(item, frozenset):
                cost += 16 * len(item) * len(item)      # where all of them collide
            waiting.extend(item)
        elif isinstance(item, (str, bytes)):
            cost += len(item)
        elif isinstance(item, int):
            if item.bit_length() > MAX_KEY_BITS:
                raise NoKey(f"an integer of more than {MAX_KEY_BITS:,} bits")
            cost += item.bit_length() >> 3
        elif isinstance(item, (range, slice)):
            waiting.extend((item.start, item.stop, item.step))
            left -= 3
            if left < 0:
                raise NoKey(f"a key of more than {MAX_KEY} items")
        elif isinstance(item, (list, dict, set, bytearray)):
            raise NoKey(f"a {type(item).__name__} cannot be hashed")
    return cost


cdef class Crowd:
    """A model of the hash table of a dict or set, which tells how many steps a search takes."""

    def __init__(self, container not None):
        self.container = container
        self.linear = isinstance(container, set)
        self.rebuild(len(container))

    def __dealloc__(self):
        PyMem_Free(self.hashes)
        PyMem_Free(self.taken)

    cdef int rebuild(self, Py_ssize_t count) except -1:
        """Take in all keys, in a table as large as that of a container of ``count`` keys is at least."""
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
        """Go where a key of a hash is looked for, up to a free place; how many steps that takes."""
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
        """How many steps it takes at most to find ``key`` in the container, or where it is to go."""
        return self.probe(hash(key))

    cdef int settle(self) except -1:
        """Note that the key which was asked for has been put into the container."""
        if len(self.container) == self.count:
            return 0                        # it was there already
        if len(self.container) != self.count + 1 or (
                3 * self.mask <= 5 * (self.count + 1) if self.linear else 2 * (self.mask + 1) // 3 < self.count + 1):
            return self.rebuild(len(self.container))
        self.hashes[self.free] = self.hash
        self.taken[self.free] = True
        self.count += 1
        return 0
