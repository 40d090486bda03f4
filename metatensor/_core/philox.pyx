"""Random words and numbers of the counter-based stream, into host memory.

Element i depends on the seed, the ticket and i alone: see `metatensor.devices.array_kit.random`, whose formulas for
array libraries give the same values. Memory is anything with a writable, contiguous buffer; other threads run
meanwhile. The arithmetic is in ``philox.h``.
"""
from cpython.buffer cimport PyBUF_C_CONTIGUOUS, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memmove

cdef extern from "metatensor/_core/philox.h" nogil:
    """
    #define MT_GOLDEN UINT64_C(0x9E3779B97F4A7C15)
    """
    uint64_t MT_GOLDEN
    ctypedef struct Stream "mt_stream":
        pass
    ctypedef struct Pair "mt_pair":
        pass
    int seek "mt_seek" (Stream* s, uint64_t seed, uint64_t ticket, uint64_t low, uint64_t high) noexcept
    void draw_blocks "mt_blocks" (Stream* s, uint64_t* out, Py_ssize_t blocks) noexcept
    double as_double "mt_double" (uint64_t word) noexcept
    void uniform32 "mt_uniform32" (const uint64_t* words, float* out, Py_ssize_t n, int digits, float scale) noexcept
    void uniform64 "mt_uniform64" (const uint64_t* words, double* out, Py_ssize_t n) noexcept
    void polar_of "mt_polar" (const Pair* pairs, double* less, double* angle, Py_ssize_t n) noexcept
    int normal32 "mt_normal32" (const Pair* pairs, float* out, uint8_t* doubtful, Py_ssize_t n,
                                double mean, double std) noexcept
    uint64_t remainder_of "mt_remainder" (uint64_t word, uint64_t span, uint64_t inverse) noexcept

cdef enum:
    PIECE = 512         # words that are drawn at a time; a multiple of 4
    HALF = 256

cdef object _WORDS = 1 << 64        # how many values a word has
cdef object _MASK = _WORDS - 1


cdef struct Words:
    # A stream and the piece of it that was drawn last.
    Stream stream
    uint64_t words[PIECE + 8]
    int skip                # words of the first block that come before the start
    int left                # words that lie behind the piece


cdef int _open(Words* w, object seed, object ticket, object start) except -1:
    cdef uint64_t low = start & _MASK, high = start >> 64 & _MASK
    w.left = 0
    w.skip = seek(&w.stream, seed & _MASK, ticket & _MASK, low, high)
    return 0


