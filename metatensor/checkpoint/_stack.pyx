"""State of the pickle machine: the pickle, a stack, marks, a memo, and the number of bytes that it may allocate."""
from _codecs import escape_decode
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.string cimport memchr, memcpy
from metatensor.checkpoint._values cimport describe
from metatensor.checkpoint.errors import CheckpointError

cdef extern from "Python.h":
    void decref "Py_DECREF"(PyObject* p)
    PyObject* tuple_new "PyTuple_New"(Py_ssize_t n) except NULL
    void tuple_set "PyTuple_SET_ITEM"(PyObject* t, Py_ssize_t i, PyObject* p)

MAX_DIGITS = 1000
"""Maximum length in bytes of a line that holds a number."""


class Again(Exception):
    """Raised if the pickle uses a memo entry that `record` did not keep. Run it again without `record`."""


class Truncated(CheckpointError):
    """A pickle that continues beyond the available bytes."""


cdef class Stack:
    """The bytes of a pickle and the machine's memory. `spend` bounds the memory that objects take."""

    def __cinit__(self, *args, **kwargs):
        cdef Py_ssize_t i
        self.room = 256
        self.mark_room = 64
        self.memo_room = 256
        self.stack = <PyObject**>PyMem_Malloc(self.room * sizeof(PyObject*))
        self.marks = <Py_ssize_t*>PyMem_Malloc(self.mark_room * sizeof(Py_ssize_t))
        self.memo = <PyObject**>PyMem_Malloc(self.memo_room * sizeof(PyObject*))
        if not self.stack or not self.marks or not self.memo:
            raise MemoryError
        for i in range(self.memo_room):
            self.memo[i] = NULL

    def __dealloc__(self):
        self.clear()
        PyMem_Free(self.stack)
        PyMem_Free(self.marks)
        PyMem_Free(self.memo)

    cdef void clear(self) noexcept:
        """Clear the stack, the marks and the memo."""
        cdef Py_ssize_t i
        while self.top > 0:
            self.top -= 1
            decref(self.stack[self.top])
        self.n_marks = self.fence = 0
        self.memo_next = 0
        for i in range(self.memo_room if self.memo else 0):
            if self.memo[i] != NULL:
                decref(self.memo[i])
                self.memo[i] = NULL

    # Errors and bounds --------------------------------------------------------

    cdef object wrong(self, str reason):
        return CheckpointError(self.file, f"at byte {self.base + self.here:,}: {reason}")

    cdef int spend(self, long long nbytes) except -1:
        self.spent += nbytes
        if self.spent > self.limit and self.per_byte:
            self.limit = self.allowance + self.per_byte * <long long>self.at
        if self.spent > self.limit or nbytes < 0:
            raise self.wrong(f"its objects need more than {self.limit:,} bytes, the bound for a pickle of this size")
        return 0

    # The stack ----------------------------------------------------------------

    cdef int push(self, object value) except -1:
        cdef PyObject** wider
        if self.top == self.room:
            self.spend(self.room * <Py_ssize_t>sizeof(PyObject*))
            wider = <PyObject**>PyMem_Realloc(self.stack, 2 * self.room * sizeof(PyObject*))
            if not wider:
                raise MemoryError
            self.stack = wider
            self.room *= 2
        Py_INCREF(value)
        self.stack[self.top] = <PyObject*>value
        self.top += 1
        return 0

    cdef object pop(self):
        cdef object value
        if self.top <= self.fence:
            raise self.wrong("stack underflow: an opcode takes more values than the stack has")
        self.top -= 1
        value = <object>self.stack[self.top]
        decref(self.stack[self.top])
        return value

    cdef object peek(self):
        if self.top <= self.fence:
            raise self.wrong("stack underflow: an opcode takes more values than the stack has")
        return <object>self.stack[self.top - 1]

    cdef int mark(self) except -1:
        cdef Py_ssize_t* wider
        if self.n_marks == self.mark_room:
            self.spend(self.mark_room * <Py_ssize_t>sizeof(Py_ssize_t))
            wider = <Py_ssize_t*>PyMem_Realloc(self.marks, 2 * self.mark_room * sizeof(Py_ssize_t))
            if not wider:
                raise MemoryError
            self.marks = wider
            self.mark_room *= 2
        self.marks[self.n_marks] = self.fence = self.top
        self.n_marks += 1
        return 0

    cdef Py_ssize_t unmark(self) except -1:
        """Remove the last mark and return its height."""
        cdef Py_ssize_t height = self.fence
        if not self.n_marks:
            raise self.wrong("an opcode needs a MARK, and there is none")
        self.n_marks -= 1
        self.fence = self.marks[self.n_marks - 1] if self.n_marks else 0
        return height

    cdef tuple take(self, Py_ssize_t height):
        """Pop all values above ``height`` and return them as a tuple."""
        cdef Py_ssize_t n = self.top - height, i
        cdef PyObject* made
        if n < 0 or height < self.fence:
            raise self.wrong("stack underflow: an opcode takes more values than the stack has")
        if n == 0:
            return ()
        charge(self, 56 + 8 * n)
        made = tuple_new(n)
        for i in range(n):
            tuple_set(made, i, self.stack[height + i])
        self.top = height
        result = <tuple><object>made
        decref(made)
        return result

    cdef int remember(self, Py_ssize_t index) except -1:
        cdef PyObject** wider
        cdef Py_ssize_t room, i
        cdef PyObject* value
        if self.top <= self.fence:
            raise self.wrong("stack underflow: an opcode takes more values than the stack has")
        value = self.stack[self.top - 1]
        if index < 0 or index > self.end:
            raise self.wrong(f"memo index {index:,} is larger than the pickle's length, {self.end:,}")
        if index >= self.memo_room:
            room = min(max(2 * self.memo_room, index + 1), self.end + 1)
            self.spend(8 * (room - self.memo_room))
            wider = <PyObject**>PyMem_Realloc(self.memo, room * sizeof(PyObject*))
            if not wider:
                raise MemoryError
            self.memo = wider
            for i in range(self.memo_room, room):
                wider[i] = NULL
            self.memo_room = room
        if self.memo[index] == NULL:
            self.memo_next += 1
        else:
            decref(self.memo[index])
        Py_INCREF(<object>value)
        self.memo[index] = value
        return 0

    cdef int recall(self, Py_ssize_t index) except -1:
        if index < 0 or index >= self.memo_room or self.memo[index] == NULL:
            if self.skipped:
                raise Again
            raise self.wrong(f"memo index {index:,} was never set")
        return self.push(<object>self.memo[index])

    cdef int drop(self, Py_ssize_t height) except -1:
        while self.top > height:
            self.top -= 1
            decref(self.stack[self.top])
        return 0

    # Reading ------------------------------------------------------------------

    cdef const unsigned char* bytes_(self, unsigned long long n) except NULL:
        """Read the next ``n`` bytes."""
        cdef const unsigned char* here = self.data + self.at
        if n > <unsigned long long>(self.end - self.at):
            raise self.truncated(f"{n:,} bytes")
        self.at += <Py_ssize_t>n
        return here

    cdef object truncated(self, str what):
        return Truncated(self.file, f"truncated: the opcode at byte {self.base + self.here:,} needs {what}, "
                                    f"but the pickle ends at byte {self.base + self.end:,}")

    cdef unsigned long long number(self, int width) except? 0xFFFFFFFFFFFF:
        """Read ``width`` bytes as an unsigned little-endian number."""
        cdef const unsigned char* here = self.bytes_(width)
        cdef unsigned long long value = 0
        cdef int i
        for i in range(width):
            value |= <unsigned long long>here[i] << (8 * i)
        return value

    cdef double double_(self) except? -1.0:
        """Read eight bytes as a big-endian float."""
        cdef const unsigned char* here = self.bytes_(8)
        cdef unsigned long long bits = 0
        cdef double value
        cdef int i
        for i in range(8):
            bits = bits << 8 | here[i]
        memcpy(&value, &bits, 8)
        return value

    cdef bytes line(self, Py_ssize_t most):
        """Read and return the bytes before the next newline, and skip the newline."""
        cdef const unsigned char* here = self.data + self.at
        cdef const unsigned char* found = <const unsigned char*>memchr(here, 10, self.end - self.at)
        if found == NULL:
            if self.end - self.at > most:
                raise self.wrong(f"a line has more than {most:,} bytes")
            raise self.truncated("a line")
        if found - here > most:
            raise self.wrong(f"a line has {found - here:,} bytes; at most {most:,} are allowed")
        self.at += found - here + 1
        return PyBytes_FromStringAndSize(<const char*>here, found - here)

    cdef object text(self, unsigned long long n):
        cdef const unsigned char* here = self.bytes_(n)
        charge(self, 64 + 4 * <long long>n)
        try:
            return PyUnicode_DecodeUTF8(<const char*>here, <Py_ssize_t>n, "surrogatepass")    # as in Python's own pickles
        except UnicodeDecodeError:
            raise self.wrong("a string is not UTF-8") from None

    cdef object raw(self, unsigned long long n):
        cdef const unsigned char* here = self.bytes_(n)
        self.spend(40 + <long long>n)
        return PyBytes_FromStringAndSize(<const char*>here, <Py_ssize_t>n)

    cdef object old_text(self, unsigned long long n):
        """Read a Python 2 string: str if it is UTF-8, else bytes."""
        cdef const unsigned char* here = self.bytes_(n)
        charge(self, 64 + 4 * <long long>n)
        try:
            return PyUnicode_DecodeUTF8(<const char*>here, <Py_ssize_t>n, NULL)
        except UnicodeDecodeError:
            return PyBytes_FromStringAndSize(<const char*>here, <Py_ssize_t>n)

    cdef object long_(self, unsigned long long n):
        cdef const unsigned char* here = self.bytes_(n)
        self.spend(40 + <long long>n)
        return int.from_bytes(PyBytes_FromStringAndSize(<const char*>here, <Py_ssize_t>n), "little", signed=True)

    cdef object decimal(self, bint long_):
        """Parse the number in an INT or LONG line. INT also encodes True and False."""
        cdef bytes line = self.line(MAX_DIGITS)
        if not long_ and line in (b"00", b"01"):
            return line == b"01"
        if long_ and line.endswith(b"L"):
            line = line[:len(line) - 1]
        self.spend(512)
        try:
            if b"_" in line:
                raise ValueError
            return int(line, 10)
        except ValueError:
            raise self.wrong(f"{describe(line)} is not an integer") from None

    cdef Py_ssize_t index(self) except -1:
        """Parse the memo index in a PUT or GET line."""
        cdef bytes line = self.line(20)
        if not line.isdigit():
            raise self.wrong(f"{describe(line)} is not a memo index")
        found = int(line)
        if found > self.end:
            raise self.wrong(f"memo index {found:,} is larger than the pickle's length, {self.end:,}")
        return found

    cdef unsigned long long length4(self) except? 0xFFFFFFFFFFFF:
        cdef unsigned long long n = self.number(4)
        if n >= 1 << 31:
            raise self.wrong(f"the length {<long><int>n:,} is negative")
        return n

    cdef object quoted(self, bytes line):
        """Return the string in a STRING line, which is a Python 2 literal."""
        if len(line) < 2 or line[0] != line[len(line) - 1] or line[0] not in b"'\"":
            raise self.wrong("STRING takes a string in quotes")
        self.spend(64 + 5 * len(line))
        try:
            plain = escape_decode(line[1:len(line) - 1])[0]
        except ValueError:
            raise self.wrong("a string has an invalid escape sequence") from None
        try:
            return plain.decode("utf-8")
        except UnicodeDecodeError:
            return plain
