from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF


cdef class Stack:
    cdef readonly str file
    cdef readonly long long spent       # bytes charged so far
    cdef readonly long long limit       # limit of bytes charged; `spend` raises it by `per_byte` per byte read
    cdef long long allowance
    cdef long long per_byte
    # The pickle and the position in it.
    cdef object buffer
    cdef const unsigned char* data
    cdef Py_ssize_t at
    cdef Py_ssize_t end
    cdef Py_ssize_t here                # the current opcode
    cdef readonly long long base        # offset of its first byte, for messages
    # Owned references.
    cdef PyObject** stack
    cdef Py_ssize_t top
    cdef Py_ssize_t room
    cdef Py_ssize_t fence               # height at the last mark; opcodes must not access values below it
    cdef PyObject** memo
    cdef Py_ssize_t memo_room
    cdef Py_ssize_t memo_next           # number of memo entries, for MEMOIZE
    cdef bint skipped                   # whether `record` omitted memo entries
    cdef Py_ssize_t* marks
    cdef Py_ssize_t n_marks
    cdef Py_ssize_t mark_room

    cdef void clear(self) noexcept
    cdef object wrong(self, str reason)
    cdef object truncated(self, str what)
    cdef int spend(self, long long nbytes) except -1
    cdef int push(self, object value) except -1
    cdef object pop(self)
    cdef object peek(self)
    cdef int mark(self) except -1
    cdef Py_ssize_t unmark(self) except -1
    cdef tuple take(self, Py_ssize_t height)
    cdef int drop(self, Py_ssize_t height) except -1
    cdef int remember(self, Py_ssize_t index) except -1
    cdef int recall(self, Py_ssize_t index) except -1
    cdef const unsigned char* bytes_(self, unsigned long long n) except NULL
    cdef unsigned long long number(self, int width) except? 0xFFFFFFFFFFFF
    cdef unsigned long long length4(self) except? 0xFFFFFFFFFFFF
    cdef double double_(self) except? -1.0
    cdef bytes line(self, Py_ssize_t most)
    cdef object text(self, unsigned long long n)
    cdef object raw(self, unsigned long long n)
    cdef object old_text(self, unsigned long long n)
    cdef object long_(self, unsigned long long n)
    cdef object decimal(self, bint long_)
    cdef Py_ssize_t index(self) except -1
    cdef object quoted(self, bytes line)


# Inline versions of the most frequent operations.

cdef inline int charge(Stack s, long long nbytes) except -1:
    """Charge a few bytes, like `Stack.spend`."""
    s.spent += nbytes
    if s.spent > s.limit:
        return s.spend(0)
    return 0


cdef inline int push(Stack s, object value) except -1:
    """Push a value, like `Stack.push`."""
    if s.top == s.room:
        return s.push(value)
    Py_INCREF(value)
    s.stack[s.top] = <PyObject*>value
    s.top += 1
    return 0


cdef inline Py_ssize_t byte(Stack s) except -1:
    """Read the next byte."""
    if s.at == s.end:
        return <Py_ssize_t>s.number(1)
    s.at += 1
    return s.data[s.at - 1]


cdef inline Py_ssize_t word(Stack s) except -1:
    """Read the next four bytes as an unsigned number."""
    cdef const unsigned char* p = s.data + s.at
    if s.end - s.at < 4:
        return <Py_ssize_t>s.number(4)
    s.at += 4
    return p[0] | p[1] << 8 | p[2] << 16 | <Py_ssize_t>p[3] << 24


cdef inline int recall(Stack s, Py_ssize_t index) except -1:
    """Push a memo entry, like `Stack.recall`."""
    if index >= s.memo_room or s.memo[index] == NULL:
        return s.recall(index)
    return push(s, <object>s.memo[index])


cdef inline int remember(Stack s, Py_ssize_t index) except -1:
    """Store the top of the stack in the memo, like `Stack.remember`."""
    if index >= s.memo_room or index > s.end or s.memo[index] != NULL or s.top <= s.fence:
        return s.remember(index)
    s.memo_next += 1
    Py_INCREF(<object>s.stack[s.top - 1])
    s.memo[index] = s.stack[s.top - 1]
    return 0