cdef const uint64_t* _next(Words* w, Py_ssize_t n) noexcept nogil:
    """The next `n` words, at most a piece; all calls but the last take whole pieces."""
    cdef int left = w.left
    if w.skip:          # the first piece: the words before the start are drawn with it
        draw_blocks(&w.stream, w.words, (n + w.skip + 3) // 4)
        memmove(w.words, w.words + w.skip, (PIECE + 4 - w.skip) * sizeof(uint64_t))
        w.left, w.skip = 4 - w.skip, 0
        return w.words
    memmove(w.words, w.words + PIECE, left * sizeof(uint64_t))
    draw_blocks(&w.stream, w.words + left, (n - left + 3) // 4)
    return w.words


cdef class _Out:
    """The memory to fill."""
    cdef Py_buffer view
    cdef Py_ssize_t n           # elements
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
    """Fill with words of 64 bits, from word `start` on."""
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


def fill_uniform(memory, int itemsize, int digits, seed, ticket, start):
    """Fill with floats (of 4 bytes) of `digits` <= 24 random bits, or doubles (of 8) of 53, uniform in [0, 1)."""
    cdef _Out out = _Out(memory, itemsize)
    cdef const uint64_t* words
    cdef Py_ssize_t first, count
    cdef float scale = 2.0 ** -digits
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
                uniform32(words, <float*>out.view.buf + first, count, digits, scale)
            else:
                uniform64(words, <double*>out.view.buf + first, count)
            first += PIECE


def fill_below(memory, int digits, double p, seed, ticket, start):
    """Fill bools with whether uniform numbers of 24 or 53 random bits are below `p`."""
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
    # k * 2**-digits < p where k < p * 2**digits, which a double holds exactly: for integers k, k < its ceiling.
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


def fill_polar(less, angle, seed, ticket, start):
    """For normal numbers: fill doubles with -u and with 2 pi v, from the words 2 i and 2 i + 1."""
    cdef _Out a = _Out(less, 8), b = _Out(angle, 8)
    cdef const uint64_t* words
    cdef Py_ssize_t first, count
    cdef Words w
    if a.n != b.n:
        raise ValueError(f"{a.n} and {b.n} elements")
    _open(&w, seed, ticket, 2 * start)
    with nogil:
        first = 0
        while first < a.n:
            count = min(<Py_ssize_t>HALF, a.n - first)
            words = _next(&w, 2 * count)
            polar_of(<const Pair*>words, <double*>a.view.buf + first, <double*>b.view.buf + first, count)
            first += HALF


def fill_normal(memory, double mean, double std, seed, ticket, start):
    """Fill with floats of the normal distribution; returns a list of the elements to be computed again.

    Those are so near the middle between two floats that other functions of double precision may round them to
    the other one: one in some millions. All others are what any would give.
    """
    cdef _Out out = _Out(memory, 4)
    cdef uint8_t doubtful[HALF]
    cdef const uint64_t* words
    cdef Py_ssize_t first, count, i
    cdef list found = []
    cdef Words w
    _open(&w, seed, ticket, 2 * start)
    with nogil:
        first = 0
        while first < out.n:
            count = min(<Py_ssize_t>HALF, out.n - first)
            words = _next(&w, 2 * count)
            if normal32(<const Pair*>words, <float*>out.view.buf + first, doubtful, count, mean, std):
                with gil:
                    for i in range(count):
                        if doubtful[i]:
                            found.append(first + i)
            first += HALF
    return found


cdef uint64_t _again(uint64_t seed, uint64_t ticket, uint64_t low, uint64_t high, uint64_t limit) noexcept nogil:
    """The first word that is less than `limit`, at one place of the streams of further seeds."""
    cdef Stream s
    cdef uint64_t words[4]
    cdef int at
    while True:
        seed += MT_GOLDEN
        at = seek(&s, seed, ticket, low, high)
        draw_blocks(&s, words, 1)
        if words[at] < limit:
            return words[at]


def fill_integers(memory, low, high, seed, ticket, start):
    """Fill with integers of 8 bytes in [low, high), all equally likely.

    A word beyond the last whole multiple of the range is drawn again, at its place in the stream of another seed.
    """
    cdef _Out out = _Out(memory, 8)
    cdef object wide = high - low
    cdef uint64_t* to = <uint64_t*>out.view.buf
    cdef uint64_t span, base = low & _MASK, inverse = 0, limit = 0, word
    cdef uint64_t first_seed = seed & _MASK, number = ticket & _MASK, place = start & _MASK, above = start >> 64 & _MASK
    cdef const uint64_t* words
    cdef Py_ssize_t first, count, i
    cdef Words w
    if not 0 < wide <= _WORDS:
        raise ValueError(f"no integers in [{low}, {high})")
    span = wide & _MASK      # 0 for all of them
    if span:
        inverse = _MASK // wide
        limit = (_WORDS - _WORDS % wide) & _MASK      # 0 where none is beyond
    _open(&w, seed, ticket, start)
    with nogil:
        first = 0
        while first < out.n:
            count = min(<Py_ssize_t>PIECE, out.n - first)
            words = _next(&w, count)
            for i in range(count):
                word = words[i]
                if limit and word >= limit:
                    word = _again(first_seed, number, place + <uint64_t>(first + i),
                                  above + (place + <uint64_t>(first + i) < place), limit)
                if span:
                    word = remainder_of(word, span, inverse)
                to[first + i] = word + base
            first += PIECE
