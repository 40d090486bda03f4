"""Counter-based random numbers in host memory.

Element i depends only on the seed, the ticket (the number of the random op, see `random.pyx`) and i.
`metatensor.devices.array_kit.random` computes the same values with array libraries. The functions fill any object with
a writable, contiguous buffer and release the GIL. The arithmetic is in ``philox.h``.
"""
from cpython.buffer cimport PyBUF_C_CONTIGUOUS, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcpy, memmove

cdef extern from "metatensor/_core/philox.h" nogil:
    """
    #define MT_GOLDEN UINT64_C(0x9E3779B97F4A7C15)
    """
    uint64_t MT_GOLDEN
    ctypedef struct Stream "mt_stream":
        pass
    int seek "mt_seek" (Stream* s, uint64_t seed, uint64_t ticket, uint64_t low, uint64_t high) noexcept
    void draw_blocks "mt_blocks" (Stream* s, uint64_t* out, Py_ssize_t blocks) noexcept
    void uniform32 "mt_uniform32" (const uint64_t* words, float* out, Py_ssize_t n, int digits,
                                   float low, float span, float high) noexcept
    void uniform64 "mt_uniform64" (const uint64_t* words, double* out, Py_ssize_t n,
                                   double low, double span, double high) noexcept
    void normal32 "mt_normal32" (const uint64_t* words, float* out, Py_ssize_t pairs, double mean, double std) noexcept
    void normal64 "mt_normal64" (const uint64_t* words, const uint64_t* more, double* out, Py_ssize_t pairs,
                                 double mean, double std) noexcept
    uint64_t* sort_random "mt_sort_random" (uint64_t* words, uint64_t* room, Py_ssize_t n) noexcept
    void integers_of "mt_integers" (const uint64_t* words, uint64_t* out, Py_ssize_t n,
                                    uint64_t span, uint64_t inverse, uint64_t base) noexcept

cdef enum:
    PIECE = 512         # number of words generated at a time, a multiple of 4

cdef object _WORDS = 1 << 64        # number of values that a word can have
cdef object _MASK = _WORDS - 1

FURTHER = 1 << 65       # where further bits of normal doubles begin: no draw has as many words


cdef struct Words:
    # A stream, and the words that were generated last.
    Stream stream
    uint64_t words[PIECE + 8]
    int skip                # number of words in the first block that precede the requested start
    int left                # number of words that were generated in advance for the next piece


cdef int _open(Words* w, object seed, object ticket, object start) except -1:
    cdef uint64_t low = start & _MASK, high = start >> 64 & _MASK
    w.left = 0
    w.skip = seek(&w.stream, seed & _MASK, ticket & _MASK, low, high)
    return 0


