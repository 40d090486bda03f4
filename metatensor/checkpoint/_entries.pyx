"""Fast parser for safetensors headers in their usual form, in one pass over the text.

The parser accepts only unambiguous headers: objects with exactly the three expected members, names without escapes, plain
numbers, and shapes that match the number of bytes. For anything else it returns None, and the full parser
(`safetensors.read_header`) reads the text again and reports errors. If this parser returns a result, the full parser
returns the same.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.string cimport memcmp

cdef enum:
    MAX_DIMS = 64
    ZERO = 48                           # the digit

cdef long long MAX_BITS = 2**63 - 1


cdef class _Text:
    """A reader's position in a text. Bytes objects end with a zero byte, at which every method stops."""
    cdef const char* p
    cdef const char* end

    cdef inline char peek(self) noexcept:
        """Skip spaces and return the next byte."""
        while self.p[0] == b" " or self.p[0] == b"\n" or self.p[0] == b"\t" or self.p[0] == b"\r":
            self.p += 1
        return self.p[0]

    cdef inline bint take(self, char c) noexcept:
        """Skip ``c`` if it is the next byte, and return whether it was."""
        if self.peek() != c:
            return False
        self.p += 1
        return True

    cdef const char* text(self, Py_ssize_t* n) noexcept:
        """Skip a string without escapes and return its start. Return NULL if there is none."""
        cdef const char* begin
        if not self.take(b'"'):
            return NULL
        begin = self.p
        while <unsigned char>self.p[0] >= 0x20 and self.p[0] != b'"' and self.p[0] != b"\\":
            self.p += 1
        if self.p[0] != b'"':
            return NULL
        n[0] = self.p - begin
        self.p += 1
        return begin

    cdef long long number(self) noexcept:
        """Skip a decimal integer from 0 to 2**63 - 1 and return it. Return -1 for anything else."""
        cdef long long value = 0
        cdef int digit
        cdef const char* begin
        self.peek()
        begin = self.p
        while True:
            digit = <int>self.p[0] - ZERO
            if not 0 <= digit <= 9:
                break
            if value > (MAX_BITS - digit) // 10:
                return -1
            value = value * 10 + digit
            self.p += 1
        if self.p == begin or begin[0] == b"0" and self.p - begin > 1:
            return -1
        return value

    cdef bint skip_object(self) noexcept:
        """Skip an object with any contents, up to its closing brace. Return False if it does not end."""
        cdef Py_ssize_t depth = 0
        if self.peek() != b"{":
            return False
        while self.p < self.end:
            if self.p[0] == b'"':
                self.p += 1
                while self.p < self.end and self.p[0] != b'"':
                    self.p += 2 if self.p[0] == b"\\" else 1
                if self.p >= self.end:
                    return False
            elif self.p[0] == b"{":
                depth += 1
            elif self.p[0] == b"}":
                depth -= 1
                if not depth:
                    self.p += 1
                    return True
            self.p += 1
        return False


cdef object _entry(_Text t, str name, dict kinds, dict bits):
    """Return the tuple for a tensor's entry, or None."""
    cdef Py_ssize_t n, key
    cdef const char* p
    cdef int seen = 0, dims
    cdef long long size, needed = 1, begin = 0, end = 0
    cdef list shape = None
    cdef object kind = None
    if not t.take(b"{"):
        return None
    while True:
        p = t.text(&key)
        if p == NULL or not t.take(b":"):
            return None
        if key == 5 and not memcmp(p, b"dtype", 5) and not seen & 1:
            seen |= 1
            p = t.text(&n)
            if p == NULL:
                return None
            kind = kinds.get(p[:n])
            if kind is None:
                return None
        elif key == 5 and not memcmp(p, b"shape", 5) and not seen & 2:
            seen |= 2
            if not t.take(b"["):
                return None
            shape = []
            dims = 0
            if t.peek() != b"]":
                while True:
                    size = t.number()
                    dims += 1
                    if size < 0 or dims > MAX_DIMS or size and needed > MAX_BITS // size:
                        return None
                    needed *= size
                    shape.append(size)
                    if not t.take(b","):
                        break
            if not t.take(b"]"):
                return None
        elif key == 12 and not memcmp(p, b"data_offsets", 12) and not seen & 4:
            seen |= 4
            if not t.take(b"["):
                return None
            begin = t.number()
            if begin < 0 or not t.take(b","):
                return None
            end = t.number()
            if end < begin or not t.take(b"]"):
                return None
        else:
            return None
        if not t.take(b","):
            break
    if seen != 7 or not t.take(b"}"):
        return None
    size = bits[kind]
    if not needed or needed > MAX_BITS // size or end - begin > MAX_BITS // 8 or needed * size != (end - begin) * 8:
        return None
    return name, kind, shape, begin, end


def plain_entries(bytes text not None, dict bits not None):
    """Return a pair: the text of ``__metadata__`` or None, and the entries. Return None if the full parser is needed.

    An entry is (name, dtype, shape, begin, end). ``bits`` maps names of dtypes to bits per element. Tensors without
    elements also need the full parser.
    """
    cdef _Text t = _Text.__new__(_Text)
    cdef const char* p
    cdef const char* begin
    cdef Py_ssize_t n
    cdef object entry, metadata = None
    cdef list entries = []
    cdef str name
    cdef dict kinds = {kind.encode(): kind for kind in bits}
    t.p = PyBytes_AS_STRING(text)
    t.end = t.p + PyBytes_GET_SIZE(text)
    if not t.take(b"{"):
        return None
    if t.peek() == b"}":
        return None
    while True:
        p = t.text(&n)
        if p == NULL or not t.take(b":"):
            return None
        if n == 12 and not memcmp(p, b"__metadata__", 12):
            if metadata is not None:
                return None
            t.peek()
            begin = t.p
            if not t.skip_object():
                return None
            metadata = begin[:t.p - begin]
        else:
            try:
                name = PyUnicode_DecodeUTF8(p, n, NULL)
            except UnicodeDecodeError:
                return None
            entry = _entry(t, name, kinds, bits)
            if entry is None:
                return None
            entries.append(entry)
        if not t.take(b","):
            break
    if not t.take(b"}"):
        return None
    t.peek()
    if t.p != t.end or len({entry[0] for entry in entries}) != len(entries):
        return None
    return metadata, entries
