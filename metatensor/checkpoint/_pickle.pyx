"""The pickle machine: a safe interpreter of pickles that never imports anything and calls only known functions.

A pickle is a program for a stack machine. This interpreter knows the names in a table and those that the user allows.
Any other name becomes an `Inert` placeholder, is recorded, and is reported as an error at the end.

The resources of a program are bounded. Objects and copies are charged against a limit that grows with the pickle's
size. The memo cannot be larger than the pickle. Keys must be cheap to hash and compare. The result must not be cyclic,
nested deeper than `MAX_DEPTH`, or exponentially expensive to walk (`_values.pyx`).
"""
from collections import Counter, OrderedDict, defaultdict

from cpython.list cimport PyList_Append
from metatensor.checkpoint._calls cimport Calls
from metatensor.checkpoint._stack cimport byte, charge, push, recall, remember, word
from metatensor.checkpoint._values cimport Inert, Known, describe, replaced, survey
from metatensor.checkpoint._stack import MAX_DIGITS, Again
from metatensor.checkpoint.budget import current
from metatensor.checkpoint.errors import CheckpointError

cdef extern from "Python.h":
    int PyGC_Enable()
    int PyGC_Disable()

PER_BYTE = 128
"""Bytes of memory that objects may take per byte of the pickle before the budget is charged. Most opcodes need less."""
PER_PACKED_BYTE = 256
"""The same for a compressed pickle, per byte that it takes in the file."""

cdef type ODICT = OrderedDict
cdef type COUNTER = Counter
cdef type DEFAULTDICT = defaultdict