cdef const uint64_t* _next(Words* w, Py_ssize_t n) noexcept nogil:
    """Return the next `n` words, at most PIECE. All calls except the last must take PIECE words."""
    cdef int left = w.left
    if w.skip:          # the first piece: generate the skipped words too, then move them out
        draw_blocks(&w.stream, w.words, (n + w.skip + 3) // 4)
        memmove(w.words, w.words + w.skip, (PIECE + 4 - w.skip) * sizeof(uint64_t))
        w.left, w.skip = 4 - w.skip, 0
        return w.words
    memmove(w.words, w.words + PIECE, left * sizeof(uint64_t))
    draw_blocks(&w.stream, w.words + left, (n - left + 3) // 4)
    return w.words


cdef class _Out:
    """A writable buffer to fill."""
    cdef Py_buffer view
    cdef Py_ssize_t n           # number of elements
    cdef bint held

    def __cinit__(self, memory, Py_ssize_t itemsize):
        PyObject_GetBuffer(memory, &self.view, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS)
        self.held = True
        if self.view.len % itemsize:
            raise ValueError(f"{self.view.len} bytes are not a whole number of elements of {itemsize} bytes")
        self.n = self.view.len // itemsize

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.view)


def fill_bits(memory, seed, ticket, start):
    """Fill `memory` with 64-bit words, beginning with word `start`."""
    cdef _Out out = _Out(memory, 8)
    cdef uint64_t* to = <uint64_t*>out.view.buf
    cdef const uint64_t* words
    cdef Py_ssize_t first, count, i
    cdef Words w
    _open(&w, seed, ticket, start)
    with nogil:
        first = 0
        while first < out.n:
            count = min(<Py_ssize_t>PIECE, out.n - first)
            words = _next(&w, count)
            for i in range(count):
                to[first + i] = words[i]
            first += PIECE


def fill_uniform(memory, int itemsize, int digits, double low, double high, seed, ticket, start=0):
    """Fill `memory` with uniform numbers in [low, high): floats with `digits` <= 24 random bits, or doubles with 53.

    If the bounds are equal, all numbers are `low`.
    """
    cdef _Out out = _Out(memory, itemsize)
    cdef const uint64_t* words
    cdef Py_ssize_t first, count
    cdef double span = high - low
    cdef Words w
    if not (itemsize == 4 and 0 < digits <= 24) and not (itemsize == 8 and digits == 53):
        raise ValueError(f"no uniform numbers of {itemsize} bytes with {digits} random bits")
    _open(&w, seed, ticket, start)
    with nogil:
        first = 0
        while first < out.n:
            count = min(<Py_ssize_t>PIECE, out.n - first)
            words = _next(&w, count)
            if itemsize == 4:
                uniform32(words, <float*>out.view.buf + first, count, digits, <float>low, <float>span, <float>high)
            else:
                uniform64(words, <double*>out.view.buf + first, count, low, span, high)
            first += PIECE


def fill_below(memory, int digits, double p, seed, ticket, start):
    """Fill `memory` with bools, true where a uniform number of `digits` random bits (24 or 53) is less than `p`."""
    cdef _Out out = _Out(memory, 1)
    cdef uint8_t* to = <uint8_t*>out.view.buf
    cdef const uint64_t* words
    cdef Py_ssize_t first, count, i
    cdef int shift = 64 - digits
    cdef uint64_t limit
    cdef double scaled = p * 2.0 ** digits
    cdef Words w
    if digits != 24 and digits != 53:
        raise ValueError(f"no uniform numbers with {digits} random bits")
    # k * 2**-digits < p means k < p * 2**digits. That product is exact, so for integers k the limit is its ceiling.
    if not scaled > 0:
        limit = 0
    elif scaled >= 2.0 ** digits:
        limit = <uint64_t>1 << digits
    else:
        limit = <uint64_t>scaled
        if <double>limit < scaled:
            limit += 1
    _open(&w, seed, ticket, start)
    with nogil:
        first = 0
        while first < out.n:
            count = min(<Py_ssize_t>PIECE, out.n - first)
            words = _next(&w, count)
            for i in range(count):
                to[first + i] = (words[i] >> shift) < limit
            first += PIECE


def fill_normal(memory, int itemsize, double mean, double std, seed, ticket, start=0):
    """Fill `memory` with normal floats (4 bytes) or doubles (8 bytes).

    Elements 2 i and 2 i + 1 come from word i. Doubles take further bits from word ``FURTHER + i``.
    """
    cdef _Out out = _Out(memory, itemsize)
    cdef char* to = <char*>out.view.buf
    cdef double values[2 * PIECE]       # the values from one piece of words
    cdef const uint64_t* words
    cdef Py_ssize_t left = out.n, skip = start & 1, count, pairs
    cdef Words w, more
    if itemsize != 4 and itemsize != 8:
        raise ValueError(f"no normal numbers of {itemsize} bytes")
    _open(&w, seed, ticket, start >> 1)
    _open(&more, seed, ticket, FURTHER + (start >> 1))
    with nogil:
        while left > 0:
            count = min(<Py_ssize_t>2 * PIECE, left + skip)     # number of values, of which the first `skip` are not wanted
            pairs = (count + 1) // 2
            words = _next(&w, pairs)
            if itemsize == 4:
                normal32(words, <float*>values, pairs, mean, std)
            else:
                normal64(words, _next(&more, pairs), values, pairs, mean, std)
            count -= skip
            memcpy(to, <const char*>values + skip * itemsize, count * itemsize)
            to += count * itemsize
            left -= count
            skip = 0


cdef uint64_t _again(uint64_t seed, uint64_t ticket, uint64_t low, uint64_t high, uint64_t limit) noexcept nogil:
    """Replace a rejected word: try other seeds in turn, and return the first word below `limit` at this position."""
    cdef Stream s
    cdef uint64_t words[4]
    cdef int at
    while True:
        seed += MT_GOLDEN
        at = seek(&s, seed, ticket, low, high)
        draw_blocks(&s, words, 1)
        if words[at] < limit:
            return words[at]


def fill_integers(memory, low, high, seed, ticket, start=0):
    """Fill `memory` with 8-byte integers, uniform in [low, high).

    A word at or above the largest multiple of ``high - low`` is rejected. It is replaced by the word at the same
    position in the stream of another seed.
    """
    cdef _Out out = _Out(memory, 8)
    cdef object wide = high - low
    cdef uint64_t* to = <uint64_t*>out.view.buf
    cdef uint64_t span, base = low & _MASK, inverse = 0, limit = 0
    cdef uint64_t drawn, first_seed = seed & _MASK, number = ticket & _MASK, place = start & _MASK, above = start >> 64 & _MASK
    cdef const uint64_t* words
    cdef Py_ssize_t first, count, i
    cdef Words w
    if not 0 < wide <= _WORDS:
        raise ValueError(f"no integers in [{low}, {high})")
    span = wide & _MASK      # 0 stands for 2**64
    if span:
        inverse = _MASK // wide
        limit = (_WORDS - _WORDS % wide) & _MASK      # 0 if no word is rejected
    _open(&w, seed, ticket, start)
    with nogil:
        first = 0
        while first < out.n:
            count = min(<Py_ssize_t>PIECE, out.n - first)
            words = _next(&w, count)
            integers_of(words, to + first, count, span, inverse, base)
            if limit:
                for i in range(count):
                    if words[i] >= limit:
                        drawn = _again(first_seed, number, place + <uint64_t>(first + i),
                                       above + (place + <uint64_t>(first + i) < place), limit)
                        integers_of(&drawn, to + first + i, 1, span, inverse, base)
            first += PIECE


cdef uint64_t _word(uint64_t seed, uint64_t ticket, uint64_t at) noexcept nogil:
    """Return one word of a stream."""
    cdef Stream s
    cdef uint64_t words[4]
    cdef int skip = seek(&s, seed, ticket, at, 0)
    draw_blocks(&s, words, 1)
    return words[skip]


def fill_permutation(memory, seed, ticket):
    """Fill `memory` with the 8-byte integers 0 to n - 1, in the order of the first n words of a stream.

    Before sorting, the last bits of each word are replaced by its index. An insertion sort then compares the few words
    in full whose leading bits are equal. Equal words keep their order.
    """
    cdef _Out out = _Out(memory, 8)
    cdef uint64_t* to = <uint64_t*>out.view.buf
    cdef uint64_t* room = <uint64_t*>PyMem_RawMalloc(max(out.n, 1) * sizeof(uint64_t))
    cdef uint64_t* order
    cdef uint64_t words[PIECE]
    cdef uint64_t first_seed = seed & _MASK, number = ticket & _MASK, mask, found
    cdef Py_ssize_t first, count, i, k
    cdef int bits = 0
    cdef Stream s
    if room == NULL:
        raise MemoryError()
    while out.n >> bits:
        bits += 1
    mask = (<uint64_t>1 << bits) - 1
    seek(&s, first_seed, number, 0, 0)
    with nogil:
        first = 0
        while first < out.n:
            count = min(<Py_ssize_t>PIECE, out.n - first)
            draw_blocks(&s, words, (count + 3) // 4)
            for i in range(count):
                to[first + i] = (words[i] & ~mask) | <uint64_t>(first + i)
            first += PIECE
        order = sort_random(to, room, out.n)
        for i in range(1, out.n):
            if order[i - 1] >> bits >= order[i] >> bits:
                found = order[i]
                k = i
                while k > 0 and order[k - 1] >> bits >= found >> bits and (
                        order[k - 1] >> bits > found >> bits
                        or _word(first_seed, number, order[k - 1] & mask) > _word(first_seed, number, found & mask)):
                    order[k] = order[k - 1]
                    k -= 1
                order[k] = found
        for i in range(out.n):
            to[i] = order[i] & mask
    PyMem_RawFree(room)