cdef class Machine(Calls):
    """Runs the pickles of one file.

    Parameters
    ----------
    file : str
        Name of the file in messages.
    table : dict
        Maps ``b"module\\nname"`` to a value or a `Known`.
    allowed : dict, optional
        Like ``table``, for classes and functions that the user allows. The pickle determines how they are called.
    builders : dict, optional
        Maps a type to ``callable(machine, instance, state)``, which performs the opcode BUILD.
    persist : callable, optional
        ``callable(machine, id)`` that returns the object for a persistent id.
    tolerant : bool, default False
        Keep `Inert` placeholders in the result instead of raising.
    source : object, optional
        For use by handlers.
    """

    def load(self, data, long long base=0, long long paid=-1):
        """Run the pickle at the start of ``data`` (bytes). Return its value and its length in bytes.

        ``base`` is the offset of ``data`` in the file. ``paid`` is the size of ``data`` in the file in bytes, if that
        differs from its length because it is compressed. Raise `CheckpointError` if the pickle is invalid, `Truncated`
        if ``data`` ends too soon.
        """
        cdef const unsigned char[::1] view = data
        cdef double steps = 0
        self.buffer = data
        self.end = view.shape[0]
        self.data = &view[0] if self.end else NULL
        self.at = self.here = 0
        self.base = base
        self.spent = 0
        budget = current()
        self.per_byte = PER_BYTE if paid < 0 else 0
        paid = -1 if paid < 0 else min(PER_BYTE * <long long>self.end, PER_PACKED_BYTE * paid)
        self.allowance = self.limit = <long long>budget.left + max(paid, 0)
        cdef bint collecting = PyGC_Disable()   # the objects created here form no cycles
        try:
            try:
                value = self.run()
            except Again:
                self.again()
                value = self.run()
            self.clear()            # `survey` detects sharing by reference counts
            self.hash_models.clear()
            self.latest = None
            found = survey(value, &steps)
            if type(found) is str:
                raise self.wrong(f"its result has {found}")
            if found:
                value = replaced(value, self.meaning, {})
        except CheckpointError:
            if self.unknown and not self.tolerant:
                raise self.unknown_names() from None
            raise
        except RecursionError:
            raise self.wrong("it is nested too deeply") from None
        finally:
            if collecting:
                PyGC_Enable()
            budget.left -= max(0, self.spent - (PER_BYTE * <long long>self.at if paid < 0 else paid))
            self.clear()
            self.hash_models.clear()
            self.latest = None
            self.buffer = None
        if self.unknown and not self.tolerant:
            raise self.unknown_names()
        return value, self.at

    cdef int again(self) except -1:
        """Run the pickle again without `record`, so that every opcode is interpreted by itself."""
        self.clear()
        self.reset()
        self.at = self.here = 0
        self.spent = 0
        self.skipped = False
        self.maker = NULL
        self.unknown.clear()
        self.callables.clear()
        self.hash_models.clear()
        self.latest = None
        return 0

    cdef bint record(self) except -1:
        """Execute all opcodes that make one object in one step, if ``maker`` is on top of the stack.

        Return False if not possible.
        """
        return False

    def reset(self):
        """Discard what an abandoned run has created."""

    # Containers ---------------------------------------------------------------

    cdef int items(self, Py_ssize_t height) except -1:
        """Perform SETITEMS: put the keys and values above ``height`` into the mapping below them."""
        cdef Py_ssize_t n = self.top - height
        cdef Py_ssize_t i
        cdef object mapping
        if n & 1:
            raise self.wrong("SETITEMS with a key that has no value")
        if height <= self.fence:
            raise self.wrong("stack underflow: an opcode takes more values than the stack has")
        mapping = <object>self.stack[height - 1]
        cls = type(mapping)
        if cls is dict or cls is ODICT or cls is DEFAULTDICT or cls is COUNTER:
            for i in range(height, self.top, 2):
                self.put(mapping, <object>self.stack[i], <object>self.stack[i + 1])
        elif isinstance(mapping, Inert):
            made = {}
            for i in range(height, self.top, 2):
                self.put(made, <object>self.stack[i], <object>self.stack[i + 1])
            self.keep(mapping, made)
        else:
            raise self.wrong(f"setting items of {describe(mapping)}, which is not a mapping")
        return self.drop(height)

    cdef int appends(self, Py_ssize_t height) except -1:
        """Perform APPENDS: append the values above ``height`` to the list below them."""
        cdef object target
        cdef Py_ssize_t i
        if height <= self.fence:
            raise self.wrong("stack underflow: an opcode takes more values than the stack has")
        target = <object>self.stack[height - 1]
        if type(target) is list:
            charge(self, 8 * (self.top - height) + 8)
            for i in range(height, self.top):
                PyList_Append(target, <object>self.stack[i])
        elif not isinstance(target, Inert):
            raise self.wrong(f"appending to {describe(target)}, which is not a list")
        return self.drop(height)

    cdef int add_items(self, Py_ssize_t height) except -1:
        cdef object target
        if height <= self.fence:
            raise self.wrong("stack underflow: an opcode takes more values than the stack has")
        target = <object>self.stack[height - 1]
        if type(target) is set:
            self.fill_set(target, height)
        elif not isinstance(target, Inert):
            raise self.wrong(f"adding items to {describe(target)}, which is not a set")
        return self.drop(height)

    cdef int fill_set(self, object target, Py_ssize_t height) except -1:
        cdef Py_ssize_t i
        for i in range(height, self.top):
            self.add(target, <object>self.stack[i])
        return 0

    # The loop -----------------------------------------------------------------

    cdef object run(self):
        """Run until STOP and return the remaining value."""
        cdef unsigned char op
        cdef object a, b
        cdef unsigned long long n
        while True:
            self.here = self.at
            if self.at >= self.end:
                raise self.truncated("an opcode")
            op = self.data[self.at]
            self.at += 1
            # The most frequent opcodes of a state dict come first, for readability only.
            if op == b'q':                              # BINPUT
                remember(self, byte(self))
            elif op == b'h':                            # BINGET
                recall(self, byte(self))
            elif op == b'r':                            # LONG_BINPUT
                remember(self, word(self))
            elif op == b'j':                            # LONG_BINGET
                recall(self, word(self))
            elif op == 0x94:                            # MEMOIZE
                remember(self, self.memo_next)
            elif op == b'(':                            # MARK
                if self.maker != NULL and self.top > self.fence and self.stack[self.top - 1] == self.maker and self.record():
                    continue
                self.mark()
            elif op == b'X':                            # BINUNICODE
                push(self, self.text(word(self)))
            elif op == 0x8c:                            # SHORT_BINUNICODE
                push(self, self.text(byte(self)))
            elif op == 0x8d:                            # BINUNICODE8
                push(self, self.text(self.number(8)))
            elif op == b'K':                            # BININT1
                push(self, byte(self))
            elif op == b'M':                            # BININT2
                push(self, <long>self.number(2))
            elif op == b'J':                            # BININT
                charge(self, 32)
                push(self, <long><int>word(self))
            elif op == b't':                            # TUPLE
                push(self, self.take(self.unmark()))
            elif op == 0x85 or op == 0x86 or op == 0x87:  # TUPLE1, TUPLE2, TUPLE3
                push(self, self.take(self.top - (op - 0x84)))
            elif op == b')':                            # EMPTY_TUPLE
                push(self, ())
            elif op == b'R':                            # REDUCE
                a = self.pop()
                b = self.pop()
                if type(b) is Known and (<Known>b).part is not None and type(a) is tuple and not <tuple>a and self.is_part():
                    push(self, (<Known>b).part)
                else:
                    push(self, self.call(b, a, False))
            elif op == b'Q':                            # BINPERSID
                push(self, self.persistent(self.pop()))
            elif op == b'c':                            # GLOBAL
                push(self, self.global_())
            elif op == 0x93:                            # STACK_GLOBAL
                push(self, self.stack_global())
            elif op == b'N':                            # NONE
                push(self, None)
            elif op == 0x88:                            # NEWTRUE
                push(self, True)
            elif op == 0x89:                            # NEWFALSE
                push(self, False)
            elif op == b'}':                            # EMPTY_DICT
                charge(self, 80)
                push(self, {})
            elif op == b']':                            # EMPTY_LIST
                charge(self, 72)
                push(self, [])
            elif op == 0x8f:                            # EMPTY_SET
                charge(self, 232)
                push(self, set())
            elif op == b's':                            # SETITEM
                if self.top - 2 < self.fence:
                    raise self.wrong("stack underflow: an opcode takes more values than the stack has")
                self.items(self.top - 2)
            elif op == b'u':                            # SETITEMS
                self.items(self.unmark())
            elif op == b'a':                            # APPEND
                self.appends(self.top - 1)
            elif op == b'e':                            # APPENDS
                self.appends(self.unmark())
            elif op == 0x90:                            # ADDITEMS
                self.add_items(self.unmark())
            elif op == b'G':                            # BINFLOAT
                charge(self, 24)
                push(self, self.double_())
            elif op == b'b':                            # BUILD
                self.build()
            elif op == 0x81:                            # NEWOBJ
                a = self.pop()
                b = self.pop()
                push(self, self.call(b, a, True))
            elif op == 0x92:                            # NEWOBJ_EX
                push(self, self.with_keywords())
            elif op == 0x80:                            # PROTO
                n = self.number(1)
                if n > 5:
                    raise self.wrong(f"pickle protocol {n}; only protocols 0 to 5 are supported")
            elif op == 0x95:                            # FRAME
                n = self.number(8)
                if n > <unsigned long long>(self.end - self.at):
                    raise self.truncated(f"a frame of {n:,} bytes")
            elif op == b'.':                            # STOP
                a = self.pop()
                if self.top or self.n_marks:
                    raise self.wrong(f"{self.top:,} values and {self.n_marks:,} marks are left over at its end")
                return a
            else:
                self.seldom(op)

    cdef bint is_part(self):
        """Return True if the next opcode puts the result into a tuple, as in PyTorch's pickles of a tensor's hooks."""
        cdef Py_ssize_t at = self.at
        if at + 6 > self.end:
            return False
        if self.data[at] == b'r':
            at += 5
        elif self.data[at] == b'q':
            at += 2
        elif self.data[at] == 0x94:
            at += 1
        return self.data[at] == b't'

    cdef int seldom(self, unsigned char op) except -1:
        """Execute an opcode that checkpoints rarely use."""
        cdef Py_ssize_t height
        if op == b'B':                                  # BINBYTES
            self.push(self.raw(self.number(4)))
        elif op == b'C':                                # SHORT_BINBYTES
            self.push(self.raw(self.number(1)))
        elif op == 0x8e:                                # BINBYTES8
            self.push(self.raw(self.number(8)))
        elif op == 0x96:                                # BYTEARRAY8
            self.push(bytearray(self.raw(self.number(8))))
        elif op == 0x8a:                                # LONG1
            self.push(self.long_(self.number(1)))
        elif op == 0x8b:                                # LONG4
            self.push(self.long_(self.length4()))
        elif op == b'T':                                # BINSTRING
            self.push(self.old_text(self.length4()))
        elif op == b'U':                                # SHORT_BINSTRING
            self.push(self.old_text(self.number(1)))
        elif op == b'I' or op == b'L':                  # INT, LONG
            self.push(self.decimal(op == b'L'))
        elif op == b'F':                                # FLOAT
            line = self.line(MAX_DIGITS)
            try:
                self.push(float(line))
            except ValueError:
                raise self.wrong(f"{describe(line)} is not a number") from None
        elif op == b'V':                                # UNICODE
            line = self.line(self.end)
            self.spend(64 + 4 * len(line))
            try:
                self.push(str(line, "raw-unicode-escape"))
            except UnicodeDecodeError:
                raise self.wrong("a string is not Unicode") from None
        elif op == b'S':                                # STRING
            self.push(self.quoted(self.line(self.end)))
        elif op == b'p':                                # PUT
            self.remember(self.index())
        elif op == b'g':                                # GET
            self.recall(self.index())
        elif op == b'l':                                # LIST
            height = self.unmark()
            self.push(list(self.take(height)))
            self.spend(72 + 8 * (self.top - height))
        elif op == b'd':                                # DICT
            height = self.unmark()
            self.dict_(self.take(height))
        elif op == 0x91:                                # FROZENSET
            height = self.unmark()
            made = set()
            self.fill_set(made, height)
            self.drop(height)
            self.spend(232 + 128 * len(made))
            self.push(frozenset(made))
        elif op == b'0':                                # POP
            if self.n_marks and self.top == self.fence:
                self.unmark()
            else:
                self.pop()
        elif op == b'1':                                # POP_MARK
            self.drop(self.unmark())
        elif op == b'2':                                # DUP
            self.push(self.peek())
        elif op == b'i' or op == b'o':                  # INST, OBJ
            self.old_object(op)
        elif op == b'P':                                # PERSID
            self.push(self.persistent(self.line(4096).decode("ascii", "replace")))
        elif op >= 0x82 and op <= 0x84:
            raise self.wrong(f"EXT{(1, 2, 4)[op - 0x82]}: an extension code, whose name is not in the file")
        elif op == 0x97 or op == 0x98:
            raise self.wrong("NEXT_BUFFER and READONLY_BUFFER take data from outside the file, which is not supported")
        else:
            raise self.wrong(f"0x{op:02x} is not a pickle opcode")
        return 0

    cdef int dict_(self, tuple pairs) except -1:
        cdef dict made = {}
        cdef Py_ssize_t i
        self.spend(80)
        if len(pairs) & 1:
            raise self.wrong("DICT with a key that has no value")
        for i in range(0, len(pairs), 2):
            self.put(made, pairs[i], pairs[i + 1])
        return self.push(made)

    cdef int old_object(self, unsigned char op) except -1:
        """Perform INST or OBJ: call a class with the values above the mark as arguments."""
        cdef Py_ssize_t height
        if op == b'i':
            cls = self.global_()
            height = self.unmark()
            args = self.take(height)
        else:
            height = self.unmark()
            args = self.take(height)
            if not args:
                raise self.wrong("stack underflow: an opcode takes more values than the stack has")
            cls, args = args[0], args[1:]
        return self.push(self.call(cls, args, False))
